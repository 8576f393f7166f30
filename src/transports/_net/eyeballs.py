"""Happy Eyeballs: the first connection to any address of a name (RFC 8305), with `racer`'s own brain for the starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import anyio

from racer.abc import Stage
from racer.errors import ErrorType, NetworkError, TransportBusy, TransportError
from racer.scheduling import Lane, Schedule
from transports._net.addresses import Candidates, host_port
from transports._net.resolve import Answer, flaw_of, says_no_such_name
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup

    from racer.abc import Progress
    from transports._net.addresses import Family
    from transports._net.resolve import Resolver

__all__ = ("Dial", "connect_name")

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dial(Protocol[_T_co]):
    """Makes one connection to one IP address; cancellation and failure leave nothing behind."""

    async def __call__(self, address: str, port: int) -> _T_co:
        """Return the connection, which belongs to the caller.

        Raises:
            OSError, TransportError: why not.
        """


async def connect_name(
    name: str,
    port: int,
    *,
    resolver: Resolver,
    families: Sequence[Family],
    dial: Dial[_T],
    discard: Callable[[_T], Awaitable[None]],
    attempt_delay: float,
    resolution_delay: float,
    progress: Progress,
) -> _T:
    """Return the first connection to any address of `name`; the caller closes it.

    Trying begins with the first answer that has the preferred family in it, or is the last; an answer without it waits
    `resolution_delay` for it. Families take turns; the next address is tried `attempt_delay` after the last start, and
    at once after a failure; answers that come late join. Of two connections in the same moment the one begun first is
    returned. A lone address costs no task of its own.

    At most 16 addresses a family are tried, so 32 is also the bound of simultaneous connections. All but the returned
    one are closed when this returns or raises, also when it is cancelled.

    Args:
        name: as for `Resolver.resolve`.
        port: 1 to 65535.
        resolver: where the addresses come from.
        families: which to ask for, the preferred first; at least one.
        dial: makes a connection to one address; runs beside other calls of itself.
        discard: closes one that is not wanted, soon, whatever happens to the calling task meanwhile.
        attempt_delay: seconds.
        resolution_delay: seconds.
        progress: told the stage, each address that is tried, and last the winner's.

    Raises:
        OSError: every address failed. With several, the error's cause is an `ExceptionGroup` of all of them, and
            `errno` is set when they agree.
        NetworkError: `name` has no address, or could not be looked up; the resolver's own error is the cause.
        TransportBusy: the resolver is at its limit.
        TransportError: the only address failed with one.
    """
    race = _Race(
        name,
        port,
        resolver=resolver,
        families=families,
        dial=dial,
        discard=discard,
        attempt_delay=attempt_delay,
        resolution_delay=resolution_delay,
        progress=progress,
    )
    try:
        return await race.run()
    finally:
        race.forget()


class _Race(Generic[_T]):
    """One name being connected to. Tasks report synchronously; `_decide` alone starts and ends attempts."""

    def __init__(
        self,
        name: str,
        port: int,
        *,
        resolver: Resolver,
        families: Sequence[Family],
        dial: Dial[_T],
        discard: Callable[[_T], Awaitable[None]],
        attempt_delay: float,
        resolution_delay: float,
        progress: Progress,
    ) -> None:
        self._name = name
        self._port = port
        self._resolver = resolver
        self._families = families
        self._dial = dial
        self._discard = discard
        self._attempt_delay = attempt_delay
        self._progress = progress
        self._candidates = Candidates(families, resolution_delay=resolution_delay)
        self._wakeup = Wakeup()
        self._tasks: TaskGroup
        self._schedule: Schedule | None = None
        self._is_deciding = False
        self._addresses: list[str] = []
        self._made: dict[int, _T] = {}
        self._failures: dict[int, OSError | TransportError] = {}
        self._lookup_errors: list[OSError | TransportError] = []
        self._fatal: BaseException | None = None
        self._winner: int | None = None
        self._lone: str | None = None

    async def run(self) -> _T:
        self._progress.stage(Stage.RESOLVE)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await self._look_up()
                if not self._is_deciding:
                    await self._decide()
            await self._close(keep=self._winner if self._fatal is None else None)
        except BaseException:
            await self._close()
            raise
        # Raised here and not in the task group, so that it leaves bare.
        if self._fatal is not None:
            raise self._fatal
        if self._lone is not None:
            return await self._dial_lone(self._lone)
        if self._winner is None:
            raise self._error()
        self._progress.peer(self._addresses[self._winner], self._port)
        return self._made.pop(self._winner)

    async def _dial_lone(self, address: str) -> _T:
        self._progress.stage(Stage.CONNECT)
        self._progress.peer(address, self._port)
        try:
            return await self._dial(address, self._port)
        except (OSError, TransportError) as exc:
            self._failures[0] = exc
        raise self._error()

    def forget(self) -> None:
        """Drop the errors: their frames know this race, and it would wait for the garbage collector."""
        self._fatal = None
        self._failures.clear()
        self._lookup_errors.clear()

    async def _look_up(self) -> None:
        try:
            await self._resolver.resolve(self._name, self._families, self._answer)
        except (OSError, TransportError) as exc:
            self._end_lookup(exc)
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - `run` raises it
            self._crash(exc)
        else:
            self._end_lookup(None)

    def _end_lookup(self, error: OSError | TransportError | None) -> None:
        if pending := self._candidates.pending:
            self._take(Answer(families=tuple(pending), error=error))

    def _answer(self, answer: Answer) -> None:
        """Take an answer from the resolver, which goes on."""
        self._take(answer)
        # Most resolvers have one answer, and most answers one address: the second task waits until it is needed.
        if len(self._candidates) and self._candidates.pending and not self._is_deciding:
            self._is_deciding = True
            self._tasks.start_soon(self._decide, name=f"connect to {self._name}")

    def _take(self, answer: Answer) -> None:
        error = answer.error or flaw_of(self._name, answer)
        if error is not None:
            self._lookup_errors.append(error)
        addresses = answer.addresses if error is None else ()
        new = self._candidates.answer(answer.families, addresses, anyio.current_time())
        if self._schedule is not None:
            for _ in range(new):
                self._schedule.add(Lane())
        self._wakeup.set()

    async def _decide(self) -> None:
        """Return when there is a winner, a lone address, a fatal error, or nothing to wait for; all else ends then."""
        self._lone = await self._open()
        schedule = self._schedule
        while schedule is not None and self._fatal is None:
            if (winner := schedule.take()) is not None:
                self._winner = winner
                break
            for index in schedule.start_due(anyio.current_time()):
                self._start(index)
            if schedule.is_exhausted and not self._candidates.pending:
                break
            await self._wakeup.wait(schedule.next_timeout())
        if self._is_deciding or schedule is not None:  # else no other task exists
            self._tasks.cancel_scope.cancel()

    async def _open(self) -> str | None:
        """Begin the schedule when trying may begin; return the address if there is but one."""
        candidates = self._candidates
        while self._fatal is None and (candidates.pending or len(candidates)):
            now = anyio.current_time()
            if now < candidates.opens_at:
                await self._wakeup.wait(candidates.opens_at)
            elif len(candidates) == 1 and not candidates.pending:
                return candidates.pop()
            else:
                self._progress.stage(Stage.CONNECT)
                self._schedule = Schedule(
                    [Lane()] * len(candidates), now=now, stagger=self._attempt_delay, eager=True
                )
                return None
        return None

    def _start(self, index: int) -> None:
        # A lane is a turn, not an address: whose turn it is is known only now, when late answers have joined.
        address = self._candidates.pop()
        self._addresses.append(address)
        self._progress.peer(address, self._port)
        self._tasks.start_soon(self._attempt, index, address, name=f"connect to {address}")

    async def _attempt(self, index: int, address: str) -> None:
        assert self._schedule is not None
        try:
            made = await self._dial(address, self._port)
        except (OSError, TransportError) as exc:
            self._failures[index] = exc
            self._schedule.failed(index)
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - `run` raises it
            self._crash(exc)
        else:
            self._made[index] = made
            self._schedule.arrived(index)
        self._wakeup.set()

    def _crash(self, error: BaseException) -> None:
        """Take what is no failure but a bug, or a wish to end the program; a bug in a loser harms no winner."""
        if self._winner is None or not isinstance(error, Exception):
            self._fatal = error
        self._wakeup.set()

    async def _close(self, *, keep: int | None = None) -> None:
        """Close every connection but `keep`."""
        for index in [index for index in self._made if index != keep]:
            made = self._made.pop(index)
            try:
                await self._discard(made)
            except BaseException:
                await self._close(keep=keep)
                raise

    def _error(self) -> OSError | TransportError:
        """Return the error of a race that nothing won."""
        if not self._failures:
            return _lookup_error(self._name, self._lookup_errors)
        failures = [self._failures[index] for index in sorted(self._failures)]
        # A family the name does not have is no news where another one was tried.
        also = [exc for exc in self._lookup_errors if not says_no_such_name(exc)]
        if len(failures) == 1 and not also:
            return failures[0]
        return _all_failed(host_port(self._name, self._port), failures, also)


def _all_failed(
    subject: str,
    failures: Sequence[OSError | TransportError],
    also: Sequence[OSError | TransportError],
) -> OSError:
    errors = [*failures, *also]
    text = f"could not connect to {subject}: {'; '.join(map(_words, errors))}"
    numbers = {exc.errno if isinstance(exc, OSError) else None for exc in failures}
    number = numbers.pop() if len(numbers) == 1 else None
    error = OSError(text) if number is None else OSError(number, text)
    error.__cause__ = ExceptionGroup(f"every address of {subject} failed", errors)
    return error


def _lookup_error(name: str, errors: Sequence[OSError | TransportError]) -> TransportError:
    for exc in errors:
        if isinstance(exc, TransportBusy):
            return exc
    words = list(dict.fromkeys(map(_words, errors)))
    error = NetworkError(
        f"could not look up {name}: {'; '.join(words)}" if words else f"{name} has no IP address",
        stage=Stage.RESOLVE,
        error_type=ErrorType.DNS_FAILURE,
    )
    if len(words) > 1:
        error.__cause__ = ExceptionGroup(f"the lookups of {name} failed", list(errors))
    elif errors:
        error.__cause__ = errors[0]
    return error


def _words(exc: OSError | TransportError) -> str:
    """Return an error's text without the number in front."""
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc) or type(exc).__name__
