"""The server's side of an HTTP/1.1 proxy over h11, without IO: requests in, answers out."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final

import h11

from racer.proxy._http_requests import Head, Unservable, asked_for, end_to_end
from racer.proxy._requests import Refusal, Spoken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from racer.proxy._requests import Event
    from racer.proxy._users import Users
    from racer.proxy._verdicts import Verdict

__all__ = ("END", "MAX_HEAD", "MAX_REFUSALS", "HttpServer")

MAX_HEAD: Final = 64 * 1024
"""Octets of a request's head; other servers allow 8 KiB to 64 KiB, and cookies of plain HTTP can be long."""

MAX_REFUSALS: Final = 4
"""Requests of one connection that are refused before it is closed: a browser asks again with the right password."""


_MAX_LINE: Final = 16 * 1024  # octets of the first line; no URL is longer that any site takes
_METHOD: Final = re.compile(rb"[A-Za-z-]{1,32}(?: |\Z)")
_REQUEST_LINE: Final = re.compile(rb"[A-Za-z-]{1,32} \S+ HTTP/[0-9]\.[0-9]\r?\Z")


class _End(enum.Enum):
    END = "end"


END: Final = _End.END
"""A request's body is complete."""


class HttpServer:
    """The requests of one client, one after the other.

    Give what comes to `receive_data()`, ask `next_event()` until it gives something, and send `bytes_to_send()` each time.

    Args:
        users: who may come.
        pages: whether there are pages of the proxy's own.
        own_address: the address that the client has connected to; `None` where nobody knows.
    """

    def __init__(
        self, users: Users, *, pages: bool = False, own_address: str | None = None
    ) -> None:
        """Await the first request."""
        self._users = users
        self._pages = pages
        self._own_address = own_address
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._outgoing = b""
        self._refusals = 0
        self._is_head = False
        self._line = b""
        self._is_http: bool | None = None

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the client, cut anywhere."""
        if self._is_http is None:
            self._line += data[:_MAX_LINE]
            self._is_http = _is_http(self._line)
        self._http.receive_data(data)

    def bytes_to_send(self) -> bytes:
        """Return what is to be sent now, once."""
        data, self._outgoing = self._outgoing, b""
        return data

    @property
    def leftover(self) -> bytes:
        """What came behind a CONNECT that was accepted: it is for the target."""
        return bytes(self._http.trailing_data[0])

    def next_event(self) -> Event | None:
        """Return what the client wants, or why it gets nothing; `None` when more bytes are needed.

        After a refusal that is not final, ask again.
        """
        if self._is_http is False:
            return self._refuse(
                Unservable(400, "That is neither SOCKS5 nor HTTP: this port is a proxy."), None
            )
        try:
            event = self._http.next_event()
            if not isinstance(event, h11.Request):
                return None  # NEED_DATA, or the end of its side between two requests
            head = _head_of(event)
            self._is_head = head.method == "HEAD"
            if event.http_version not in {b"1.0", b"1.1"}:
                return self._refuse(Unservable(505, "This proxy speaks HTTP/1.1."), head)
            if not head.has_body:
                self._http.next_event()  # its end
        except h11.RemoteProtocolError as exc:
            status = exc.error_status_hint
            words = f"That is no HTTP request: {exc}."
            return self._refuse(Unservable(status, words), None)
        try:
            return asked_for(head, self._users, pages=self._pages, own_address=self._own_address)
        except Unservable as exc:
            return self._refuse(exc, head)

    def next_body(self) -> bytes | _End | None:
        """Return a piece of the request's body, `END` behind the last, `None` when more bytes are needed.

        Raises:
            h11.RemoteProtocolError: the client breaks off, or breaks the rules.
        """
        if self._http.their_state is not h11.SEND_BODY:
            return END
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        event = self._http.next_event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        return END if isinstance(event, h11.EndOfMessage) else None

    def accept(self) -> None:
        """Say that the tunnel stands."""
        self._send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))

    def refuse(self, verdict: Verdict, *, close: bool = False) -> None:
        """Answer a tunnel, or a request that was not forwarded, with why; the client may ask again unless `close`."""
        fields = (("Proxy-Status", f"racer; error={verdict.error}"),)
        self._answer(verdict.status, verdict.body, fields, close=close)

    def page(self, status: int, content_type: str, body: bytes) -> None:
        """Answer with a page of the proxy's own."""
        self._answer(status, body, (), content_type=content_type)

    def respond(self, status: int, reason: bytes, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """Begin to forward a response.

        Raises:
            h11.LocalProtocolError: nobody could forward this.
        """
        kept = end_to_end(fields)
        if not self._is_reusable:
            kept.append((b"Connection", b"close"))
        self._send(h11.Response(status_code=status, headers=kept, reason=reason))

    def send_body(self, data: bytes) -> None:
        """Forward a piece of the response's body.

        Raises:
            h11.LocalProtocolError: it is longer than it was said to be.
        """
        self._send(h11.Data(data=data))

    def end_response(self) -> None:
        """End the response.

        Raises:
            h11.LocalProtocolError: it is shorter than it was said to be.
        """
        self._send(h11.EndOfMessage())

    def start_next(self) -> bool:
        """Make ready for the next request; `False` if there can be none on this connection."""
        if self._http.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            return False
        self._http.start_next_cycle()
        return True

    @property
    def has_begun(self) -> bool:
        """Whether a response was begun, so that another can no longer be given."""
        return self._http.our_state not in {h11.SEND_RESPONSE, h11.IDLE}

    @property
    def _is_reusable(self) -> bool:
        # A body that was not read stands between this request and the next.
        return self._http.their_state not in {
            h11.SEND_BODY,
            h11.MUST_CLOSE,
            h11.CLOSED,
            h11.ERROR,
        }

    def _refuse(self, why: Unservable, head: Head | None) -> Refusal:
        self._refusals += 1
        self._answer(
            why.status,
            f"{why.words}\n".encode(),
            why.headers,
            close=head is None or self._refusals >= MAX_REFUSALS,
        )
        return Refusal(
            words=why.words,
            spoken=_spoken_by(head),
            is_denied=why.is_denied,
            is_final=not self.start_next(),
        )

    def _answer(
        self,
        status: int,
        body: bytes,
        fields: Iterable[tuple[str, str]],
        *,
        content_type: str = "text/plain; charset=utf-8",
        close: bool = False,
    ) -> None:
        headers = [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            # It may be shown by a browser, which shall not make more of it than text.
            ("X-Content-Type-Options", "nosniff"),
            ("Cache-Control", "no-store"),
            *fields,
        ]
        if close or not self._is_reusable:
            headers.append(("Connection", "close"))
        self._send(h11.Response(status_code=status, headers=headers, reason=_phrase(status)))
        if not self._is_head:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> None:
        self._outgoing += self._http.send(event) or b""


def _is_http(line: bytes) -> bool | None:
    """Return whether bytes begin an HTTP request; `None` when there are too few to tell.

    h11 waits for the end of a whole head: whoever types something else by hand would wait for an answer in vain.
    """
    line, newline, _ = line.partition(b"\n")
    if newline or len(line) >= _MAX_LINE:
        return _REQUEST_LINE.match(line) is not None
    return None if _METHOD.match(line) else False


def _head_of(request: h11.Request) -> Head:
    return Head(
        method=request.method.decode("ascii"),
        target=bytes(request.target),
        fields=tuple((bytes(name), bytes(value)) for name, value in request.headers),
        raw_fields=tuple(
            (bytes(name), bytes(value)) for name, value in request.headers.raw_items()
        ),
    )


def _spoken_by(head: Head | None) -> Spoken:
    if head is None:
        return Spoken.UNKNOWN
    return Spoken.CONNECT if head.method == "CONNECT" else Spoken.HTTP


def _phrase(status: int) -> bytes:
    import http  # noqa: PLC0415 - only answers of our own need it

    return http.HTTPStatus(status).phrase.encode("ascii")
