"""Does a transport keep the promises of `racer.abc`? A kit for whoever writes one."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anyio.abc import ByteStream

from racer.abc import Origin, Progress, RequestTransport, Target, Transport
from racer.testing._bench import Bench, NonConformance, Rule, Setting
from racer.testing._checks import REQUEST_CHECKS, STREAM_CHECKS
from racer.testing._outside import count_open_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from racer.testing._checks import Check
    from racer.testing._points import CancelSweep

__all__ = ("ConformanceReport", "check_request_transport", "check_transport")

_PASSES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """What a kit has found in order; a broken rule is raised.

    Attributes:
        transport: The transport's name.
        checked: The rules that it keeps.
        skipped: The rules that could not be checked, with the reasons.
        sweep: What its cancellations came to.
    """

    transport: str
    checked: tuple[Rule, ...]
    skipped: Mapping[Rule, str]
    sweep: CancelSweep | None


async def check_transport(
    make: Callable[[], Transport],
    *,
    target: Target,
    failing_target: Target | None = None,
    unserved_target: Target | None = None,
    echoes: bool = True,
    secrets: Sequence[str] = (),
    count_open: Callable[[], int | None] = count_open_files,
    passes: int = _PASSES,
) -> ConformanceReport:
    """Return what was checked, if a transport of your own keeps every promise of `racer.abc`.

    Run it on asyncio and on trio, on a virtual clock or a real one. Each check makes a fresh transport, and
    a `LocalHost` to start it in. `EchoServer` gives targets to connect to.

    Args:
        make: Gives a new transport at each call.
        target: One that works. Behind it, unless `echoes` is False, something sends back what it gets
            until its peer ends, and then ends as well.
        failing_target: One to which no connection can be made.
        unserved_target: One for which `serves` gives a reason.
        echoes: Whether bytes may be sent to the target.
        secrets: Texts, such as a key or password in the transport's configuration, that must not be found
            in its name, its repr, its status, its errors, or what it logs at INFO and above.
        count_open: Counts what may leak; by default the file descriptors of this process. None where it
            cannot be counted.
        passes: How many passes of the scheduler `cancel_everywhere` tries after each suspension.

    Raises:
        NonConformance: The first rule found broken, and how.

    Example:
        ::

            async def test_conformance(anyio_backend):
                async with EchoServer() as server:
                    report = await check_transport(
                        MyTransport,
                        target=server.target,
                        failing_target=server.refusing_target,
                    )
                assert report.sweep is not None
                assert report.sweep.cancelled > 0
    """

    async def reach(guest: Transport, wanted: Target) -> ByteStream:
        return await guest.connect(wanted, Progress())

    setting = Setting(
        make=make,
        reach=reach,
        kind=Transport,
        gives=ByteStream,
        target=target,
        failing_target=failing_target,
        unserved_target=unserved_target,
        echoes=echoes,
        ask=None,
        secrets=secrets,
        count_open=count_open,
        passes=passes,
    )
    return await _run(Bench(setting), STREAM_CHECKS)


async def check_request_transport(
    make: Callable[[], RequestTransport],
    *,
    ask: Callable[[Any], Awaitable[object]],
    target: Target,
    failing_target: Target | None = None,
    unserved_target: Target | None = None,
    secrets: Sequence[str] = (),
    count_open: Callable[[], int | None] = count_open_files,
    passes: int = _PASSES,
) -> ConformanceReport:
    """Return what was checked, if a request transport of your own keeps every promise of `racer.abc`.

    As `check_transport`, for the other kind. The origin to prepare for is made from each target: ``https``
    if it wants TLS, ``http`` if not.

    Args:
        make: Gives a new transport at each call.
        ask: Sends a request through the route it is given, and raises if the response is not right.
        target: One that works.
        failing_target: One for which no route can be prepared.
        unserved_target: One for which `serves` gives a reason.
        secrets: Texts that must not be found in anything the transport shows.
        count_open: Counts what may leak.
        passes: How many passes of the scheduler `cancel_everywhere` tries after each suspension.

    Raises:
        NonConformance: The first rule found broken, and how.
    """

    async def reach(guest: RequestTransport, wanted: Target) -> Any:  # noqa: ANN401 - a route
        scheme = "http" if wanted.tls is False else "https"
        return await guest.prepare(Origin(scheme, wanted.host, wanted.port))

    setting = Setting(
        make=make,
        reach=reach,
        kind=RequestTransport,
        gives=None,
        target=target,
        failing_target=failing_target,
        unserved_target=unserved_target,
        echoes=False,
        ask=ask,
        secrets=secrets,
        count_open=count_open,
        passes=passes,
    )
    return await _run(Bench(setting), REQUEST_CHECKS)


async def _run(bench: Bench, checks: Mapping[Rule, Check]) -> ConformanceReport:
    checked: list[Rule] = []
    skipped: dict[Rule, str] = {}
    with _logs(bench):
        for rule, check in checks.items():
            bench.rule = rule
            try:
                reason = await check(bench)
            except NonConformance:
                raise
            except Exception as exc:  # noqa: BLE001 - whatever it is, the transport raised it
                bench.fail(f"it raised {exc!r}", exc)
            if reason is None:
                checked.append(rule)
            else:
                skipped[rule] = reason
    return ConformanceReport(
        transport=bench.name,
        checked=tuple(checked),
        skipped=MappingProxyType(skipped),
        sweep=bench.sweep,
    )


@contextmanager
def _logs(bench: Bench) -> Iterator[None]:
    """Note what is logged at INFO and above in the block."""
    root = logging.getLogger()
    level = root.level
    handler = _Tap(bench)
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


class _Tap(logging.Handler):
    def __init__(self, bench: Bench) -> None:
        super().__init__(logging.INFO)
        self._bench = bench

    def emit(self, record: logging.LogRecord) -> None:
        self._bench.texts.append((f"the log of {record.name!r}", self.format(record)))
