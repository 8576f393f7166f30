"""Requests to one origin, each as a page that a cache fetches from the broker."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from racer.errors import (
    AttemptTimeout,
    LocalProtocolError,
    NotUsable,
    RemoteProtocolError,
    Stage,
    TargetRefused,
    TransportError,
    error_type_of,
)
from transports._net.app_requests import AppRequest, ConnectError, make_response, read_request
from transports._net.drive import close_by_force
from transports._net.http_client import RequestHead, ResponseHead
from transports.amp._armor import MAX_PAGE, unarmor
from transports.amp._crypto import KEY, NONCE, open_answer, seal_request
from transports.amp._messages import FAILURE_FIELD, InnerRequest, InnerResponse
from transports.amp._urls import BUSTER, PREFIX, Place, encode_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import AsyncResource
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from racer.abc import Origin
    from transports.amp._doors import DoorDialer, Doors, Line

__all__ = ("AmpRoute", "Broker", "url_length")

MAX_TRIES: Final = 3
"""Times that a request is sent at most, where it may be sent again."""

ANSWER_TIMEOUT: Final = 60.0
"""Seconds for a whole answer: the broker has its own bound below that."""

IDLE_MOST: Final = 30.0
IDLE_FOR_ONE_SHOT: Final = 5.0

MAX_BODY: Final = 64 * 1024
"""Octets of a body that are read where its length is not known; no URL holds as much."""


class Broker:
    """Where the broker's pages are, and how to seal what goes there.

    Args:
        place: where pages are asked for: the cache's place for them, or the broker's own.
        public_key: the broker's.
        max_url: characters that a URL may have.
    """

    def __init__(self, place: Place, public_key: RSAPublicKey, *, max_url: int) -> None:
        """Keep the arguments."""
        self.place = place
        self.max_url = max_url
        self._public_key = public_key

    def sealed(self, inner: InnerRequest) -> tuple[str, Callable[[bytes], InnerResponse]]:
        """Return the path of a page that carries `inner`, and what reads its answer.

        Raises:
            LocalProtocolError: the URL would be too long; nothing was sent.
        """
        key, nonce = secrets.token_bytes(KEY), secrets.token_bytes(NONCE)
        payload = seal_request(inner.to_json(), self._public_key, key=key, nonce=nonce)
        path = self.place.path + PREFIX + encode_path(payload, secrets.token_bytes(BUSTER))
        length = len(str(self.place)) - len(self.place.path) + len(path)
        if length > self.max_url:
            msg = f"the request, with its headers, makes a URL of {length} characters, and at most {self.max_url} are sent"
            raise LocalProtocolError(msg)

        def read(page: bytes) -> InnerResponse:
            return InnerResponse.from_json(open_answer(unarmor(page), key=key, nonce=nonce))

        return path, read


class AmpRoute:
    """A way to one origin through a cache and a broker. Several requests may run at once, each over a line of its own."""

    def __init__(
        self, origin: Origin, line: Line, *, broker: Broker, dialer: DoorDialer, doors: Doors
    ) -> None:
        """Own `line` from now on."""
        self._origin = origin
        self._host = origin.host.lower().rstrip(".")
        self._broker = broker
        self._dialer = dialer
        self._doors = doors
        self._idle = [line]
        self._is_closed = False

    async def handle(self, request: Any) -> Any:  # noqa: ANN401 - of httpx or httpx2
        """Return the response to a `Request` of httpx or httpx2, as a `Response` of the same, whole.

        One that may be repeated (`AppRequest.is_repeatable`) is sent up to three times; any other once, and the broker
        performs it once, however often a cache fetches the page.

        Raises:
            LocalProtocolError: not a request to this origin, or one that does not fit into a URL; nothing was sent.
            TargetRefused: the broker may not, or could not, reach the origin.
            ConnectError: no door opened, and nothing was sent.
            NotUsable: the cache, or something before it, gave another page than the broker's.
            TransportError: the path failed.
        """
        if self._is_closed:
            msg = "the route was closed"
            raise TransportError(msg)
        app = read_request(request)
        host = app.host.lower().rstrip(".")
        if (app.scheme, host, app.port) != (self._origin.scheme, self._host, self._origin.port):
            msg = f"a route to {self._host} was asked for {app.scheme}://{host}:{app.port}"
            raise LocalProtocolError(msg)
        inner = InnerRequest(
            method=app.method, url=app.url, fields=app.fields, body=await _whole_body(app)
        )
        answer = await self._ask(app, inner)
        failure = dict(answer.fields).get(FAILURE_FIELD)
        if failure is not None:
            msg = f"the broker says: {failure[:200].decode('latin-1')}"
            raise TargetRefused(msg)
        return _response(request, answer)

    async def aclose(self) -> None:
        """Close what is idle; again does nothing."""
        self._is_closed = True
        while self._idle:
            try:
                await self._idle.pop().aclose()
            except BaseException:
                await self.aclose()  # the others
                raise

    def __repr__(self) -> str:
        """Say nothing of where it leads."""
        return f"<{type(self).__name__}, {len(self._idle)} idle>"

    async def _ask(self, app: AppRequest, inner: InnerRequest) -> InnerResponse:
        for left in reversed(range(MAX_TRIES)):
            path, read = self._broker.sealed(inner)  # a new page each time
            try:
                line = await self._line(app)
            except TransportError as exc:
                if left < MAX_TRIES - 1:
                    raise
                raise ConnectError(str(exc), error_type=error_type_of(exc)) from exc
            was_used, line.is_used = line.is_used, True
            try:
                answer = read(await self._fetch(line, path, app.read_timeout))
            except (TransportError, RemoteProtocolError) as exc:
                await line.aclose()
                if not was_used:
                    self._doors.failed(line.door, anyio.current_time())
                if not app.is_repeatable or not left:
                    if isinstance(exc, RemoteProtocolError):
                        raise NotUsable(str(exc), stage=Stage.VERIFY) from exc
                    raise
            except BaseException:
                await line.aclose()
                raise
            else:
                self._doors.succeeded(line.door)
                await self._give_back(line)
                return answer
        raise AssertionError  # the last turn returns or raises

    async def _line(self, app: AppRequest) -> Line:
        most = IDLE_MOST if app.is_repeatable else IDLE_FOR_ONE_SHOT
        while self._idle:
            line = self._idle.pop()
            is_old = anyio.current_time() - line.idle_since > most
            if line.connection.is_idle and not line.connection.has_hung_up() and not is_old:
                return line
            await line.aclose()
        return await self._dialer.dial()

    async def _give_back(self, line: Line) -> None:
        if self._is_closed or not line.connection.is_idle:
            await line.aclose()
            return
        line.idle_since = anyio.current_time()
        self._idle.append(line)

    async def _fetch(self, line: Line, path: str, read_timeout: float | None) -> bytes:
        """Return a page, whole."""
        limit = min(ANSWER_TIMEOUT, ANSWER_TIMEOUT if read_timeout is None else read_timeout)
        head = RequestHead(
            method="GET",
            authority=self._broker.place.authority,
            target=path,
            fields=((b"Accept", b"*/*"),),
        )
        with anyio.move_on_after(limit):
            answer = await line.connection.request(head, b"")
            _check_page(answer)
            page = bytearray()
            while chunk := await line.connection.receive_body():
                page += chunk
                if len(page) > MAX_PAGE:
                    msg = f"a page of more than {MAX_PAGE} octets"
                    raise RemoteProtocolError(msg)
            return bytes(page)
        msg = f"no answer within {limit:g} s"
        raise AttemptTimeout(msg, stage=Stage.VERIFY)


def url_length(broker: Broker, inner: InnerRequest) -> int:
    """Return how many characters the URL for a request has; sealing is measured, not reckoned."""
    path, _ = Broker(broker.place, broker._public_key, max_url=1 << 30).sealed(inner)  # noqa: SLF001 - its own kind
    return len(str(broker.place)) - len(broker.place.path) + len(path)


def _check_page(answer: ResponseHead) -> None:
    """Raise unless the cache gives a page of the broker's."""
    status = answer.status
    if answer.get(b"location") is not None:
        # Also with 200: a cache that takes a page for no AMP sends its readers past itself by a script.
        msg = f"the cache answered with {status} and a redirect past itself, which is not followed"
        raise RemoteProtocolError(msg)
    if status == 404:
        msg = "the cache answered with 404: the broker failed, or is not there"
        raise RemoteProtocolError(msg)
    if status != 200:
        msg = f"the page was answered with {status}"
        raise RemoteProtocolError(msg)


async def _whole_body(app: AppRequest) -> bytes:
    if isinstance(app.body, bytes):
        return app.body
    body = bytearray()
    try:
        async for chunk in app.body:
            body += chunk
            if len(body) > MAX_BODY:
                msg = f"a body of more than {MAX_BODY} octets does not fit into a URL"
                raise LocalProtocolError(msg)
    finally:
        if isinstance(app.body, AsyncGenerator):  # it may be left half-way
            await close_by_force(cast("AsyncResource", app.body))
    return bytes(body)


def _response(request: Any, answer: InnerResponse) -> Any:  # noqa: ANN401 - of either library
    left = [answer.body]
    # It came whole: what was said of its transfer is over, and its coding is not.
    gone = {b"content-length", b"transfer-encoding", b"connection"}
    fields = tuple((n, v) for n, v in answer.fields if n not in gone)
    fields = (*fields, (b"content-length", str(len(answer.body)).encode()))

    async def receive() -> bytes:
        await anyio.lowlevel.checkpoint()
        return left.pop() if left else b""

    async def aclose() -> None:
        left.clear()
        await anyio.lowlevel.checkpoint()

    head = ResponseHead(status=answer.status, fields=fields, http_version="HTTP/1.1")
    return make_response(request, head, receive, aclose)
