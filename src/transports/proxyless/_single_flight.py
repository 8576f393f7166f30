"""One piece of work for all who want it at once; it lives in a host, and outlasts those who have stopped waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from racer.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from racer.abc import Host

__all__ = ("SingleFlight",)

_T = TypeVar("_T")


class SingleFlight(Generic[_T]):
    """Runs work by key, each key once at a time. Results are not kept: who comes later begins anew."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._under_way: dict[Hashable, _Work[_T]] = {}

    def __len__(self) -> int:
        """Return how much is under way."""
        return len(self._under_way)

    async def run(self, key: Hashable, work: Callable[[], Awaitable[_T]], host: Host) -> _T:
        """Return what the work under way for `key` comes to; begin it if there is none.

        Cancelling ends the waiting alone.

        Args:
            key: which work.
            work: does it.
            host: where it lives.

        Raises:
            TransportError: it was cancelled, or the host ended.
            Exception: what the work raises; an error of its own for each who waits.
        """
        flight = self._under_way.get(key)
        if flight is None:
            flight = _Work()
            host.start_soon(self._do, key, flight, work, name="proxyless search")
            self._under_way[key] = flight
        await flight.done.wait()
        if flight.error is not None:
            raise _copy(flight.error)
        (result,) = flight.result
        return result

    def cancel(self) -> None:
        """End all work; who waits is told."""
        for flight in self._under_way.values():
            flight.scope.cancel()

    async def _do(
        self, key: Hashable, flight: _Work[_T], work: Callable[[], Awaitable[_T]]
    ) -> None:
        try:
            with flight.scope:
                flight.result.append(await work())
        except Exception as exc:  # noqa: BLE001 - raised where somebody waits
            flight.error = exc
        finally:
            self._under_way.pop(key, None)
            if flight.error is None and not flight.result:
                flight.error = TransportError("the search was ended")
            flight.done.set()


class _Work(Generic[_T]):
    """Something under way."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.scope = anyio.CancelScope()
        self.result: list[_T] = []
        self.error: Exception | None = None


def _copy(error: Exception) -> Exception:
    """Return an error of the same words and causes: one that several raise would collect all their frames."""
    if not isinstance(error, TransportError):
        return error
    copy: Any = type(error).__new__(type(error))
    TransportError.__init__(copy, str(error), stage=error.stage, error_type=error.error_type)
    copy.__cause__ = error.__cause__
    return copy  # type: ignore[no-any-return]
