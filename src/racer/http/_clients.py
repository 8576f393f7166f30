"""Ready clients: httpx's own, or httpx2's, with a transport that races (H9)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypedDict

import httpx

from racer._dialer import Dialer
from racer.errors import ConfigError
from racer.http._sync import SyncRacerTransport
from racer.http._transport import RacerTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Container, Iterable
    from types import ModuleType
    from typing import Unpack

    from racer._roster import Entrant
    from racer.abc import Guest
    from racer.http._pool import Limits

__all__ = ("AsyncClient", "Client", "ClientClasses", "ClientOptions", "classes_for")

_PATIENCE: Final = 30.0  # seconds to read and to write; connecting takes what the dialer gives it

_REFUSED: Final = {
    "app": "a request to an application in this process goes by no network",
    "cert": "give ssl_context=, with the client's certificate loaded into it",
    "mounts": "a mounted transport would go round the race",
    "proxies": "a proxy is an entrant of the race: transports.proxy.Socks5, HttpConnect",
    "proxy": "a proxy is an entrant of the race: transports.proxy.Socks5, HttpConnect",
    "transport": "this client brings its own; give a RacerTransport to a plain client instead",
    "uds": "a Unix socket has no race",
    "verify": "give ssl_context=, which says what is trusted",
}
_OURS: Final = frozenset(
    {"http1", "http2", "limits", "retry_statuses", "ssl_context", "tag_requests"}
)


class ClientOptions(TypedDict, total=False):
    """What the clients take by keyword: the options of `RacerTransport`, and those of httpx's clients that fit."""

    http1: bool
    http2: bool
    ssl_context: ssl.SSLContext | None
    limits: Limits | httpx.Limits | None
    retry_statuses: Container[int]
    tag_requests: str | None
    auth: Any
    params: Any
    headers: Any
    cookies: Any
    timeout: Any
    follow_redirects: bool
    max_redirects: int
    event_hooks: Any
    base_url: Any
    trust_env: bool
    default_encoding: str | Callable[[bytes], str]


class _Racing:
    """What both kinds of client share: options are sorted, what goes round the race is refused."""

    _library: ModuleType = httpx
    _transport_class: Any

    def __init__(
        self,
        dialer: Dialer | Iterable[Entrant | Guest] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Touch no event loop.

        Args:
            dialer: who races, closed by whoever made it; or a list of entrants, for a dialer that ends with the client;
                `None` for the default dialer.
            **options: as `ClientOptions`. Timeouts are 30 s for reading and writing unless `timeout` says otherwise, and
                for connecting what the dialer gives a race.

        Raises:
            ConfigError: an option that would go round the race, or cannot be.
        """
        told: dict[str, Any] = dict(options)
        for name, why in _REFUSED.items():
            if told.pop(name, None) is not None:
                msg = f"{name}= does not fit here: {why}"
                raise ConfigError(msg)
        ours = {name: told.pop(name) for name in _OURS & told.keys()}
        made = None
        if dialer is not None and not isinstance(dialer, Dialer):
            dialer = made = Dialer(dialer)
        transport: Any = self._transport_class(dialer, **ours)
        if made is not None:
            transport.own_dialer()
        told.setdefault("timeout", self._library.Timeout(_PATIENCE, connect=None, pool=None))
        init: Any = super().__init__  # the library's client's
        init(transport=transport, **told)


class _AsyncRacing(_Racing):
    _transport_class = RacerTransport


class _SyncRacing(_Racing):
    _transport_class = SyncRacerTransport


class AsyncClient(_AsyncRacing, httpx.AsyncClient):
    """httpx's `AsyncClient` over the race: the same methods, cookies, auth, redirects, each hop a race of its own.

    Close it, or enter it: a dialer that it made from a list of entrants ends with it.
    """


class Client(_SyncRacing, httpx.Client):
    """httpx's `Client` over the race, as `AsyncClient`; for programs without an event loop, from any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClasses:
    """The clients of one library.

    Attributes:
        AsyncClient: as `racer.http.AsyncClient`.
        Client: as `racer.http.Client`.
    """

    AsyncClient: type[Any]
    Client: type[Any]


@cache
def classes_for(library: ModuleType) -> ClientClasses:
    """Return clients over the race that are clients of `library`: the module httpx or httpx2.

    Raises:
        ConfigError: it is neither.
    """
    if library is httpx:
        return ClientClasses(AsyncClient=AsyncClient, Client=Client)
    if not all(hasattr(library, name) for name in ("AsyncBaseTransport", "AsyncClient", "Client")):
        msg = f"the module httpx or httpx2 was expected, not {library!r:.80}"
        raise ConfigError(msg)
    return ClientClasses(
        AsyncClient=_class_of(AsyncClient, _AsyncRacing, library.AsyncClient, library),
        Client=_class_of(Client, _SyncRacing, library.Client, library),
    )


def _class_of(model: type, racing: type, base: type, library: ModuleType) -> type[Any]:
    return type(
        model.__name__,
        (racing, base),
        {"__doc__": model.__doc__, "__module__": __name__, "_library": library},
    )
