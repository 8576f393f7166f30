"""A web server's side of HTTP/1.1 over h11, for pages that are fetched and nothing else; bounded in size and time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import h11

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

__all__ = ("Page", "serve_pages")

MAX_HEAD: Final = 48 * 1024
"""Octets of a request: a URL of 32,000 characters, and header fields."""

MAX_BODY: Final = 4096
"""Octets of a request's body, which no page has a use for."""

IDLE_TIMEOUT: Final = 30.0
"""Seconds for the next whole request."""

SEND_TIMEOUT: Final = 60.0
"""Seconds that a client may take over a page."""

_TEXTS: Final = {
    400: b"bad request",
    404: b"not found",
    405: b"method not allowed",
    410: b"gone",
    503: b"busy",
}


@dataclass(frozen=True, slots=True)
class Page:
    """What a path has.

    Attributes:
        status: 200, or why not.
        content: HTML.
    """

    status: int
    content: bytes = field(default=b"", repr=False)


async def serve_pages(stream: ByteStream, page_at: Callable[[str], Awaitable[Page]]) -> None:
    """Answer requests on `stream`, one after the other, until the client ends or breaks a rule; closing it is the caller's.

    Raises:
        OSError, anyio.BrokenResourceError, anyio.EndOfStream: the path broke.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    while True:
        try:
            with anyio.fail_after(IDLE_TIMEOUT):
                request = await _next_request(stream, http)
        except h11.RemoteProtocolError as exc:
            if http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                await _send(stream, http, Page(exc.error_status_hint), head_only=False)
            return
        if request is None:
            return
        page = await _page_for(request, page_at)
        await _send(stream, http, page, head_only=request.method == b"HEAD")
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return
        http.start_next_cycle()


async def _page_for(request: h11.Request, page_at: Callable[[str], Awaitable[Page]]) -> Page:
    if request.method not in {b"GET", b"HEAD"}:
        return Page(405)
    try:
        path = request.target.decode("ascii")
    except UnicodeDecodeError:
        return Page(400)
    return await page_at(path)


async def _next_request(stream: ByteStream, http: h11.Connection) -> h11.Request | None:
    """Return the next request, its body read away; `None` at the end."""
    request: h11.Request | None = None
    body = 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive())
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += len(event.data)
            if body > MAX_BODY:
                msg = "a body that is too long"
                raise h11.RemoteProtocolError(msg, error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


async def _send(stream: ByteStream, http: h11.Connection, page: Page, *, head_only: bool) -> None:
    content = page.content if page.status == 200 else _TEXTS.get(page.status, b"no") + b"\n"
    kind = b"text/html; charset=utf-8" if page.status == 200 else b"text/plain"
    fields = [
        (b"Content-Type", kind),
        (b"Content-Length", str(len(content)).encode()),
        # A cache keeps it for 15 s at least in any case, and nobody asks for it twice.
        (b"Cache-Control", b"max-age=15" if page.status == 200 else b"no-store"),
    ]
    parts = [http.send(h11.Response(status_code=page.status, headers=fields)) or b""]
    if not head_only:
        parts.append(http.send(h11.Data(data=content)) or b"")
    parts.append(http.send(h11.EndOfMessage()) or b"")
    with anyio.fail_after(SEND_TIMEOUT):
        await stream.send(b"".join(parts))
