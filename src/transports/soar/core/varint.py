"""RFC 9000 varints (placeholder, being written)."""

from __future__ import annotations

__all__ = ()
