"""The side that answers: copies of questions, parking, sessions and how they end."""

from __future__ import annotations

__all__ = ()
