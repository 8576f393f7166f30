"""Soar: byte streams inside DNS questions and answers, the last resort of a race (docs/soar-spec.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from transports.soar._transport import Soar, make
from transports.soar.core.crypto.keys import ServerKey

if TYPE_CHECKING:
    from transports.soar._server import SoarServer

__all__ = ("ServerKey", "Soar", "SoarServer", "generate_key", "make")


def generate_key() -> ServerKey:
    """Return a new key for a server; `key.public.to_text()` is what its clients need."""
    return ServerKey.generate(os.urandom)


def __getattr__(name: str) -> object:
    if name == "SoarServer":  # clients have no use for it, and would wait for its import
        from transports.soar._server import SoarServer  # noqa: PLC0415

        return SoarServer
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
