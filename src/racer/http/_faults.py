"""Faults as errors: racer's own, which name every route and become the cause of the HTTP library's (H8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from racer._words import describe, words
from racer.errors import (
    AttemptTimeout,
    ErrorType,
    NetworkError,
    RacerError,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer._report import Attempt
    from racer.http2 import Fault

__all__ = ("RequestFailed", "cause_of", "connect_error", "explain")

_E = TypeVar("_E", bound=BaseException)


_MAX_CAUSES = 10_000  # a search over causes stops here: real chains are short


class RequestFailed(RacerError):
    """A request that failed on several routes: the `__cause__` of the HTTP library's error then.

    Attributes:
        errors: one for each route or race, in the order tried.
        group: the same as an `ExceptionGroup`; also `__cause__`.
    """

    def __init__(self, errors: Sequence[Exception]) -> None:
        """Keep them, and name every route in the text."""
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)
        self.group = ExceptionGroup(f"{len(errors)} routes failed", list(errors))
        self.__cause__ = self.group

    def find(self, kind: type[_E]) -> _E | None:
        """Return the first error of `kind` among the causes, outermost first; else `None`."""
        todo: list[BaseException] = [self.group]
        seen: set[int] = set()
        while todo and len(seen) < _MAX_CAUSES:
            current = todo.pop(0)
            if id(current) in seen:
                continue
            seen.add(id(current))
            if isinstance(current, kind):
                return current
            if isinstance(current, BaseExceptionGroup):
                todo += current.exceptions
            if current.__cause__ is not None:
                todo.append(current.__cause__)
        return None


def cause_of(fault: Fault) -> TransportError:
    """Return a fault as one of racer's errors, which names its transport and keeps what it came from."""
    message = explain(fault)
    error: TransportError
    if fault.is_timeout:
        error = AttemptTimeout(message, transport=fault.transport)
    elif fault.kind.endswith("ProtocolError"):
        error = NetworkError(
            message, transport=fault.transport, error_type=ErrorType.PROTOCOL_ERROR
        )
    elif fault.__cause__ is None:
        error = NetworkError(
            message, transport=fault.transport, error_type=ErrorType.CONNECTION_RESET
        )
    else:  # it says more by itself
        error = NetworkError(message, transport=fault.transport)
    error.__cause__ = fault.__cause__
    return error


def connect_error(attempt: Attempt) -> TransportError:
    """Return why a route could not even be asked, by its name."""
    error = NetworkError(
        f"{attempt.transport}: {attempt.cause}",
        transport=attempt.transport,
        stage=attempt.stage,
        error_type=attempt.error_type,
    )
    error.__cause__ = attempt.error
    return error


def explain(fault: Fault) -> str:
    """Return one line that names the transport, what happened, and what that came from."""
    told = f"{fault.transport}: {fault}" if fault.transport else str(fault)
    cause = fault.__cause__
    if cause is None or ((inner := words(cause)) and inner in told):
        return told
    return f"{told} ({describe(cause)})"
