"""Soar: byte streams inside DNS questions and answers, the last resort of a race (docs/soar-spec.md)."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transports.soar._server import SoarServer
    from transports.soar._transport import Soar, make
    from transports.soar.core.crypto.keys import ServerKey

__all__ = ("ServerKey", "Soar", "SoarServer", "generate_key", "make")


# Clients have no use for the server, the command's list of commands for neither, and all of them would wait.
_HOMES: Final = {
    "ServerKey": "transports.soar.core.crypto.keys",
    "Soar": "transports.soar._transport",
    "SoarServer": "transports.soar._server",
    "make": "transports.soar._transport",
}


def generate_key() -> ServerKey:
    """Return a new key for a server; `key.public.to_text()` is what its clients need."""
    from transports.soar.core.crypto.keys import ServerKey  # noqa: PLC0415 - as below

    return ServerKey.generate(os.urandom)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # for who explores: also what was not loaded yet
