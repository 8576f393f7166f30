"""The broker: a small web server whose pages perform requests for whoever has its public key."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from racer.abc import check_seconds
from racer.errors import ConfigError, RemoteProtocolError
from transports._net.connector import Connector
from transports._net.drive import close_by_force
from transports._net.resolve import SystemResolver
from transports._net.tls import ClientContext
from transports.amp._allow import AllowList
from transports.amp._armor import armor
from transports.amp._crypto import Opened, open_request, read_private_key, seal_answer
from transports.amp._ledger import Entry, Ledger, digest_of
from transports.amp._messages import InnerRequest
from transports.amp._pages import Page, serve_pages
from transports.amp._upstream import Upstream, failure
from transports.amp._urls import PREFIX, decode_path

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from types import TracebackType

    from anyio.abc import ByteStream, TaskGroup
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from racer.abc import DialTCP

__all__ = ("AmpBroker",)

MAX_CONNECTIONS: Final = 256
MAX_REQUESTS: Final = 64
"""Origins' answers that are waited for at once; one more page is answered with 503, which a cache asks for again."""

logger = logging.getLogger("racer.amp")


class AmpBroker:
    """Serves pages for as long as its `async with` block lasts.

    A page of it performs the request that its URL carries, once, and holds the sealed answer. A page that cannot be is
    answered with 400, whatever was wrong with it; what goes wrong behind it is told inside the seal.

    Args:
        key: the private key of RSA, a PEM text without a passphrase; or one that `cryptography` has read.
        allow: the origins that may be asked: `https://api.example.com`, `https://*.example.com:8443`. Names are looked
            up by the system, so list only those whose addresses you trust.
        host: an IP address to listen on.
        port: 0 takes a free one.
        path: in front of the pages' own.
        tls: a server's context; `None` serves in the clear, for a web server in front that speaks TLS.
        timeout: seconds that an origin has for its whole answer; below what caches wait.
        max_response: octets of an answer's body.
        upstream_tls: the context for origins, used as it is; `None` for the system's trust.
        dial_tcp: makes every connection to origins in place of our own sockets.

    Attributes:
        address: where it listens, host and port, inside the block.

    Raises:
        ConfigError: an option that cannot be; says which, and why, and quotes nothing of the key.
    """

    address: tuple[str, int]

    def __init__(
        self,
        *,
        key: str | bytes | RSAPrivateKey,
        allow: Sequence[str],
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "/",
        tls: ssl.SSLContext | None = None,
        timeout: float = 45.0,
        max_response: int = 1 << 20,
        upstream_tls: ssl.SSLContext | None = None,
        dial_tcp: DialTCP | None = None,
    ) -> None:
        """Check everything; nothing is opened."""
        self._key = read_private_key(key)
        check_seconds(timeout, "timeout")
        if isinstance(max_response, bool) or not 1 <= max_response <= 1 << 21:
            msg = f"max_response must be a whole number from 1 to {1 << 21}"
            raise ConfigError(msg)
        self._upstream = Upstream(
            AllowList(allow),
            Connector(SystemResolver(), dial_tcp=dial_tcp),
            ClientContext(upstream_tls, alpn=("h2", "http/1.1")),
            timeout=timeout,
            max_response=max_response,
        )
        self._host, self._port, self._tls = host, port, tls
        stripped = path.strip("/")
        self._prefix = f"/{stripped}/{PREFIX}" if stripped else f"/{PREFIX}"
        self._ledger = Ledger()
        self._waiting: dict[bytes, anyio.Event] = {}
        self._connections = self._requests = 0
        self._group: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        async with AsyncExitStack() as stack:
            listener = await anyio.create_tcp_listener(local_host=self._host, local_port=self._port)
            await stack.enter_async_context(listener)
            self.address = (self._host, listener.extra(SocketAttribute.local_port))
            self._group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self._group.cancel_scope.cancel)
            self._group.start_soon(listener.serve, self._serve)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Stop listening, and end what is under way; an exception of the block leaves as it was raised."""
        if isinstance(exc_value, Exception):
            await self._stack.aclose()
            return False
        return await self._stack.__aexit__(exc_type, exc_value, traceback)

    def status(self) -> dict[str, int]:
        """Return how many connections and requests are open, how many requests are known, and what is kept of answers."""
        return {
            "connections": self._connections,
            "requests": self._requests,
            "known": len(self._ledger),
            "kept_bytes": self._ledger.octets,
        }

    def __repr__(self) -> str:
        """Return where it listens; no key, no list."""
        return f"<{type(self).__name__} {getattr(self, 'address', 'not open')}>"

    async def _serve(self, stream: ByteStream) -> None:
        if self._connections >= MAX_CONNECTIONS:
            await close_by_force(stream)
            return
        self._connections += 1
        try:
            served: Any = stream
            if self._tls is not None:
                with anyio.fail_after(10):
                    served = await TLSStream.wrap(
                        stream, server_side=True, ssl_context=self._tls, standard_compatible=False
                    )
            await serve_pages(served, self._page)
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client went away, or was never one
        finally:
            self._connections -= 1
            await close_by_force(stream)

    async def _page(self, path: str) -> Page:
        """Return the page at `path`."""
        if not path.startswith(self._prefix):
            return Page(404)
        try:
            payload = decode_path(path.removeprefix(self._prefix))
        except RemoteProtocolError:
            return Page(400)
        digest = digest_of(payload)
        now = anyio.current_time()
        entry = self._ledger.find(digest, now)
        if entry is None:
            refusal = await self._take_on(digest, payload)
            if refusal is not None:
                return refusal
            entry = self._ledger.find(digest, now)
        return await self._answered(digest, entry)

    async def _take_on(self, digest: bytes, payload: bytes) -> Page | None:
        """Begin to perform a request; return a page where that cannot be."""
        assert self._group is not None
        if self._requests >= MAX_REQUESTS:
            return Page(503)
        try:
            opened = await anyio.to_thread.run_sync(open_request, payload, self._key)
            request = InnerRequest.from_json(opened.inner)
        except RemoteProtocolError:
            return Page(400)
        if self._ledger.find(digest, anyio.current_time()) is None:  # else another fetch was faster
            self._ledger.take_on(digest)
            self._waiting[digest] = anyio.Event()
            # In the broker's own task: a cache that hangs up comes back for the answer.
            self._requests += 1
            self._group.start_soon(self._perform, digest, opened, request)
        return None

    async def _answered(self, digest: bytes, entry: Entry | None) -> Page:
        waiting = self._waiting.get(digest)
        if waiting is not None:
            await waiting.wait()
        if entry is None or entry.page is None:
            return Page(410)  # it was performed long ago, and is not performed again
        return Page(200, entry.page)

    async def _perform(self, digest: bytes, opened: Opened, request: InnerRequest) -> None:
        try:
            try:
                answer = await self._upstream.perform(request)
            except Exception:
                logger.exception("a request could not be performed")
                answer = failure(502, "it failed")
            page = armor(seal_answer(answer.to_json(), opened))
            self._ledger.finish(digest, page, anyio.current_time())
        finally:
            self._requests -= 1
            self._waiting.pop(digest).set()
