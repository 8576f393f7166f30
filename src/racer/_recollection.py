"""What a memory has to say to one race, and what the race tells it in return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer._memory_table import failures_to_learn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from racer._host import LoopHost
    from racer._memory import Memory
    from racer._report import RaceReport

__all__ = ("Recollection",)

_JUMP: Final = (
    5.0  # seconds by which a clock may differ from the loop's before one of them has jumped
)


class Recollection:
    """The part of a memory that one race needs. Made by `Memory.recall`, when the race begins.

    Attributes:
        first: who starts first: in each tier at most one, lowest tier first.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_entrants",
        "_host",
        "_memory",
        "_network",
        "_target",
        "first",
    )

    def __init__(
        self,
        memory: Memory,
        *,
        host: LoopHost,
        network: str,
        target: str,
        entrants: tuple[str, ...],
        first: tuple[str, ...],
        clock: Callable[[], float],
    ) -> None:
        """Keep what the race is about."""
        self._memory = memory
        self._host = host
        self._network = network
        self._target = target
        self._entrants = entrants
        self._clock = clock
        self._began = clock()
        self.first = first

    def learn(self, report: RaceReport) -> None:
        """Learn who failed, from a race that is over; who won has yet to prove itself."""
        failed = failures_to_learn(report)
        if failed and self._is_steady(report.duration) and self._memory.is_here(self._network):
            self._tell(failed=failed)

    def proof_of(self, name: str, check: object) -> Callable[[bool], None] | None:
        """Return what is to be told whether what an entrant won carries bytes.

        Args:
            name: the entrant's.
            check: the program's own check, which that has passed; then nothing more is to be proven.
        """
        if check is not None:
            self.prove(name, is_alive=True)
            return None
        return lambda is_alive: self.prove(name, is_alive=is_alive)

    def prove(self, name: str, *, is_alive: bool) -> None:
        """Learn whether what an entrant won carried bytes, or broke before it did."""
        if is_alive:
            self._tell(won=name)
        elif self._memory.is_here(self._network):
            self._tell(failed=(name,))

    def _is_steady(self, duration: float) -> bool:
        """Return whether the machine was awake: a clock that was set, or went on in its sleep, differs from the loop's."""
        return abs(self._clock() - self._began - duration) < _JUMP

    def _tell(self, *, won: str | None = None, failed: Sequence[str] = ()) -> None:
        if self._memory.learn(
            self._network, self._target, won=won, failed=failed, rivals=self._entrants
        ):
            self._memory.save_soon(self._host)
