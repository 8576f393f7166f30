"""What several transports need of the network; rooms import from here, never from each other."""

from __future__ import annotations

__all__ = ()
