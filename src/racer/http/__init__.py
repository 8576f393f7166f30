"""HTTP over the race, for httpx and httpx2: `RacerTransport` in your own client, or ready clients.

* `RacerTransport`, `SyncRacerTransport`: for `transport=` of any client of either library.
* `AsyncClient`, `Client`: httpx's own with such a transport; `classes_for(httpx2)` gives httpx2's.
* `Limits`, `Via`, `RequestFailed`: how many connections are kept, by which way a response came, and why none did.
"""

from __future__ import annotations

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
