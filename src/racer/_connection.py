"""What leaves a race: a stream, or a route for requests, that knows how it came about."""

from __future__ import annotations

import contextvars
import warnings
from typing import TYPE_CHECKING, Any

import anyio
from anyio import TypedAttributeSet, typed_attribute
from anyio.abc import AsyncResource, ByteStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from racer._host import LoopHost
    from racer._report import RaceReport
    from racer._roster import Lease
    from racer.abc import RequestRoute

__all__ = ("Connection", "ConnectionAttribute", "ReportBox", "RoutedConnection")


class ConnectionAttribute(TypedAttributeSet):
    """What a `Connection` answers through anyio's typed attributes, beside those of the stream in it."""

    transport_name: str = typed_attribute()
    report: RaceReport = typed_attribute()


class ReportBox:
    """Holds a race's report: what is known so far while the race goes on, the last word after its verdict."""

    __slots__ = ("_final", "_so_far")

    def __init__(self, so_far: Callable[[], RaceReport]) -> None:
        """Ask `so_far` until the verdict."""
        self._so_far: Callable[[], RaceReport] | None = so_far
        self._final: RaceReport | None = None

    @property
    def report(self) -> RaceReport:
        """The race as data, as far as it is known."""
        if self._so_far is not None:
            return self._so_far()
        assert self._final is not None
        return self._final

    def seal(self, report: RaceReport) -> None:
        """Keep the last word, and let go of the race."""
        self._final, self._so_far = report, None


class _Finisher:
    """What both kinds of finisher share: whose it is, how it came about, and that it must not be dropped open."""

    def __init__(
        self,
        resource: Any,  # noqa: ANN401 - a stream or a route
        *,
        name: str,
        box: ReportBox,
        lease: Lease,
        host: LoopHost,
        owner: object,
        prove: Callable[[bool], None] | None = None,
    ) -> None:
        """Take the resource and the lease over."""
        self._resource = resource
        self._name = name
        self._box = box
        self._lease = lease
        self._host = host
        self._owner = owner  # a dialer must not be collected while something it made is in use
        self._open = True
        self._prove = prove

    def _show(self, *, is_alive: bool) -> None:
        """Tell, once, whether it carries bytes or broke before it did; closing it without a word says neither."""
        prove, self._prove = self._prove, None
        if prove is not None:
            prove(is_alive)

    @property
    def transport_name(self) -> str:
        """The name of the entrant that won."""
        return self._name

    @property
    def report(self) -> RaceReport:
        """The race as data; while a `Dialer.race()` still runs, what is known so far."""
        return self._box.report

    async def aclose(self) -> None:
        """Close all the way down; may be called twice. Under cancellation it closes by force."""
        self._open = False
        try:
            await self._resource.aclose()
        finally:
            self._lease.release()

    def abort(self) -> None:
        """Close by force, behind the scenes; synchronous, for where nothing can be awaited. Again does nothing."""
        if self._open:
            self._open = False
            closer = self._host.close_soon(
                self._resource, self._name, contextvars.Context(), self._lease.release
            )
            if closer is not None:
                closer.force()

    def __repr__(self) -> str:
        """Say which transport carries it, and nothing of the target."""
        return f"<{type(self).__name__} by {self._name!r}{'' if self._open else ', closed'}>"

    def __del__(self) -> None:
        """Warn, and close by force, when it was dropped open."""
        # A forked child's copy is not its to close: that would end the parent's TLS, or its tunnel.
        if getattr(self, "_open", False) and self._host.is_of_this_process:
            told = f"{self!r} was dropped without aclose()"
            self._open = False
            self._host.drop_from_anywhere(self._resource, self._name, self._lease.release)
            warnings.warn(told, ResourceWarning, source=self, stacklevel=1)


class Connection(_Finisher, ByteStream):
    """A byte stream that won a race. Whoever holds it closes it.

    A `ResourceWarning` is given for one that is dropped open, and it is closed by force then.
    """

    _resource: ByteStream

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of the stream within, and racer's own."""
        return {
            **self._resource.extra_attributes,
            ConnectionAttribute.transport_name: lambda: self._name,
            ConnectionAttribute.report: lambda: self._box.report,
        }

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return at least one and at most `max_bytes` bytes.

        Raises:
            anyio.EndOfStream: the peer ended its side.
            anyio.ClosedResourceError: it was closed here.
            anyio.BrokenResourceError: the path broke.
        """
        if self._prove is None:
            return await self._resource.receive(max_bytes)
        try:
            received = await self._resource.receive(max_bytes)
        except anyio.BrokenResourceError:
            self._show(is_alive=False)
            raise
        self._show(is_alive=True)
        return received

    async def send(self, item: bytes) -> None:
        """Send all of `item`.

        Raises:
            anyio.ClosedResourceError, anyio.BrokenResourceError: as in `receive`.
        """
        await self._resource.send(item)

    async def send_eof(self) -> None:
        """End this side's direction; TLS has no such thing and raises `NotImplementedError`."""
        await self._resource.send_eof()


class RoutedConnection(_Finisher, AsyncResource):
    """A route for requests that won a race of kind `any` or `request`. Whoever holds it closes it."""

    _resource: RequestRoute[Any, Any]

    async def handle(self, request: Any) -> Any:  # noqa: ANN401 - the HTTP library's own types
        """Return the response to `request`; its body is the caller's to close."""
        response = await self._resource.handle(request)
        self._show(is_alive=True)
        return response
