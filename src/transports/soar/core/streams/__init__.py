"""Frames, and ordered bytes with flow control; the same for both sides."""

from __future__ import annotations

__all__ = ()
