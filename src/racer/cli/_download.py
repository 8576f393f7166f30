"""One download: redirects, a broken connection and the rest by another route, until everything is here or it is hopeless."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never

import anyio
import httpx

from racer._target import Target
from racer.cli._exits import CommandError, Exit
from racer.cli._ranges import (
    Append,
    Complete,
    Have,
    Refuse,
    Restart,
    Whole,
    asking_for,
    judge,
)
from racer.errors import ConfigError, NoTransports, RacerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.cli._ranges import Verdict, Version
    from racer.http._messages import Via

__all__ = ("Download", "Downloaded", "Sink", "View", "parse_url")

MAX_HOPS: Final = 10
"""Redirects that are followed."""
PROGRESS: Final = 256 * 1024
"""Octets that a try has to bring, or it counts as one that brought nothing."""
FIRST_WAIT: Final = 0.5
"""Seconds after the first broken connection; twice as many after each further one."""
LAST_WAIT: Final = 15.0
"""Seconds that are never waited longer."""

_SCHEMES: Final = frozenset({"http", "https"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Sink(Protocol):
    """Where the octets go, in order."""

    @property
    def have(self) -> Have:
        """What is here already, and of what it is a part."""

    def is_from(self, place: str) -> bool:
        """Return whether what is here was found there."""

    async def restart(self, version: Version, total: int | None, place: str) -> bool:
        """Throw away what is here, for another version; return whether that was possible."""

    async def learn(self, total: int | None) -> None:
        """Note how long the whole is."""

    async def write(self, data: bytes) -> None:
        """Add to what is here."""


class View(Protocol):
    """Shows a download. What it writes must not wait for long."""

    def begin(self, have: Have, via: Via) -> None:
        """A response is here, and its body comes."""

    def advance(self, offset: int) -> None:
        """So much is here."""

    def note(self, text: str) -> None:
        """Something happened that a person may want to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """What a download came to.

    Attributes:
        status: of the last response; `None` if there was none.
        size: octets that are here; when it is done, of the whole.
        total: octets of the whole, as the server says; `None` where it has not.
        received: octets of bodies that came in this run.
        resumed_at: octets that were here before it.
        tries: requests that were made, redirects left out.
        duration: in seconds.
        vias: by which ways the bodies came, in order.
    """

    status: int | None
    size: int
    total: int | None
    received: int
    resumed_at: int
    tries: int
    duration: float
    vias: tuple[Via, ...]


class _Broken(Exception):
    """A try ended before everything was here; another may do better."""


def parse_url(text: str) -> httpx.URL:
    """Return the URL of something that can be downloaded.

    Raises:
        CommandError: says what is wrong with it.
    """
    try:
        return _checked(httpx.URL(text))
    except (httpx.InvalidURL, UnicodeError, ConfigError) as exc:
        authority = text.partition("://")[2].partition("/")[0]
        why = "there is a blank in its host" if " " in authority else exc
        raise CommandError(f"{text!r:.80} is no URL: {why}", Exit.WRONG_USE) from exc
    except _NotHTTP:
        if text.partition(":")[0].lower() in _SCHEMES:
            raise CommandError(
                f"{text!r:.80} is no URL: it names no host", Exit.WRONG_USE
            ) from None
        hint = f"; did you mean https://{text:.60}?" if "://" not in text and text else ""
        msg = f"{text!r:.80} is no URL that begins with https:// or http://{hint}"
        raise CommandError(msg, Exit.WRONG_USE) from None


class _NotHTTP(Exception):
    """A URL of something else."""


def _checked(url: httpx.URL) -> httpx.URL:
    """Return a URL without its fragment, if there can be such a server.

    Raises:
        _NotHTTP, InvalidTarget: there cannot.
    """
    if url.scheme not in _SCHEMES or not url.host:
        raise _NotHTTP
    Target(url.raw_host.decode("ascii"), url.port or 443)
    return url.copy_with(fragment=None)


class Download:
    """A download of one URL.

    Args:
        client: sends the requests; it follows no redirects by itself.
        url: from where.
        sink: where to.
        view: shows it.
        headers: further fields, told to the URL's own origin only.
        max_bytes: more than so many octets are refused.
        tries: how many in a row may bring nothing.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: httpx.URL,
        sink: Sink,
        *,
        view: View,
        headers: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        tries: int = 5,
    ) -> None:
        """Ask nothing yet."""
        self._client = client
        self._url = url
        self._sink = sink
        self._view = view
        self._headers = dict(headers or {})
        self._max_bytes = max_bytes
        self._tries = tries
        self._status: int | None = None
        self._received = 0
        self._resumed_at = sink.have.offset
        self._made = 0
        self._duration = 0.0
        self._vias: list[Via] = []
        self._is_whole_only = False
        self._trouble = ""
        self._cause: BaseException | None = None

    async def run(self) -> Downloaded:
        """Return when everything is in the sink.

        Raises:
            CommandError: the far end will not give it, or not as it says.
            RacerError: there is no way to it, or it breaks again and again.
            OSError: the sink takes no more.

        Cancelling leaves in the sink what came so far.
        """
        began = anyio.current_time()
        furthest, failures = self._resumed_at, 0
        try:
            while not await self._try():
                gained, furthest = (
                    self._sink.have.offset - furthest,
                    max(self._sink.have.offset, furthest),
                )
                failures = 1 if gained >= PROGRESS else failures + 1
                if failures > self._tries:
                    raise CommandError(f"gave up: {self._trouble}") from self._cause
                await anyio.sleep(min(FIRST_WAIT * 2 ** (failures - 1), LAST_WAIT))
        finally:
            self._duration = anyio.current_time() - began
        return self.so_far

    @property
    def so_far(self) -> Downloaded:
        """What it has come to, also when `run` has raised."""
        have = self._sink.have
        return Downloaded(
            status=self._status,
            size=have.offset,
            total=have.total,
            received=self._received,
            resumed_at=self._resumed_at,
            tries=self._made,
            duration=self._duration,
            vias=tuple(self._vias),
        )

    async def _try(self) -> bool:
        """Make one request for what is missing, and take what comes; return whether that was all."""
        have = self._sink.have
        asked_range = have.can_go_on and not self._is_whole_only
        self._made += 1
        try:
            response, place = await self._ask(asking_for(have if asked_range else Have()))
            try:
                if have.offset and not self._sink.is_from(_place(place, have.version)):
                    # The same tag at another place may be of something else (RFC 9110 §8.8.3).
                    have = Have()
                verdict = judge(
                    response.status_code, response.headers, have, asked_range=asked_range
                )
                return await self._obey(verdict, response, place)
            finally:
                await response.aclose()
        except _Broken as exc:
            self._trouble, self._cause = str(exc), exc.__cause__
            self._view.note(self._trouble)
            return False

    async def _obey(self, verdict: Verdict, response: httpx.Response, place: httpx.URL) -> bool:
        match verdict:
            case Complete():
                return True
            case Whole(why=why):
                if self._is_whole_only:
                    raise CommandError(f"{_host(place)}: {why}", Exit.REFUSED)
                self._trouble, self._is_whole_only = why, True
                self._view.note(f"{why}; asking for the whole")
                return False
            case Refuse(why=why, may_pass=may_pass):
                if may_pass and self._vias:
                    raise _Broken(f"{_host(place)}: {why}")
                raise CommandError(
                    f"{_host(place)}: {why} {response.reason_phrase}".rstrip(), Exit.REFUSED
                )
            case Restart(version=version, total=total):
                await self._begin_again(version, total, place)
                return await self._take(Append(skip=0, length=total, total=total), response)
            case Append():
                return await self._take(verdict, response)
            case _:
                assert_never(verdict)

    async def _begin_again(self, version: Version, total: int | None, place: httpx.URL) -> None:
        had = self._sink.have.offset
        if had:
            self._view.note("what is here cannot be gone on with; beginning again")
        if not await self._sink.restart(version, total, _place(place, version)):
            msg = f"{_host(place)}: it cannot be gone on with after {had} bytes, which are written already"
            raise CommandError(msg, Exit.REFUSED)
        if version.encoding:
            self._view.note(f"it comes encoded ({version.encoding}), and is kept as it comes")
        self._is_whole_only = False

    async def _take(self, part: Append, response: httpx.Response) -> bool:
        """Take a body; return whether everything is here."""
        sink = self._sink
        self._check_size(part.total or 0, part.total)
        await sink.learn(part.total)
        self._note_via(response)
        skip, left = part.skip, part.length
        # The library's own iterators leave each other to the garbage collector when one stops half-way.
        body: Any = response.stream
        try:
            async with aclosing(aiter(body)) as chunks:
                async for chunk in chunks:
                    self._received += len(chunk)
                    if left is not None and (left := left - len(chunk)) < 0:
                        raise CommandError("the server sends more than it said", Exit.REFUSED)
                    data, skip = chunk[skip:], max(skip - len(chunk), 0)
                    if data:
                        self._check_size(sink.have.offset + len(data), part.total)
                        await sink.write(data)
                        self._view.advance(sink.have.offset)
        except httpx.TransportError as exc:
            raise _Broken(str(exc)) from (exc.__cause__ or exc)
        if skip or left:
            raise _Broken(f"{_host(response.url)}: the body ended before its time")
        return part.total is None or sink.have.offset == part.total

    def _check_size(self, size: int, total: int | None) -> None:
        """Refuse octets that are too many: for the server's own word, or for the user."""
        if total is not None and size > total:
            raise CommandError("the server sends more than it said", Exit.REFUSED)
        if self._max_bytes is not None and size > self._max_bytes:
            msg = f"it is larger than --max-bytes {self._max_bytes}"
            raise CommandError(msg, Exit.REFUSED)

    def _note_via(self, response: httpx.Response) -> None:
        via: Via = response.extensions["racer"]
        self._vias.append(via)
        self._view.begin(self._sink.have, via)

    # --- a response ---------------------------------------------------------------------------

    async def _ask(self, fields: Mapping[str, str]) -> tuple[httpx.Response, httpx.URL]:
        """Return the response behind all redirects, and where it was found; its body is the caller's to close."""
        url, headers = self._url, self._headers | dict(fields)
        for _ in range(MAX_HOPS + 1):
            response = await self._send(url, headers)
            if response.status_code not in _REDIRECTS:
                self._status = response.status_code
                return response, url
            await response.aclose()
            there = _next_hop(url, response.headers.get("location", ""))
            if _origin(there) != _origin(url):  # what was told to one server is no other's business
                headers = dict(fields)
            url = there
        msg = f"more than {MAX_HOPS} redirects"
        raise CommandError(f"{_host(self._url)}: {msg}", Exit.REFUSED)

    async def _send(self, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Response:
        request = self._client.build_request("GET", url, headers=headers)
        try:
            return await self._client.send(request, stream=True)
        except httpx.TransportError as exc:
            cause = exc.__cause__
            is_final = not self._vias or isinstance(cause, ConfigError | NoTransports)
            if is_final and isinstance(cause, RacerError):
                raise cause from None
            raise _Broken(str(exc)) from (cause or exc)


def _next_hop(url: httpx.URL, location: str) -> httpx.URL:
    """Return where a redirect leads.

    Raises:
        CommandError: nowhere, or where it must not.
    """
    try:
        there = _checked(url.join(location) if location else httpx.URL())
    except (httpx.InvalidURL, UnicodeError, ConfigError, _NotHTTP):
        msg = f"{_host(url)}: it redirects to {location!r:.80}"
        raise CommandError(msg, Exit.REFUSED) from None
    if url.scheme == "https" and there.scheme == "http":
        msg = f"it redirects from https to {location!r:.80}, which anybody could read and change"
        raise CommandError(f"{_host(url)}: {msg}", Exit.REFUSED)
    return there.copy_with(userinfo=b"")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _place(url: httpx.URL, version: Version) -> str:
    """Return where a version is, as far as that matters.

    Servers that sign their redirects have another query each time; a strong tag is enough there, a date is not.
    """
    bare = url.copy_with(userinfo=b"", fragment=None)
    return str(bare if version.etag is None else bare.copy_with(query=None))


def _host(url: httpx.URL) -> str:
    return url.host
