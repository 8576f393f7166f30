"""Requests to one origin through fronts: what may be repeated is, through another front; what may not is sent once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio

from racer.errors import (
    AttemptTimeout,
    LocalProtocolError,
    NetworkError,
    NotUsable,
    Stage,
    TransportError,
    error_type_of,
)
from transports._net.app_requests import AppRequest, ConnectError, read_request
from transports.fronting._answer import Answer
from transports.fronting._names import fronted_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.abc import Origin
    from transports._net.http_client import RequestHead, ResponseHead
    from transports.fronting._catalog import FrontKey, Provider
    from transports.fronting._hunt import Found, Hunter
    from transports.fronting._pool import Choice, Pool

__all__ = ("FrontRoute", "Rules")

MAX_TRIES: Final = 6
"""Times that one request is sent at most, where it may be sent again."""

HEAD_TIMEOUT: Final = 15.0
"""Seconds that a front has for the head of an answer, where another could be asked (H4)."""

IDLE_MOST: Final = 30.0
IDLE_FOR_ONE_SHOT: Final = 5.0
"""Seconds that a line may have been idle for the next request; less for one that can be sent only once, since edges
close what is idle, and the request would be lost with the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an operator may set.

    Attributes:
        origin_header: a field, in lower case, that marks an answer as the origin's own word; empty for none.
        via_header: a field that tells the origin which provider forwarded; empty for none.
    """

    origin_header: bytes = b"x-lantern-origin"
    via_header: bytes = b""


@dataclass(slots=True, eq=False)
class _Refusal:
    """An answer that may be the network's refusal; the pool has not been told yet."""

    found: Found
    choice: Choice
    head: ResponseHead


@dataclass(slots=True, eq=False)
class _Asking:
    """One request on its way through fronts.

    Attributes:
        refusals: those that came, the last of them with its line still open, to be the answer if nothing better comes.
    """

    app: AppRequest
    tried: set[FrontKey] = field(default_factory=set)
    refusals: list[_Refusal] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    sent: int = 0

    @property
    def may_be_repeated(self) -> bool:
        return self.app.is_repeatable and self.sent < MAX_TRIES

    @property
    def refusing(self) -> set[str]:
        return {refusal.found.front.provider for refusal in self.refusals}


class FrontRoute:
    """A way to one origin; it holds a line that is ready, and finds others when that one is busy or gone.

    Several requests may run at once, each over a line of its own.
    """

    def __init__(
        self,
        origin: Origin,
        found: Found,
        *,
        hunter: Hunter,
        pool: Pool,
        rules: Rules,
        on_change: Callable[[], None],
    ) -> None:
        """Own `found` from now on."""
        self._origin = origin
        self._host = origin.host.lower().rstrip(".")
        self._hunter = hunter
        self._pool = pool
        self._rules = rules
        self._on_change = on_change
        self._idle = [found]
        self._is_closed = False

    async def handle(self, request: Any) -> Any:  # noqa: ANN401 - of httpx or httpx2
        """Return the response to a `Request` of httpx or httpx2, as a `Response` of the same; its body is the caller's to close.

        A request that may be repeated (`AppRequest.is_repeatable`) goes on to another front, of another provider if
        there is one, when a front fails or answers with what may be the network's refusal: 403, 5xx, or what the list
        names, without the mark of the origin. The same refusal twice is the answer, and so is the latest one when
        nothing better comes. Any other request leaves once, whatever comes of it.

        `extensions["fronting"]` of the response names the provider, the domain and the address.

        Raises:
            LocalProtocolError: not a request to this origin, or one that cannot be carried.
            ConnectError: no front could be used, and nothing was sent.
            TransportError: the request was lost with its line.
        """
        if self._is_closed:
            msg = "the route was closed"
            raise TransportError(msg)
        app = read_request(request)
        host = app.host.lower().rstrip(".")
        if (app.scheme, host, app.port) != (self._origin.scheme, self._host, self._origin.port):
            msg = f"a route to {self._host} was asked for {app.scheme}://{host}:{app.port}"
            raise LocalProtocolError(msg)
        asking = _Asking(app)
        try:
            found, head = await self._ask(asking)
        except BaseException:
            await self._settle(asking, kept=None)
            raise
        try:
            await self._settle(asking, kept=found)
        except BaseException:
            await found.line.aclose()
            raise
        known_as = fronted_host(found.provider, self._host) or ""
        answer = Answer(found, head, read_timeout=app.read_timeout, give_back=self._give_back)
        return answer.as_response(request, fronted=known_as, origin=self._host)

    async def aclose(self) -> None:
        """Close what is idle; a response under way keeps its line until its body is closed. Again does nothing."""
        self._is_closed = True
        while self._idle:
            try:
                await self._idle.pop().line.aclose()
            except BaseException:
                await self.aclose()  # the others
                raise

    def __repr__(self) -> str:
        """Say nothing of where it leads."""
        return f"<{type(self).__name__}, {len(self._idle)} idle>"

    async def _ask(self, asking: _Asking) -> tuple[Found, ResponseHead]:
        """Return the answer to hand out, which is the last of the refusals if there is nothing better."""
        while True:
            try:
                found = await self._line(asking)
            except TransportError as exc:
                asking.errors.append(exc)
                break
            choice = self._pool.take(found.front.key, anyio.current_time())
            if choice is None:  # the list was replaced meanwhile
                await found.line.aclose()
                continue
            try:
                head = await self._exchange(asking, found, choice)
            except TransportError as exc:
                asking.errors.append(exc)
                if not asking.may_be_repeated:
                    break
                continue
            if not self._is_refusal(head, choice.provider):
                return found, head
            is_agreed = any(refusal.head.status == head.status for refusal in asking.refusals)
            asking.refusals.append(_Refusal(found, choice, head))
            asking.tried.add(choice.front.key)
            if len(asking.refusals) > 1:
                await asking.refusals[-2].found.line.aclose()
            if is_agreed or not asking.may_be_repeated:
                break
        if asking.refusals:
            return asking.refusals[-1].found, asking.refusals[-1].head
        raise _lost(asking.errors)

    async def _settle(self, asking: _Asking, *, kept: Found | None) -> None:
        """Give the pool its verdicts on the refusals, and close the line of the last one unless it is `kept`.

        What two providers say alike, or the only one twice, is taken for the origin's word, and is no fault of theirs.
        """
        now = anyio.current_time()
        is_alone = self._pool.count_providers(self._host) == 1
        for one in asking.refusals:
            alike = [
                other.found.front.provider
                for other in asking.refusals
                if other.head.status == one.head.status
            ]
            if kept is None or len(set(alike)) > 1 or (is_alone and len(alike) > 1):
                self._pool.released(one.choice)
            else:
                self._pool.refused(one.choice, now, host=self._host)
                self._on_change()
        if asking.refusals and (last := asking.refusals[-1].found) is not kept:
            await last.line.aclose()

    async def _line(self, asking: _Asking) -> Found:
        """Return a line to send over: one that is ready, or one that has to be found."""
        most = IDLE_MOST if asking.app.is_repeatable else IDLE_FOR_ONE_SHOT
        while self._idle:
            found = self._idle.pop()
            line = found.line
            is_old = anyio.current_time() - line.idle_since > most
            is_fit = line.connection.is_idle and not line.connection.has_hung_up()
            if is_fit and not is_old and found.front.key not in asking.tried:
                return found
            await line.aclose()
        try:
            return await self._hunter.hunt(self._host, tried=asking.tried, avoid=asking.refusing)
        except TransportError as exc:
            if asking.sent:
                raise
            raise ConnectError(str(exc), error_type=error_type_of(exc)) from exc

    async def _exchange(self, asking: _Asking, found: Found, choice: Choice) -> ResponseHead:
        """Send the request over a line and return the head of the answer; on failure the line is closed.

        The pool has its verdict then, unless it is a refusal.
        """
        was_used, found.line.is_used = found.line.is_used, True
        if not was_used:  # an edge may close what was idle, which says nothing about it
            asking.tried.add(choice.front.key)
        began = anyio.current_time()
        try:
            head = await self._first_word(asking, found, choice.provider)
        except BaseException as exc:
            if isinstance(exc, TransportError) and not was_used:
                self._hunter.judge_failure(choice, exc)
            else:
                self._pool.released(choice)
            await found.line.aclose()
            raise
        if not self._is_refusal(head, choice.provider):
            now = anyio.current_time()
            self._pool.succeeded(choice, now, took=now - began, host=self._host)
            self._on_change()
        return head

    async def _first_word(self, asking: _Asking, found: Found, provider: Provider) -> ResponseHead:
        request = self._rewritten(asking.app, provider)
        asking.sent += 1
        limits = [asking.app.read_timeout]
        if asking.may_be_repeated:
            limits.append(HEAD_TIMEOUT)
        limit = min((seconds for seconds in limits if seconds is not None), default=None)
        with anyio.move_on_after(limit):
            return await found.line.connection.request(request, asking.app.body)
        msg = f"no answer within {limit:g} s"
        raise AttemptTimeout(msg, stage=Stage.VERIFY)

    def _rewritten(self, app: AppRequest, provider: Provider) -> RequestHead:
        authority = fronted_host(provider, self._host)
        if authority is None:
            msg = "the front's provider does not know the host any more"
            raise NotUsable(msg)
        via = self._rules.via_header
        # An id that no header can carry is left out (domainfront#14).
        is_plain = provider.id.isascii() and provider.id.isprintable() and provider.id.strip()
        if not via or not is_plain or any(name.lower() == via.lower() for name, _ in app.fields):
            return app.head(authority)
        return app.head(authority, (via, provider.id.strip().encode("ascii")))

    def _is_refusal(self, head: ResponseHead, provider: Provider) -> bool:
        """Return whether an answer may be the network's refusal, and is not marked as the origin's word."""
        is_bad = head.status == 403 or 500 <= head.status <= 599
        if not is_bad and head.status not in provider.reject_statuses:
            return False
        mark = head.get(self._rules.origin_header) if self._rules.origin_header else None
        return not (mark or b"").strip()

    def _give_back(self, found: Found) -> bool:
        """Take a line back whose response has ended; return whether it is wanted."""
        if self._is_closed:
            return False
        found.line.idle_since = anyio.current_time()
        self._idle.append(found)
        return True


def _lost(errors: list[Exception]) -> Exception:
    """Return one error for all that went wrong."""
    if len(errors) == 1:
        return errors[0]
    group = ExceptionGroup(f"{len(errors)} fronts failed", errors)
    told = "; ".join(dict.fromkeys(str(error) for error in errors))
    error = NetworkError(
        f"the request came through no front: {told[:600]}", error_type=error_type_of(group)
    )
    error.__cause__ = group
    return error
