"""Soar: byte streams inside DNS questions and answers, the last resort of a race (docs/soar-spec.md)."""

from __future__ import annotations

import os

from transports.soar._server import SoarServer
from transports.soar._transport import Soar, make
from transports.soar.core.crypto.keys import ServerKey

__all__ = ("ServerKey", "Soar", "SoarServer", "generate_key", "make")


def generate_key() -> ServerKey:
    """Return a new key for a server; `key.public.to_text()` is what its clients need."""
    return ServerKey.generate(os.urandom)
