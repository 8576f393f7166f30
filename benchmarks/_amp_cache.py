"""An AMP cache on loopback: it fetches pages, rewrites what is around their text, keeps them, and blurs what goes wrong.

It stands on the standard library alone, and shares no code with what it is to prove.
"""

from __future__ import annotations

import contextlib
import enum
import http.client
import http.server
import re
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trustme

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("CACHE", "FRONT", "AmpCache", "Mood", "amp_cache")

CACHE = "cdn.example.org"
FRONT = "www.example.net"
FRESH_S = 15.0
MAX_URL = 8192  # of a request line, as nginx and many others have it by default

_PLACE = re.compile(r"/c/(s/)?([^/]+)(/.*)\Z")


class Mood(enum.Enum):
    """What the cache does with a page."""

    FAIR = "fair"
    REDIRECTS = "redirects"
    REDIRECTS_SILENTLY = "redirects silently"
    FETCHES_TWICE = "fetches twice"
    TEARS = "tears"
    FORGES = "forges"
    ENDLESS = "endless"
    HANGS_UP = "hangs up"


@dataclass
class AmpCache:
    """The cache, running.

    Attributes:
        port: where it listens, with TLS, under its own names and the front's.
        authority: who its certificate is from.
        hosts: publishers' hosts to where they are reached, in the clear.
        mood: what it does.
        asked: the `Host`, the length of the path, and whether it was kept already, of each request.
        fetched: publishers' paths, each time one was fetched.
    """

    port: int
    authority: trustme.CA
    hosts: dict[str, tuple[str, int]]
    mood: Mood = Mood.FAIR
    asked: list[tuple[str, int, bool]] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    kept: dict[str, tuple[float, int, bytes]] = field(default_factory=dict)

    def context(self) -> ssl.SSLContext:
        """Return a client's context that trusts it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the system's trust takes 30 ms to read
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.authority.configure_trust(context)
        return context

    def fetch(self, host: str, path: str) -> tuple[int, bytes]:
        """Return a page from its publisher."""
        self.fetched.append(path)
        address, port = self.hosts[host]
        connection = http.client.HTTPConnection(address, port, timeout=20)
        try:
            connection.request("GET", path, headers={"Host": host, "User-Agent": "AMP-Cache"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def rewritten(page: bytes, host: str) -> bytes:
    """Return a page as a cache serves it: absolute links, scripts of its own, tags in its own spelling."""
    page = page.replace(b'href="#"', f'href="https://{host}/"'.encode())
    page = page.replace(
        b'src="https://cdn.ampproject.org/', b'src="https://cdn.ampproject.org/rtv/01/'
    )
    page = page.replace(
        b"<head>", b'<head><script>if (1 < 2) document.write("<pre>no</pre>")</script>'
    )
    page = page.replace(b"<body>", b"<body class=amp><!-- <pre>cached</pre> -->")
    return page.replace(b"<pre>\n", b'<PRE class="i-amphtml-text">').replace(b"</pre>", b"</PRE >")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        cache: AmpCache = self.server.cache
        now = time.monotonic()
        kept = cache.kept.get(self.path)
        is_kept = kept is not None and now - kept[0] < FRESH_S
        cache.asked.append((self.headers["Host"], len(self.path), is_kept))
        place = _PLACE.match(self.path)
        label = self.headers["Host"].partition(".")[0]
        if len(self.requestline) > MAX_URL:
            self.answer(414, b"too long")
        elif place is None or label != place[2].replace("-", "--").replace(".", "-"):
            self.answer(404, b"no such publisher")
        else:
            self.give(cache, place, kept if is_kept else None)

    def give(
        self, cache: AmpCache, place: re.Match[str], kept: tuple[float, int, bytes] | None
    ) -> None:
        scheme, host, path = "https" if place[1] else "http", place[2], place[3]
        if kept is None:
            status, page = cache.fetch(host, path)
            if cache.mood is Mood.FETCHES_TWICE:
                status, page = cache.fetch(host, path)
            kept = (time.monotonic(), status, page)
            cache.kept[self.path] = kept
        _, status, page = kept
        origin = f"{scheme}://{host}{path}"
        if status >= 400:
            self.answer(404, b"not found")
            return
        self.show(cache.mood, rewritten(page, host), origin)

    def show(self, mood: Mood, page: bytes, origin: str) -> None:
        match mood:
            case Mood.REDIRECTS:
                self.answer(302, b"", Location=origin)
            case Mood.REDIRECTS_SILENTLY:
                self.answer(200, b"<html><script>go()</script></html>", Location=origin)
            case Mood.TEARS:
                self.answer(200, page[: page.index(b"<PRE") + 200])
            case Mood.FORGES:
                self.answer(200, b"<html><pre>0" + b"Zm9yZ2Vk" + b"</pre></html>")
            case Mood.HANGS_UP:
                self.close_connection = True
            case Mood.ENDLESS:
                self.answer_without_end()
            case _:
                self.answer(200, page)

    def answer_without_end(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"<pre>" + b"A" * 65536)

    def answer(self, status: int, body: bytes, **fields: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/html")
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's own
        """Speak TLS in the connection's own thread; who goes away meanwhile is gone."""
        with (
            contextlib.suppress(OSError),
            self.context.wrap_socket(request, server_side=True) as secured,
        ):
            _Handler(secured, client_address, self)


@contextmanager
def amp_cache(hosts: dict[str, tuple[str, int]]) -> Iterator[AmpCache]:
    """Run the cache until the block ends."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(f"*.{CACHE}", FRONT).configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    server: Any = _Server(("127.0.0.1", 0), _Handler)
    server.context = context
    server.cache = AmpCache(server.server_address[1], authority, hosts)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.cache
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
