"""racer connects when the network does not want you to.

`await racer.dial(host)` starts several transports on staggered delays, keeps the first that really works, closes the
rest, and leaves OpenTelemetry spans that say what every attempt did and why it failed.

`import racer` alone loads next to nothing: what a name needs is loaded when it is first named. Transports, and programs
that are started for one dial, wait for nothing they do not use. `from racer import dial` loads the dialer at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from racer._version import __version__

if TYPE_CHECKING:
    from racer import abc, config, doctor, errors, http, http2, proxy, scheduling, testing
    from racer._connection import Connection, ConnectionAttribute
    from racer._default import aclose, dial, set_default_dialer
    from racer._dialer import Dialer
    from racer._explain import Explanation, explain
    from racer._memory import Memory
    from racer._race import Race
    from racer._report import Attempt, Outcome, RaceReport
    from racer._roster import Entrant
    from racer._status import DialerStatus, EntrantStatus

__all__ = (
    "Attempt",
    "Connection",
    "ConnectionAttribute",
    "Dialer",
    "DialerStatus",
    "Entrant",
    "EntrantStatus",
    "Explanation",
    "Memory",
    "Outcome",
    "Race",
    "RaceReport",
    "__version__",
    "abc",
    "aclose",
    "config",
    "dial",
    "doctor",
    "errors",
    "explain",
    "http",
    "http2",
    "proxy",
    "scheduling",
    "set_default_dialer",
    "testing",
)

_HOMES: Final = {
    "Attempt": "racer._report",
    "Connection": "racer._connection",
    "ConnectionAttribute": "racer._connection",
    "Dialer": "racer._dialer",
    "DialerStatus": "racer._status",
    "Entrant": "racer._roster",
    "EntrantStatus": "racer._status",
    "Explanation": "racer._explain",
    "Memory": "racer._memory",
    "Outcome": "racer._report",
    "Race": "racer._race",
    "RaceReport": "racer._report",
    "aclose": "racer._default",
    "dial": "racer._default",
    "explain": "racer._explain",
    "set_default_dialer": "racer._default",
}
_ROOMS: Final = frozenset(
    {
        "abc",
        "config",
        "doctor",
        "errors",
        "http",
        "http2",
        "proxy",
        "scheduling",
        "testing",
    }
)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    if name in _ROOMS:
        return importlib.import_module(f"racer.{name}")
    msg = f"module 'racer' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # for who explores: also what was not loaded yet
