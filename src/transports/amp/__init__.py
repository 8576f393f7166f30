"""A transport for requests through AMP caches, and the broker that it takes."""

from __future__ import annotations

from transports.amp._broker import AmpBroker
from transports.amp._config import make
from transports.amp._keys import generate_key, public_key_of
from transports.amp._transport import Amp

__all__ = ("Amp", "AmpBroker", "generate_key", "make", "public_key_of")
