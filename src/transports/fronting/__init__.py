"""A transport for requests: domain fronting through the edges of big networks."""

from __future__ import annotations

from transports.fronting._config import make
from transports.fronting._transport import Fronting

__all__ = ("Fronting", "make")
