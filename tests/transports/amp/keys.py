"""One key pair for all the tests of the room: making and checking a key of RSA takes tens of milliseconds."""

from __future__ import annotations

from transports.amp import generate_key, public_key_of
from transports.amp._crypto import read_private_key, read_public_key

__all__ = ("PRIVATE", "PRIVATE_PEM", "PUBLIC", "PUBLIC_PEM")

PRIVATE_PEM = generate_key()
PRIVATE = read_private_key(PRIVATE_PEM)
PUBLIC_PEM = public_key_of(PRIVATE_PEM)
PUBLIC = read_public_key(PUBLIC_PEM)
