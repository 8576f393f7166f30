"""Requests as pages of a broker, fetched through an AMP cache."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from racer.abc import RequestTransport, Target, Traits, TransportStatus
from racer.errors import ConfigError, TransportError
from transports._net.connector import Connector
from transports._net.resolve import SystemResolver
from transports._net.tls import ClientContext
from transports.amp._allow import AllowList
from transports.amp._crypto import read_public_key
from transports.amp._doors import Door, DoorDialer, Doors
from transports.amp._messages import InnerRequest
from transports.amp._route import AmpRoute, Broker, url_length
from transports.amp._urls import cache_place, read_base_url

if TYPE_CHECKING:
    import ssl

    from racer.abc import DialTCP, Host, Origin

__all__ = ("Amp",)

MAX_URL: Final = 8000
"""Characters of a URL: what every server is asked to take (RFC 9110 §4.1), and few take much more."""

MAX_URL_MOST: Final = 32_000
MAX_SOCKETS: Final = 16
_RESERVE: Final = (
    160  # what a short URL and the names of JSON take, which no request's own bytes show
)


class Amp(RequestTransport):
    """Requests hidden in the URLs of pages that an AMP cache fetches from a broker, and answers hidden in the pages.

    An observer sees TLS with the cache, or with a front that serves the cache's names too. The cache sees that somebody asks
    for pages of the broker, and nothing of what they say: only the broker reads that, and so has to be trusted with it.

    A request has to fit into a URL whole, its headers counted; `max_request_bytes` of the traits is what always does.

    Args:
        broker_url: where the broker is, as the cache reaches it.
        public_key: the broker's: a PEM text `PUBLIC KEY` of RSA.
        cache_url: the cache's base URL; `None` asks the broker itself.
        fronts: names that the cache is reached under, `host` or `host:port`; none for its own.
        allow: origins that the broker is known to serve, as `AmpBroker` takes them; `None` lets it say so itself.
        max_url: characters that a URL may have, 2000 to 32,000.
        tls: the context for the cache, used as it is; `None` for the system's trust.
        dial_tcp: makes every TCP connection in place of our own sockets. Names are looked up before it is called.
        name: what reports and spans call it.

    Raises:
        ConfigError: an option that cannot be; says which, and why.
    """

    def __init__(
        self,
        broker_url: str,
        public_key: str | bytes,
        *,
        cache_url: str | None = "https://cdn.ampproject.org",
        fronts: Sequence[str] = (),
        allow: Sequence[str] | None = None,
        max_url: int = MAX_URL,
        tls: ssl.SSLContext | None = None,
        dial_tcp: DialTCP | None = None,
        name: str = "amp",
    ) -> None:
        """Check everything; nothing is opened."""
        self.name = name
        _check_max_url(max_url)
        place = read_base_url(broker_url, "broker_url")
        if cache_url is not None:
            place = cache_place(place, read_base_url(cache_url, "cache_url"))
        self._broker = Broker(place, read_public_key(public_key), max_url=max_url)
        self._allow = None if allow is None else AllowList(allow)
        own = Door(place.host, place.port, place.scheme == "https")
        doors = [_door(front, own) for front in _texts(fronts, "fronts")] or [own]
        self._doors = Doors(doors, random.SystemRandom())
        self._context = ClientContext(tls, alpn=("h2", "http/1.1"))
        self._uses_tls = any(door.tls for door in doors)
        self._dialer = DoorDialer(
            Connector(SystemResolver(), dial_tcp=dial_tcp),
            self._context,
            self._doors,
            most=MAX_SOCKETS,
        )
        self._is_closed = False
        self.traits = Traits(
            start_delay=1.0,
            attempt_timeout=30.0,
            streaming=False,
            max_concurrent=MAX_SOCKETS,
            max_request_bytes=_largest(self._broker),
        )

    def serves(self, target: Target) -> str | None:
        """Return why the broker could not carry requests to `target`, as far as is known here."""
        if not isinstance(target.tls, bool):
            return "TLS with the target is the broker's, where a context of the caller's own verifies nothing"
        if "%" in target.host:
            return "the target's address names an interface of this machine"
        scheme = "https" if target.tls else "http"
        if self._allow is not None and not self._allow.allows(scheme, target.host, target.port):
            return "the broker does not serve this origin"
        return None

    async def start(self, host: Host) -> None:
        """Read the system's trust store, if it is needed."""
        del host
        if self._uses_tls:
            await self._context.get()
        self._is_closed = False

    async def prepare(self, origin: Origin) -> AmpRoute:
        """Return a route to `origin` with a line to the cache; the caller closes it. Cancelling leaves nothing open.

        That the broker lives, and serves the origin, shows with the first request.

        Raises:
            TransportBusy: too many connections are open.
            TransportError: no door of the cache opened, or it was closed.
        """
        if self._is_closed:
            msg = f"transport {self.name!r} was closed"
            raise TransportError(msg)
        line = await self._dialer.dial()
        return AmpRoute(origin, line, broker=self._broker, dialer=self._dialer, doors=self._doors)

    def status(self) -> TransportStatus:
        """Return how many connections are open."""
        return TransportStatus(details={"connections": self._dialer.open})

    async def aclose(self) -> None:
        """Prepare no more; routes that were handed out are their holders'."""
        self._is_closed = True

    def __repr__(self) -> str:
        """Return what shapes it; no host and no key."""
        return (
            f"<{type(self).__name__} {self.name!r}: at most {self.traits.max_request_bytes} bytes>"
        )


def _check_max_url(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 2000 <= value <= MAX_URL_MOST:
        msg = f"max_url must be a whole number from 2000 to {MAX_URL_MOST}"
        raise ConfigError(msg)


def _largest(broker: Broker) -> int:
    """Return the largest request, as HTTP/1.1 writes it, that fits into a URL whatever it is made of.

    Its body is what costs the most: coded in base64 three times. The rest is measured with a request of that size.
    """
    low, high = 0, broker.max_url
    while low < high:
        middle = (low + high + 1) // 2
        request = InnerRequest(method="POST", url="https://h/" + "p" * _RESERVE, body=bytes(middle))
        if url_length(broker, request) <= broker.max_url:
            low = middle
        else:
            high = middle - 1
    if low < 1:
        msg = "max_url is too short for this broker's URL and key"
        raise ConfigError(msg)
    return low


def _door(front: str, own: Door) -> Door:
    target = Target.parse(front, None if _has_port(front) else own.port, tls=False)
    return Door(target.host, target.port, own.tls)


def _has_port(text: str) -> bool:
    return text.rpartition("]")[2].count(":") == 1


def _texts(values: Any, option: str) -> tuple[str, ...]:  # noqa: ANN401 - a caller's
    if isinstance(values, str) or not isinstance(values, Sequence):
        msg = f"{option} must be a list of names, not {type(values).__name__}"
        raise ConfigError(msg)
    if not all(isinstance(value, str) for value in values):
        msg = f"{option} must be a list of names"
        raise ConfigError(msg)
    return tuple(values)
