"""HTTP over the race, for httpx and httpx2: `RacerTransport` in your own client, or ready clients.

* `RacerTransport`, `SyncRacerTransport`: for `transport=` of any client of either library.
* `AsyncClient`, `Client`: httpx's own with such a transport; `classes_for(httpx2)` gives httpx2's.
* `Limits`, `Via`, `RequestFailed`: how many connections are kept, by which way a response came, and why none did.
* `racer.http.http2`: an HTTP/2 client for one connection that survives cancellation.

Names are loaded when first used, so that whoever needs the HTTP/2 client alone does not load an HTTP library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from racer.http._clients import AsyncClient, Client, ClientClasses, classes_for
    from racer.http._faults import RequestFailed
    from racer.http._messages import Via
    from racer.http._pool import Limits
    from racer.http._sync import SyncRacerTransport
    from racer.http._transport import RacerTransport

__all__ = (
    "AsyncClient",
    "Client",
    "ClientClasses",
    "Limits",
    "RacerTransport",
    "RequestFailed",
    "SyncRacerTransport",
    "Via",
    "classes_for",
)

_HOME: Final = {
    "AsyncClient": "_clients",
    "Client": "_clients",
    "ClientClasses": "_clients",
    "Limits": "_pool",
    "RacerTransport": "_transport",
    "RequestFailed": "_faults",
    "SyncRacerTransport": "_sync",
    "Via": "_messages",
    "classes_for": "_clients",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    """Load what is named."""
    home = _HOME.get(name)
    if home is None:
        msg = f"module 'racer.http' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f"racer.http.{home}"), name)
