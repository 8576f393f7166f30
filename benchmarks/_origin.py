"""An HTTP origin for benchmarks: a child process that speaks HTTP/1.1 and HTTP/2 over TLS for `localhost`.

`/` answers at once with a kilobyte; `/wait/<ms>/<bytes>` after a while, with as many bytes. Bodies of requests are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h11
import trustme

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Site", "site")

_ROOT: Final = Path(__file__).parents[1]  # from where the child finds this module
_BACKLOG: Final = 1024
_MOST: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where it is.

    Attributes:
        http1: a port that speaks HTTP/1.1 only.
        http2: a port that speaks HTTP/2 to who offers it.
        authority: the throw-away authority behind both, PEM.
    """

    http1: int
    http2: int
    authority: str

    def context(self) -> ssl.SSLContext:
        """Return a new client's context that trusts it."""
        return ssl.create_default_context(cadata=self.authority)


@contextlib.contextmanager
def site() -> Iterator[Site]:
    """Run the child while the context lasts."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks._origin"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield Site(**json.loads(child.stdout.readline()))
        finally:
            child.stdin.close()


def _work(target: str) -> tuple[float, bytes]:
    """Return how long a target takes, and what it answers."""
    match target.strip("/").split("/"):
        case ["wait", delay, size]:
            return int(delay) / 1000, b"x" * min(int(size), _MOST)
        case _:
            return 0.0, b"x" * 1024


class _HTTP1(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._http = h11.Connection(h11.SERVER)
        self._target = ""

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._go_on()

    def _go_on(self) -> None:
        try:
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Request):
                    self._target = event.target.decode()
                elif isinstance(event, h11.EndOfMessage):
                    delay, body = _work(self._target)
                    if not delay:
                        self._answer(body)
                    else:
                        asyncio.get_running_loop().call_later(delay, self._answer, body)
                        return
                elif not isinstance(event, h11.Data):
                    return
        except h11.RemoteProtocolError:
            self._transport.close()

    def _answer(self, body: bytes) -> None:
        if self._transport.is_closing():
            return
        parts = [
            h11.Response(status_code=200, headers=[("content-length", str(len(body)))]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        self._transport.write(b"".join(self._http.send(part) or b"" for part in parts))
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._go_on()

    def eof_received(self) -> None:
        self._transport.close()


class _HTTP2(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self._http.initiate_connection()
        self._targets: dict[int, str] = {}
        self._left: dict[int, bytes] = {}
        self._flush()

    def _flush(self) -> None:
        if data := self._http.data_to_send():
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._http.receive_data(data):
                self._take(event)
        except h2.exceptions.ProtocolError:
            self._flush()
            self._transport.close()
            return
        self._flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=int(number), headers=headers):
                fields = {str(name): str(value) for name, value in headers or ()}
                self._targets[number] = fields[":path"]
            case h2.events.DataReceived(stream_id=int(number), flow_controlled_length=int(size)):
                self._http.acknowledge_received_data(size, number)
            case h2.events.StreamEnded(stream_id=int(number)):
                delay, body = _work(self._targets[number])
                if delay:
                    loop = asyncio.get_running_loop()
                    loop.call_later(delay, self._answer_late, number, body)
                else:
                    self._answer(number, body)
            case h2.events.StreamReset(stream_id=int(number)):
                self._targets.pop(number, None)
                self._left.pop(number, None)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                for number in list(self._left):
                    self._send(number)
            case _:
                pass

    def _answer_late(self, number: int, body: bytes) -> None:
        if number in self._targets and not self._transport.is_closing():
            self._answer(number, body)
            self._flush()

    def _answer(self, number: int, body: bytes) -> None:
        self._http.send_headers(
            number, [(":status", "200"), ("content-length", str(len(body)))], end_stream=not body
        )
        if body:
            self._left[number] = body
            self._send(number)
        else:
            self._targets.pop(number, None)

    def _send(self, number: int) -> None:
        left = self._left[number]
        while left:
            room = min(
                self._http.local_flow_control_window(number), self._http.max_outbound_frame_size
            )
            if room <= 0:
                self._left[number] = left
                return
            self._http.send_data(number, left[:room], end_stream=room >= len(left))
            left = left[room:]
        del self._left[number]
        self._targets.pop(number, None)


def _speak(*, http2: bool) -> type[asyncio.Protocol]:
    class Either(asyncio.Protocol):
        """Takes the protocol that TLS has settled on."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            tls = transport.get_extra_info("ssl_object")
            chosen = _HTTP2 if http2 and tls.selected_alpn_protocol() == "h2" else _HTTP1
            protocol = chosen()
            cast("asyncio.Transport", transport).set_protocol(protocol)
            protocol.connection_made(transport)

    return Either


async def _listen(context: ssl.SSLContext, *, http2: bool) -> int:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        _speak(http2=http2), "127.0.0.1", 0, backlog=_BACKLOG, ssl=context
    )
    return cast("int", server.sockets[0].getsockname()[1])


async def _main() -> None:
    authority = trustme.CA()
    contexts = []
    for protocols in (["http/1.1"], ["h2", "http/1.1"]):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(protocols)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
        contexts.append(context)
    told = {
        "http1": await _listen(contexts[0], http2=False),
        "http2": await _listen(contexts[1], http2=True),
        "authority": authority.cert_pem.bytes().decode("ascii"),
    }
    print(json.dumps(told), flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(_main())
