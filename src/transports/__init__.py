"""The transports that come with racer; import a room by name, such as `transports.direct`."""

from __future__ import annotations

__all__ = ()
