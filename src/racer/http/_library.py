"""The HTTP library a request came from, httpx or httpx2: its messages in and out, and its errors (H8)."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from racer.errors import ConfigError
from racer.http._exchange import Failure
from racer.http._faults import cause_of
from racer.http._messages import Origin, Request, Timeouts
from racer.http._policy import RETRY_METHODS
from racer.http2._fault import Fault
from racer.http2._upload import Upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from types import ModuleType
    from typing import Self

    from racer.http._messages import Body, Response, Via
    from racer.http._upgrade import SyncUpgraded

__all__ = ("LIBRARIES", "Library", "installed", "library_of")

LIBRARIES: Final = ("httpx", "httpx2")
"""The libraries that are understood; the second is the maintained fork of the first, with the same contract."""

_PORTS: Final = {"http": 80, "https": 443}


class Library:
    """One of the libraries.

    Args:
        module: the library itself.
    """

    def __init__(self, module: ModuleType) -> None:
        """Make the classes that have to be the library's own."""
        self.module = module
        self.request_class: type = module.Request
        self._response_class = module.Response
        self._not_read: type[Exception] = module.RequestNotRead
        self.async_stream = _async_stream(module)
        self.sync_stream = _sync_stream(module)

    def request(
        self,
        original: Any,  # noqa: ANN401 - the library's
        source: Callable[[Any], AsyncIterator[bytes]],
    ) -> Request:
        """Return the library's request as one of ours.

        Args:
            original: the library's.
            source: makes an iterator of a body that comes bit by bit.

        Raises:
            ConfigError: its extension `racer` says what nobody understands.
            Exception: the library's `UnsupportedProtocol`.
        """
        url = original.url
        scheme = url.scheme
        if scheme not in _PORTS:
            msg = f"racer speaks http and https, not {scheme!r}"
            raise self.module.UnsupportedProtocol(msg, request=original)
        extensions = original.extensions
        method = original.method.encode("ascii")
        idempotent = _is_marked(extensions.get("racer")) or method in RETRY_METHODS
        headers = list(original.headers.raw)
        upload: Upload
        try:
            upload = Upload(original.content)
        except self._not_read:
            length = original.headers.get("content-length", "")
            upload = Upload(
                source=source(original.stream),
                length=int(length) if length.isdecimal() else None,
                keep=idempotent,
            )
        return Request(
            method=method,
            origin=Origin(scheme, url.raw_host.decode("ascii"), url.port or _PORTS[scheme]),
            target=extensions.get("target", url.raw_path),
            headers=headers,
            upload=upload,
            idempotent=idempotent,
            timeouts=_timeouts(extensions.get("timeout")),
            original=original,
        )

    def response(
        self,
        response: Response,
        via: Via,
        stream: Any,  # noqa: ANN401 - the library's
        network_stream: SyncUpgraded | None = None,
    ) -> Any:  # noqa: ANN401 - the library's
        """Return one of our responses as the library's, its body read through `stream`."""
        extensions: dict[str, Any] = {"http_version": response.version, "racer": via}
        if response.reason or response.version != b"HTTP/2":
            extensions["reason_phrase"] = response.reason
        if response.stream is not None:
            response.stream.translate = self.error
            extensions["network_stream"] = network_stream or response.stream
        return self._response_class(
            response.status, headers=response.headers, stream=stream, extensions=extensions
        )

    def error(self, failure: Failure | Fault) -> Exception:
        """Return the library's error for a failure, racer's as its `__cause__`."""
        error = failure.error if isinstance(failure, Failure) else cause_of(failure)
        raised: Exception = getattr(self.module, failure.kind)(str(error))
        raised.__cause__ = error
        return raised

    def encode(self, request: Request) -> Any:  # noqa: ANN401 - the library's
        """Return one of our requests as the library's, its body to be read from its beginning."""
        original = request.original
        if request.upload.content is not None:
            return self.request_class(
                original.method,
                original.url,
                headers=request.headers,
                content=request.upload.content,
                extensions=original.extensions,
            )
        return self.request_class(
            original.method,
            original.url,
            headers=request.headers,
            stream=self.async_stream(_Again(request.upload), self),
            extensions=original.extensions,
        )


@cache
def _library(name: str) -> Library:
    return Library(importlib.import_module(name))


def installed() -> list[Library]:
    """Return the libraries that are installed, httpx first."""
    found = []
    for name in LIBRARIES:
        try:
            found.append(_library(name))
        except ImportError:
            continue
    return found


def library_of(request: object) -> Library:
    """Return the library a request is of.

    Raises:
        ConfigError: it is of none that is known.
    """
    for name in LIBRARIES:
        # Asked by the class first: nobody pays for a library that was not loaded.
        if type(request).__module__.partition(".")[0] == name:
            return _library(name)
    for library in installed():  # a subclass of the user's own
        if isinstance(request, library.request_class):
            return library
    msg = f"a request of httpx or httpx2 was expected, not {type(request).__name__}"
    raise ConfigError(msg)


def _is_marked(extension: object) -> bool:
    """Return whether the caller says that the request may be sent again (H2).

    Raises:
        ConfigError: the extension says something else.
    """
    if extension is None:
        return False
    if not isinstance(extension, Mapping) or not extension.keys() <= {"idempotent"}:
        msg = f"extensions['racer'] takes {{'idempotent': True}}, not {extension!r:.80}"
        raise ConfigError(msg)
    marked = extension.get("idempotent", False)
    if not isinstance(marked, bool):
        msg = f"extensions['racer']['idempotent'] must be True or False, not {marked!r:.40}"
        raise ConfigError(msg)
    return marked


def _timeouts(told: Mapping[str, float | None] | None) -> Timeouts:
    if not told:
        return Timeouts()
    return Timeouts(
        # A race takes no timeout of 0, which httpx uses for "at once".
        connect=_positive(told.get("connect")),
        read=told.get("read"),
        write=told.get("write"),
        pool=told.get("pool"),
    )


def _positive(seconds: float | None) -> float | None:
    return None if seconds is None else max(seconds, 1e-9)


class _Again:
    """A request's body in the place of a response's, for a library's request made anew."""

    def __init__(self, upload: Upload) -> None:
        self._chunks = upload.chunks()

    async def receive(self) -> bytes:
        return await anext(self._chunks, b"")

    def receive_nowait(self) -> bytes | None:
        return None

    def close(self) -> None:
        pass


def _async_stream(module: ModuleType) -> Any:  # noqa: ANN401 - a class made for the library
    base: Any = module.AsyncByteStream

    class ResponseStream(base):  # type: ignore[misc] # the base is the library's, known only here
        """The body of a response; closing it waits for nothing."""

        def __init__(
            self,
            body: Body,
            library: Library,
            transport_name: str = "",
            dropped: Callable[[Body], None] | None = None,
        ) -> None:
            self._body = body
            self._library = library
            self._transport_name = transport_name
            self._dropped = dropped

        def __aiter__(self) -> Self:
            # No generator, which trio would warn of when somebody stops half-way.
            return self

        async def __anext__(self) -> bytes:
            try:
                chunk = await self._body.receive()
            except Fault as fault:
                error = self._library.error(fault.of(self._transport_name))
                raise error from error.__cause__
            if not chunk:
                self._dropped = None
                raise StopAsyncIteration
            return chunk

        async def aclose(self) -> None:
            self._dropped = None
            self._body.close()

        def __del__(self) -> None:
            _warn_of_dropped(self)

    return ResponseStream


def _sync_stream(module: ModuleType) -> Any:  # noqa: ANN401 - a class made for the library
    base: Any = module.SyncByteStream

    class SyncResponseStream(base):  # type: ignore[misc] # the base is the library's, known only here
        """The body of a response for threads; `read` and `close` reach the loop it lives on."""

        def __init__(
            self,
            library: Library,
            *,
            transport_name: str,
            chunks: Iterable[bytes],
            close: Callable[[], None],
            dropped: Callable[[Body], None] | None,
            body: Body,
        ) -> None:
            self._library = library
            self._transport_name = transport_name
            self._chunks = chunks
            self._close = close
            self._dropped = dropped
            self._body = body

        def __iter__(self) -> Self:
            return self

        def __next__(self) -> bytes:
            try:
                return next(self._chunks)  # type: ignore[call-overload, no-any-return]
            except Fault as fault:
                error = self._library.error(fault.of(self._transport_name))
                raise error from error.__cause__
            except StopIteration:
                self._dropped = None
                raise

        def close(self) -> None:
            self._dropped = None
            self._close()

        def __del__(self) -> None:
            _warn_of_dropped(self)

    return SyncResponseStream


def _warn_of_dropped(stream: Any) -> None:  # noqa: ANN401 - either of the two
    dropped = getattr(stream, "_dropped", None)
    if dropped is not None:
        dropped(stream._body)  # noqa: SLF001 - this module's own classes
        warnings.warn(
            "a response was dropped without being read to its end or closed",
            ResourceWarning,
            source=stream,
            stacklevel=2,
        )
