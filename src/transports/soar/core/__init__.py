"""Soar without IO, clock or dice: bytes and an `Instant` in; bytes, events and the next deadline out."""

from __future__ import annotations

__all__ = ()
