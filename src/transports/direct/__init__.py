"""The transport that goes straight to the target, as any program would."""

from __future__ import annotations

from transports._net.addresses import Family
from transports._net.resolve import Answer, Resolver, SystemResolver
from transports.direct._transport import Direct, make

__all__ = ("Answer", "Direct", "Family", "Resolver", "SystemResolver", "make")
