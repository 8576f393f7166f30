"""Race several ways to reach a host, keep the first that works, and trace every attempt."""

from __future__ import annotations

__all__ = ()
