"""The side that asks: paths, recovery, polls, sessions and their pool."""

from __future__ import annotations

__all__ = ()
