"""Makes all checks side by side, each within its time, and collects what they find."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from racer._dialer import target_of
from racer._finding import Finding, Verdict
from racer.abc import check_seconds
from racer.doctor._asking import Resolver, Ways
from racer.doctor._clock import judge_clock, judge_jump, see_dates
from racer.doctor._diagnosis import Diagnosis
from racer.doctor._export import check_export
from racer.doctor._judging import EXISTS, judge
from racer.doctor._resolvers import ask_all
from racer.doctor._transports import judge_trial, try_entrant
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from racer._dialer import Dialer
    from racer._target import Target
    from racer.abc import Guest

__all__ = ("DEFAULT_HOST", "DEFAULT_LIMIT", "DEFAULT_REPEATS", "examine")

DEFAULT_HOST: Final = EXISTS
"""It answers over TLS, and tells nobody anything about you."""

DEFAULT_REPEATS: Final = 3
DEFAULT_LIMIT: Final = 20.0
_MAX_REPEATS: Final = 20
_DIAGNOSE: Final = 10.0  # seconds for a guest's own checks
_EXPORT: Final = 5.0  # seconds for each signal
_NO_WAYS: Final = Ways()

logger = logging.getLogger("racer.doctor")


def _wall_clock() -> float:
    return datetime.now(UTC).timestamp()


async def examine(
    dialer: Dialer | None,
    host: str | Target = DEFAULT_HOST,
    *,
    resolvers: Iterable[str | Resolver] = (),
    findings: Iterable[Finding] = (),
    ways: Ways = _NO_WAYS,
    repeats: int = DEFAULT_REPEATS,
    limit: float = DEFAULT_LIMIT,
    export: bool = True,
    clock: Callable[[], float] = _wall_clock,
    home: str = "",
) -> Diagnosis:
    """Return what is wrong, in words, and what to try. Never raises for what the network does.

    All checks run side by side, each within its time; the whole takes `limit` for each try of the slowest transport, and
    some seconds. Cancelling closes all that is open.

    Args:
        dialer: whose transports are tried; the caller closes it. `None` leaves out what needs one.
        host: what they are to reach, a name or a target.
        resolvers: to be asked, URLs such as `udp://192.0.2.53`.
        findings: of checks that were made before, such as `check_configuration`; they come first.
        ways: how resolvers are reached, in place of sockets of the doctor's own.
        repeats: how often each transport is tried, up to 20.
        limit: seconds for each try.
        export: whether the collector that the OTEL_* variables name is asked.
        clock: tells the time in seconds since 1970.
        home: the user's home directory, to be taken out of redacted reports.

    Raises:
        ConfigError, InvalidTarget: an argument that cannot be.
    """
    if type(repeats) is not int or not 1 <= repeats <= _MAX_REPEATS:
        msg = f"repeats must be a whole number from 1 to {_MAX_REPEATS}, not {repeats!r:.80}"
        raise ConfigError(msg)
    check_seconds(limit, "limit")
    target = target_of(host, None, None, ())
    asked = [Resolver.parse(one) if isinstance(one, str) else one for one in resolvers]
    examination = _Examination(dialer, target, limit=limit, clock=clock)
    began, began_wall = anyio.current_time(), clock()
    name = DEFAULT_HOST if target.is_address else target.host
    groups: list[Callable[[], Awaitable[Sequence[Finding]]]] = [
        partial(examination.resolvers, asked, name, ways),
        partial(examination.transports, repeats),
        examination.clock,
    ]
    if export:
        groups.append(_export)
    found = await _side_by_side(groups)
    took = anyio.current_time() - began
    jump = judge_jump(wall=clock() - began_wall, loop=took)
    return Diagnosis(
        target=str(target),
        findings=(*findings, *([jump] if jump else []), *found),
        seconds=took,
        hosts=(target.host, *(one.host for one in asked)),
        home=home,
    )


class _Examination:
    """What the checks have in common."""

    def __init__(
        self,
        dialer: Dialer | None,
        target: Target,
        *,
        limit: float,
        clock: Callable[[], float],
    ) -> None:
        self._dialer = dialer
        self._target = target
        self._limit = limit
        self._clock = clock

    async def resolvers(
        self, asked: Sequence[Resolver], name: str, ways: Ways
    ) -> Sequence[Finding]:
        if not asked:
            return []
        return judge(await ask_all(asked, name, ways), name)

    async def transports(self, repeats: int) -> Sequence[Finding]:
        """Try each entrant, and then let it say itself what it finds."""
        if self._dialer is None:
            return []
        names = [entrant.name for entrant in self._dialer.status().entrants]
        return await _side_by_side([partial(self._transport, name, repeats) for name in names])

    async def _transport(self, name: str, repeats: int) -> Sequence[Finding]:
        dialer = self._dialer
        assert dialer is not None
        trial = await try_entrant(dialer, name, self._target, repeats=repeats, limit=self._limit)
        status = dialer.status()[name].transport
        guest = dialer.eligible(self._target, kind="any").get(name)
        own = [] if guest is None else await self._own(guest, name)
        return [judge_trial(trial, status), *own]

    @staticmethod
    async def _own(guest: Guest, name: str) -> Sequence[Finding]:
        """Return what a guest finds by itself, whatever it makes of being asked."""
        with anyio.move_on_after(_DIAGNOSE):
            found: object = await guest.diagnose()
            if isinstance(found, list | tuple) and all(isinstance(one, Finding) for one in found):
                return found
            msg = f"diagnose() returned {type(found).__name__}, not a list of findings"
            raise TypeError(msg)
        words = f"{name} did not get through with its own checks within {_DIAGNOSE:g} s."
        return [Finding(check=f"checks of {name}", verdict=Verdict.SKIPPED, words=words)]

    async def clock(self) -> Sequence[Finding]:
        if self._dialer is None:
            return []
        seen = await see_dates(self._dialer, self._target, now=self._clock(), limit=self._limit)
        return [judge_clock(seen, self._target.host)]


async def _export() -> Sequence[Finding]:
    # A thread cannot be cancelled; it has its own limit, and nobody waits for it any longer than that.
    return await anyio.to_thread.run_sync(check_export, _EXPORT, abandon_on_cancel=True)


async def _side_by_side(
    checks: Sequence[Callable[[], Awaitable[Sequence[Finding]]]],
) -> list[Finding]:
    """Return what all checks find, in their order; one that crashes says so, and hides no other."""
    found: dict[int, Sequence[Finding]] = {}

    async def one(index: int, check: Callable[[], Awaitable[Sequence[Finding]]]) -> None:
        try:
            found[index] = await check()
        except Exception as exc:  # a bug in one check, which must not cost the others
            logger.exception("a check failed")
            words = f"A check failed by itself, which is a bug in it: {type(exc).__name__}."
            found[index] = [Finding(check="doctor", verdict=Verdict.FAIL, words=words)]

    async with anyio.create_task_group() as group:
        for index, check in enumerate(checks):
            group.start_soon(one, index, check)
    return [finding for index in range(len(checks)) for finding in found[index]]
