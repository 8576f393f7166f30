"""The tricks, one after the other: what a first flight becomes on its way to the socket. Pure.

A connection's first flight is what it sends before the peer has said anything. Stages take it as writes and give writes;
each write leaves in a TCP segment of its own. A stage holds no state of a connection: `begin` gives one that does.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from transports.proxyless._hello import MAX_HELLO, RECORD_HEADER, Hello, read_hello

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = (
    "MAX_WRITES",
    "SNI",
    "Cuts",
    "Disorder",
    "Flight",
    "Offsets",
    "Shaping",
    "Split",
    "Stage",
    "TLSFrag",
    "Write",
)

MAX_WRITES: Final = 256
"""Writes that a first flight may be cut into; each is a packet, and a client of a few hundred octets needs no more."""


@dataclass(frozen=True, slots=True)
class Write:
    """What is given to the socket at once.

    Attributes:
        data: the octets.
        short_lived: whether it is to die at the first router, so that it arrives only when it is sent again.
    """

    data: bytes
    short_lived: bool = False


@dataclass(frozen=True, slots=True)
class Offsets:
    """Cuts at fixed places.

    Attributes:
        runs: pairs of how many pieces, and how many octets each of them has, from the start on.
    """

    runs: tuple[tuple[int, int], ...]

    def places(self, limit: int) -> list[int]:
        """Return where the cuts are that lie before `limit`; at most `MAX_WRITES`."""
        places: list[int] = []
        at = 0
        for count, length in self.runs:
            for _ in range(count):
                at += length
                if at >= limit or len(places) == MAX_WRITES:
                    return places
                places.append(at)
        return places


@dataclass(frozen=True, slots=True)
class SNI:
    """Cuts in the server's name: in the middle of each of its labels, so that none of them stays whole."""

    def places(self, name: Sequence[int], labels: bytes) -> list[int]:
        """Return where to cut, given where each octet of the name is, and the name itself."""
        places: list[int] = []
        start = 0
        for label in labels.split(b"."):
            if len(label) > 1:
                places.append(name[start + len(label) // 2])
            start += len(label) + 1
        return places


Cuts: TypeAlias = Offsets | SNI


class Shaping(Protocol):
    """One stage at work on one connection."""

    @property
    def is_holding(self) -> bool:
        """Whether something is held back."""

    def feed(self, write: Write) -> list[Write]:
        """Return the writes that come of a write; what is missing is held back until it can be judged."""

    def flush(self) -> list[Write]:
        """Return what is still held back."""


class Stage(Protocol):
    """A trick, and its settings."""

    def begin(self) -> Shaping:
        """Return this stage for a connection that begins now."""


@dataclass(frozen=True, slots=True)
class Split:
    """Cuts the stream into writes.

    Attributes:
        cuts: where: octets of the stream, or the name in a ClientHello.
    """

    cuts: Cuts

    def begin(self) -> Shaping:
        """Return this stage for a connection that begins now."""
        return (
            _SplitAtOffsets(self.cuts)
            if isinstance(self.cuts, Offsets)
            else _SplitAtName(self.cuts)
        )

    def __str__(self) -> str:
        """Return it as it is configured."""
        return f"split:{_shown(self.cuts)}"


@dataclass(frozen=True, slots=True)
class TLSFrag:
    """Cuts the first TLS handshake record into several, all in one write.

    Attributes:
        cuts: where: octets of the record's content, from the end if negative; or the name in a ClientHello.
    """

    cuts: int | SNI

    def begin(self) -> Shaping:
        """Return this stage for a connection that begins now."""
        return _Reframing(self)

    def fragments(self, data: bytes, hello: Hello) -> bytes:
        """Return `data`, which begins with a whole ClientHello, with its first record cut into several."""
        length = hello.first_record
        if isinstance(self.cuts, SNI):
            name = bytes(data[at] for at in hello.name)
            places = [at - RECORD_HEADER for at in self.cuts.places(hello.name, name)]
        else:
            places = [self.cuts if self.cuts > 0 else length + self.cuts]
        places = [at for at in places if 0 < at < length]
        if not places:
            return data
        version, body = data[:3], data[RECORD_HEADER : RECORD_HEADER + length]
        records = (
            version + (end - start).to_bytes(2, "big") + body[start:end]
            for start, end in zip([0, *places], [*places, length], strict=True)
        )
        return b"".join(records) + data[RECORD_HEADER + length :]

    def __str__(self) -> str:
        """Return it as it is configured."""
        return f"tlsfrag:{_shown(self.cuts)}"


@dataclass(frozen=True, slots=True)
class Disorder:
    """Lets one write die at the first router: it is sent again, and so arrives behind those that were sent after it.

    It counts the writes that really leave, wherever it stands among the other stages.

    Attributes:
        index: which write, from 0.
    """

    index: int

    def __str__(self) -> str:
        """Return it as it is configured."""
        return f"disorder:{self.index}"


def _shown(cuts: Cuts | int) -> str:
    match cuts:
        case SNI():
            return "sni"
        case Offsets(runs):
            return ",".join(f"{n}*{size}" if n != 1 else str(size) for n, size in runs)
        case _:
            return str(cuts)


class _SplitAtOffsets:
    """Counts what has passed; cuts where the stream has come so far."""

    def __init__(self, cuts: Offsets) -> None:
        self._places = cuts.places(MAX_HELLO)
        self._passed = 0

    is_holding = False

    def feed(self, write: Write) -> list[Write]:
        places = [at - self._passed for at in self._places]
        self._passed += len(write.data)
        return _cut(write.data, places)

    def flush(self) -> list[Write]:
        return []


class _Holding:
    """Holds back what may become a ClientHello, and goes on when it is whole, or is none."""

    def __init__(self) -> None:
        self._held = b""
        self._ends: list[int] = []
        self._is_done = False

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def feed(self, write: Write) -> list[Write]:
        if self._is_done:
            return [write]
        self._held += write.data
        self._ends.append(len(self._held))
        hello = read_hello(self._held)
        if hello is not None and not hello.is_complete:
            return []
        self._is_done = True
        held, self._held = self._held, b""
        return _cut(held, self._ends) if hello is None else self._shaped(held, hello)

    def flush(self) -> list[Write]:
        # What was judged too early is not judged again: the next octets are the middle of something.
        self._is_done = self._is_done or bool(self._held)
        held, self._held = self._held, b""
        return _cut(held, self._ends)

    def _shaped(self, data: bytes, hello: Hello) -> list[Write]:
        raise NotImplementedError


class _SplitAtName(_Holding):
    def __init__(self, cuts: SNI) -> None:
        super().__init__()
        self._cuts = cuts

    def _shaped(self, data: bytes, hello: Hello) -> list[Write]:
        name = bytes(data[at] for at in hello.name)
        return _cut(data, [*self._ends, *self._cuts.places(hello.name, name)])


class _Reframing(_Holding):
    def __init__(self, stage: TLSFrag) -> None:
        super().__init__()
        self._stage = stage

    def _shaped(self, data: bytes, hello: Hello) -> list[Write]:
        return [Write(self._stage.fragments(data, hello))]


def _cut(data: bytes, places: Iterable[int]) -> list[Write]:
    """Return the pieces of `data`, cut at those places that lie within."""
    inside = [0, *sorted({at for at in places if 0 < at < len(data)}), len(data)]
    return [Write(data[start:end]) for start, end in itertools.pairwise(inside) if start < end]


class Flight:
    """The first flight of one connection, through all its stages.

    Args:
        stages: the first is the outermost: it takes what the program sends.
        disordered: which of the writes that leave die young, from 0; `None` for none.
    """

    def __init__(self, stages: Iterable[Stage], disordered: int | None = None) -> None:
        """Begin before the first octet."""
        self._shapings = [stage.begin() for stage in stages]
        self._disordered = disordered
        self._left = 0

    @property
    def needs_socket(self) -> bool:
        """Whether a write is to die young, which takes a socket of our own."""
        return self._disordered is not None

    @property
    def is_holding(self) -> bool:
        """Whether something is held back."""
        return any(shaping.is_holding for shaping in self._shapings)

    def send(self, data: bytes) -> list[Write]:
        """Return the writes that leave now, of what the program sends."""
        return self._mark(self._through([Write(data)] if data else [], self._shapings))

    def finish(self) -> list[Write]:
        """Return the writes that were held back: the program waits for an answer, or ends."""
        writes: list[Write] = []
        for at, shaping in enumerate(self._shapings):
            writes += self._through(shaping.flush(), self._shapings[at + 1 :])
        return self._mark(writes)

    def _through(self, writes: list[Write], shapings: Sequence[Shaping]) -> list[Write]:
        for shaping in shapings:
            writes = [made for write in writes for made in shaping.feed(write)]
        return writes

    def _mark(self, writes: list[Write]) -> list[Write]:
        if self._disordered is None:
            return writes
        marked = [
            replace(write, short_lived=True) if self._left + at == self._disordered else write
            for at, write in enumerate(writes)
        ]
        self._left += len(writes)
        return marked
