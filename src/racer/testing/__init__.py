"""A workshop for tests of transports, dialers, and whatever else races: fakes, clocks, and two kits.

Nothing here needs a test framework. Everything runs on asyncio and trio; trio is imported only where a
trio clock is asked for.

* `run_virtual`, `virtual_backends`, `VirtualClockEventLoop`: clocks that jump instead of waiting.
* `stream_pair`, `StreamLedger`: streams in memory that remember how they were closed.
* `cancel_everywhere`: cancels a story at every point at which it can be cancelled.
* `ScriptedTransport`, `ScriptedRequestTransport`: transports that win, fail, hang and misbehave on time, as
  written with `wins`, `fails`, `hangs` and `returns`.
* `check_transport`, `check_request_transport`: whether a transport of your own keeps its promises; with
  `EchoServer` to connect to, and `LocalHost` to live in.
"""

from __future__ import annotations

from racer.testing._bench import NonConformance, Rule
from racer.testing._cancel import cancel_everywhere
from racer.testing._clock_rules import ClockSettings, DeadlockError, LivelockError
from racer.testing._clocks import (
    Backend,
    BackendName,
    VirtualClockEventLoop,
    run_virtual,
    virtual_backends,
)
from racer.testing._conformance import (
    ConformanceReport,
    check_request_transport,
    check_transport,
)
from racer.testing._echo import EchoServer
from racer.testing._ledger import StreamLeak, StreamLedger, Tracked
from racer.testing._local_host import LocalHost
from racer.testing._points import (
    CancelFault,
    CancelKind,
    CancellationMishandled,
    CancelMoment,
    CancelPoint,
    CancelSweep,
)
from racer.testing._script import Ending, Script, Step, fails, hangs, returns, returns_none, wins
from racer.testing._scripted import (
    AttemptRecord,
    ContractBroken,
    Lifecycle,
    RecordedEnd,
    ScriptedRequestTransport,
    ScriptedRoute,
    ScriptedTransport,
)
from racer.testing._streams import MemoryStream, stream_pair

__all__ = (
    "AttemptRecord",
    "Backend",
    "BackendName",
    "CancelFault",
    "CancelKind",
    "CancelMoment",
    "CancelPoint",
    "CancelSweep",
    "CancellationMishandled",
    "ClockSettings",
    "ConformanceReport",
    "ContractBroken",
    "DeadlockError",
    "EchoServer",
    "Ending",
    "Lifecycle",
    "LivelockError",
    "LocalHost",
    "MemoryStream",
    "NonConformance",
    "RecordedEnd",
    "Rule",
    "Script",
    "ScriptedRequestTransport",
    "ScriptedRoute",
    "ScriptedTransport",
    "Step",
    "StreamLeak",
    "StreamLedger",
    "Tracked",
    "VirtualClockEventLoop",
    "cancel_everywhere",
    "check_request_transport",
    "check_transport",
    "fails",
    "hangs",
    "returns",
    "returns_none",
    "run_virtual",
    "stream_pair",
    "virtual_backends",
    "wins",
)
