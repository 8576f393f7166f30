"""The operator's program: keys, grants, and the server itself (S25)."""

from __future__ import annotations

__all__ = ()
