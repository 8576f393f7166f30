"""How a sans-IO machine is talked to in tests: turn by turn, with the peer's bytes cut as wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from transports._net.drive import Machine


def converse(
    machine: Machine, answers: Iterable[bytes], *, cuts: Sequence[int] | None = None
) -> list[bytes]:
    """Give each answer in its turn, cut at `cuts` (`None` for nowhere), and return what was sent before each."""
    sent = []
    for answer in answers:
        sent.append(machine.bytes_to_send())
        for part in pieces(answer, cuts):
            assert machine.bytes_to_send() == b""
            machine.receive_data(part)
    return sent


def pieces(data: bytes, cuts: Sequence[int] | None) -> Iterator[bytes]:
    """Yield `data` cut at the positions that it has."""
    last = 0
    for cut in (*(cuts or ()), len(data)):
        if last < cut <= len(data):
            yield data[last:cut]
            last = cut


def ways_to_cut(data: bytes) -> list[list[int]]:
    """Return every single cut, and the cut at every byte."""
    return [[cut] for cut in range(1, len(data) + 1)] + [list(range(1, len(data)))]
