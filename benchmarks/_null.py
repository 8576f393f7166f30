"""Telemetry that does nothing at all: what a race costs beyond it is telemetry's own share."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from racer import Dialer
    from racer._spans import Telemetry

__all__ = ("silence",)


def silence(dialer: Dialer) -> Dialer:
    """Take the telemetry out of `dialer`, before its first use, and return it."""
    dialer._telemetry = cast("Telemetry", _Nothing())  # noqa: SLF001 - there is no public way, and no use but this one
    return dialer


class _Nothing:
    """Stands for the telemetry, the race's trace and an attempt's trace alike."""

    redact = is_redacting = False
    started = 0.0

    def begin(self, *_: Any, **__: Any) -> _Nothing:  # noqa: ANN401 - whatever racer says, nobody listens
        return self

    def attempt(self, *_: Any, **__: Any) -> _Nothing:  # noqa: ANN401
        return self

    def context(self) -> contextvars.Context:
        return contextvars.copy_context()

    def _ignore(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
        pass

    peer = session = event = end = cleaned = recalled = _ignore
