"""racer connects when the network does not want you to.

`await racer.dial(host)` starts several transports on staggered delays, keeps the first that really works, closes the
rest, and leaves OpenTelemetry spans that say what every attempt did and why it failed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from racer import abc, errors
from racer._connection import Connection, ConnectionAttribute
from racer._default import aclose, dial, set_default_dialer
from racer._dialer import Dialer
from racer._explain import Explanation, explain
from racer._memory import Memory
from racer._race import Race
from racer._report import Attempt, Outcome, RaceReport
from racer._roster import Entrant
from racer._status import DialerStatus, EntrantStatus
from racer._version import __version__

if TYPE_CHECKING:
    from types import ModuleType

    from racer import config, doctor, http, http2, proxy, scheduling, testing

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

_LAZY = frozenset({"config", "doctor", "http", "http2", "proxy", "scheduling", "testing"})


def __getattr__(name: str) -> ModuleType:
    """Load a public room when it is first named, so that `import racer` stays cheap."""
    if name in _LAZY:
        return importlib.import_module(f"racer.{name}")
    msg = f"module 'racer' has no attribute {name!r}"
    raise AttributeError(msg)
