"""A workshop for tests of transports, dialers, and whatever else races: fakes, clocks, and two kits.

Nothing here needs a test framework. Everything runs on asyncio and trio; trio is imported only where a
trio clock is asked for.

* `run_virtual`, `virtual_backends`, `VirtualClockEventLoop`: clocks that jump instead of waiting.
* `stream_pair`, `StreamLedger`: streams in memory that remember how they were closed.
* `cancel_everywhere`: cancels a story at every point at which it can be cancelled.
"""

from __future__ import annotations

from racer.testing._cancel import cancel_everywhere
from racer.testing._clock_rules import ClockSettings, DeadlockError, LivelockError
from racer.testing._clocks import (
    Backend,
    BackendName,
    VirtualClockEventLoop,
    run_virtual,
    virtual_backends,
)
from racer.testing._points import (
    CancelFault,
    CancelKind,
    CancellationMishandled,
    CancelMoment,
    CancelPoint,
    CancelSweep,
)
from racer.testing._streams import MemoryStream, StreamLeak, StreamLedger, stream_pair

__all__ = (
    "Backend",
    "BackendName",
    "CancelFault",
    "CancelKind",
    "CancelMoment",
    "CancelPoint",
    "CancelSweep",
    "CancellationMishandled",
    "ClockSettings",
    "DeadlockError",
    "LivelockError",
    "MemoryStream",
    "StreamLeak",
    "StreamLedger",
    "VirtualClockEventLoop",
    "cancel_everywhere",
    "run_virtual",
    "stream_pair",
    "virtual_backends",
)
