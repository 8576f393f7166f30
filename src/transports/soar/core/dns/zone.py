"""A zone and the names that carry packets to it (SPEC 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from racer.errors import ConfigError, LocalProtocolError
from transports.soar.core.dns import base32
from transports.soar.core.dns.messages import wire_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = (
    "MAX_ZONES",
    "MAX_ZONE_OCTETS",
    "Apex",
    "Found",
    "Junk",
    "NameClass",
    "Partial",
    "PartialAnswer",
    "Whole",
    "Zone",
    "Zones",
)

MAX_ZONE_OCTETS: Final = 64
"""Of a zone's wire form, root included (SPEC 1)."""

MAX_ZONES: Final = 8
"""That one server answers for (SPEC 19)."""

_LENGTHS: Final = {2: 101, 3: 178, 4: 255}  # whole octets of a name of several labels (SPEC 4.2)
_FULL: Final = 63  # characters of a full label
_FULL_OCTET: Final = bytes((_FULL,))
_VALUES: Final = {octet: value for value, octet in enumerate(base32.ALPHABET)}


class NameClass(NamedTuple):
    """One of the at most four lengths of names that a zone has.

    Attributes:
        number: 1 to 4.
        length: octets of the whole name, root included.
        capacity: octets of the packet that it carries, always all of them.
        labels: how many come before the zone.
        last: characters of the rightmost of them.
    """

    number: int
    length: int
    capacity: int
    labels: int
    last: int

    @property
    def characters(self) -> int:
        """How many of them carry the packet: all but selector and flag."""
        return _FULL * (self.labels - 1) + self.last - (1 if self.labels == 1 else 2)


class Whole(NamedTuple):
    """A name that carries a packet: the class's number, the shard selector (SPEC 4.4), and the packet's octets."""

    number: int
    selector: int
    packet: bytes


class PartialAnswer(IntEnum):
    """What a flag demands for the partial names of its name, as its lowest bits say it (SPEC 4.5)."""

    NXDOMAIN = 0
    NODATA = 1
    REFUSED = 2

    @property
    def free(self) -> int:
        """The bits of a flag that are random."""
        return 0b11110 if self is PartialAnswer.NODATA else 0b11100


class Partial(NamedTuple):
    """What is left of a whole name when labels are cut off its left (SPEC 4.3), and what it is to be answered."""

    answer: PartialAnswer


@dataclass(frozen=True, slots=True)
class Apex:
    """The zone's own name."""


@dataclass(frozen=True, slots=True)
class Junk:
    """A name in the zone that carries nothing."""


Found: TypeAlias = Whole | Partial | Apex | Junk

_APEX: Final = Apex()
_JUNK: Final = Junk()
_PARTIALS: Final = tuple(
    Partial(PartialAnswer.NODATA if flag & 1 else PartialAnswer(flag & 3)) for flag in range(32)
)  # by the flag's value


class Zone:
    """A zone's name, and the names below it.

    Attributes:
        text: as a person writes it: lower case, without the last dot.
        wire: lower-case wire octets, root included.
        classes: the classes of names that this zone has, by number; class 1 is always there.
    """

    __slots__ = ("_codecs", "_cuts", "_whole", "classes", "text", "wire")

    def __init__(self, text: str, wire: bytes) -> None:
        """Lay out the classes; use `parse`, which checks the name."""
        self.text: Final = text
        self.wire: Final = wire
        classes = _lay_out(len(wire))
        self.classes: Final[Mapping[int, NameClass]] = MappingProxyType(
            {each.number: each for each in classes}
        )
        self._codecs: Final = {each.number: _Codec(each, wire) for each in classes}
        self._whole: Final = {each.length: self._codecs[each.number] for each in classes}
        # What minimising resolvers ask for: the last label, and some of the full ones before it.
        self._cuts: Final = {
            each.length - (_FULL + 1) * gone: ((_FULL + 1) * (each.labels - 1 - gone), each.last)
            for each in classes
            for gone in range(1, each.labels)
        }

    @classmethod
    def parse(cls, text: str) -> Zone:
        """Return the zone that `text` names, as in `"t.example.com"`; a last dot and letter case don't matter.

        Raises:
            ConfigError: no zone can have that name; says why.
        """
        wire = wire_name(text)
        if len(wire) > MAX_ZONE_OCTETS:
            msg = f"the zone {text!r} takes {len(wire)} octets in a message; at most {MAX_ZONE_OCTETS} may be used"
            raise ConfigError(msg)
        return cls(text.lower().removesuffix("."), wire)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same name."""
        return self.wire == other.wire if isinstance(other, Zone) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.wire)

    def __repr__(self) -> str:
        return f"Zone({self.text!r})"

    def encode(
        self, packet: bytes, *, number: int, selector: int, flag: int, fill: int = 0
    ) -> bytes:
        """Return the name, as wire octets, that carries `packet` to this zone.

        Args:
            packet: exactly as many octets as the class has capacity (SPEC 6.4).
            number: the class, one of `classes`.
            selector: 0 to 31, random within its shard (SPEC 4.4).
            flag: 0 to 31, random but for its lowest bits (`PartialAnswer`); a name of one label has no place for it.
            fill: random; of it come the bits that the packet leaves of the last characters, at most seven. With 0
                all names of a class end alike.

        Raises:
            LocalProtocolError: the zone has no such class, the packet doesn't fill it, or a value is out of range.
        """
        if (codec := self._codecs.get(number)) is None:
            msg = f"names under {self.text} have the classes {sorted(self.classes)}, not {number}"
            raise LocalProtocolError(msg)
        return codec.encode(packet, selector, flag, fill)

    def read(self, name: bytes) -> Found | None:
        """Return what `name` is to this zone; `None` when it is outside.

        Args:
            name: lower-case wire octets, root included, well formed.

        Whether a name is whole or partial follows from its length alone, since no two kinds share one.
        """
        if not name.endswith(self.wire):
            return None
        length = len(name)
        found: Found | None = None
        if (codec := self._whole.get(length)) is not None:
            found = codec.read(name)
        elif (cut := self._cuts.get(length)) is not None:
            found = _read_cut(name, *cut)
        elif length == len(self.wire):
            return _APEX
        if found is None and _begins_a_label(name, length - len(self.wire)):
            return _JUNK
        return found


class Zones:
    """The zones of one server, told apart by their names.

    Attributes:
        all: in the order given; a zone's place is its index (SPEC 9.12).

    Args:
        zones: one to `MAX_ZONES` different ones.

    Raises:
        ConfigError: there are none, too many, or one twice.
    """

    __slots__ = ("_longest_first", "all")

    def __init__(self, zones: Iterable[Zone]) -> None:
        """Order them for `read`."""
        self.all: Final = tuple(zones)
        if not 1 <= len(self.all) <= MAX_ZONES:
            msg = f"a server has 1 to {MAX_ZONES} zones, not {len(self.all)}"
            raise ConfigError(msg)
        if len(set(self.all)) < len(self.all):
            msg = f"a zone is named twice: {', '.join(zone.text for zone in self.all)}"
            raise ConfigError(msg)
        # One may lie below another: the nearest one answers (RFC 1034 section 4.3.2).
        self._longest_first: Final = sorted(
            enumerate(self.all), key=lambda pair: len(pair[1].wire), reverse=True
        )

    def read(self, name: bytes) -> tuple[int, Zone, Found] | None:
        """Return the index of the zone that `name` is in, the zone, and what the name is there; `None` if in none.

        `name` is as for `Zone.read`.
        """
        for index, zone in self._longest_first:
            if (found := zone.read(name)) is not None:
                return index, zone, found
        return None


class _Codec:
    """Packs and reads the whole names of one class of one zone."""

    __slots__ = (
        "_capacity",
        "_count",
        "_cut",
        "_end",
        "_fill",
        "_gather",
        "_heads",
        "_last",
        "_lengths",
        "_number",
        "_place",
        "_spare",
        "_wire",
    )

    def __init__(self, name_class: NameClass, wire: bytes) -> None:
        self._number, _, self._capacity, labels, self._last = name_class
        self._wire = wire
        self._count = name_class.characters + 1  # the selector goes with the packet
        self._spare = 5 * name_class.characters % 8
        self._fill = (1 << self._spare) - 1
        # Of a name: where the rightmost label's length octet is, and where the zone begins.
        self._place = (_FULL + 1) * (labels - 1)
        self._end = name_class.length - len(wire)
        self._lengths = _FULL_OCTET * (labels - 1)
        # Of a text without length octets and flag: into the full labels, and the rest.
        # Of a name: what carries the packet, without length octets, selector and flag.
        self._gather = struct.Struct(
            f"2x{_FULL - 1}s" + f"x{_FULL}s" * (labels - 2) + f"2x{self._last - 1}s"
        ).unpack_from
        self._cut = struct.Struct(f"{_FULL}s" * (labels - 1) + f"{self._last - 1}s").unpack
        self._heads = [bytes((self._last, letter)) for letter in base32.ALPHABET]

    def encode(self, packet: bytes, selector: int, flag: int, fill: int) -> bytes:
        capacity = self._capacity
        if len(packet) != capacity or selector >> 5 or flag >> 5:
            msg = (
                f"a name of class {self._number} takes {capacity} octets, a selector and a flag of 0 to 31; not"
                f" {len(packet)} octets, {selector} and {flag}"
            )
            raise LocalProtocolError(msg)
        value = selector << 8 * capacity | int.from_bytes(packet, "big")
        text = base32.spell(value << self._spare | fill & self._fill, self._count)
        if not self._place:
            return _FULL_OCTET + text + self._wire
        *full, rest = self._cut(text)
        return b"".join((_FULL_OCTET, _FULL_OCTET.join(full), self._heads[flag], rest, self._wire))

    def read(self, name: bytes) -> Whole | Junk | None:
        """Return what `name` carries; `None` if its labels are not cut as this class's are."""
        place = self._place
        if name[place] != self._last:
            return None
        if place:
            if name[: place : _FULL + 1] != self._lengths:
                return None
            if name[place + 1] not in _VALUES:
                return _JUNK
            text = b"".join(self._gather(name))
        else:
            text = name[2 : self._end]
        selector = _VALUES.get(name[1])
        if selector is None:
            return _JUNK
        try:
            packet = base32.decode(text)
        except ValueError:
            return _JUNK
        # A named tuple's own constructor takes twice as long.
        return tuple.__new__(Whole, (self._number, selector, packet))


def _lay_out(zone_octets: int) -> list[NameClass]:
    """Return the classes of names that a zone of so many octets has (SPEC 4.2)."""
    classes = [NameClass(1, zone_octets + 1 + _FULL, 38, 1, _FULL)]
    for number, length in _LENGTHS.items():
        below = length - zone_octets
        labels = (below + _FULL) // (_FULL + 1)
        last = below - (_FULL + 1) * (labels - 1) - 1
        if labels < 2 or last < 2 or last in {each.last for each in classes}:
            continue
        capacity = 5 * (_FULL * (labels - 1) + last - 2) // 8
        classes.append(NameClass(number, length, capacity, labels, last))
    return classes


def _read_cut(name: bytes, place: int, last: int) -> Partial | Junk | None:
    """Return what the partial `name` asks for; `None` if its labels are not cut as a whole name's are.

    `place` is that of the rightmost label's length octet, `last` what it should be.
    """
    if name[place] != last or name[: place : _FULL + 1] != _FULL_OCTET * (place // (_FULL + 1)):
        return None
    flag = _VALUES.get(name[place + 1])
    return _JUNK if flag is None else _PARTIALS[flag]


def _begins_a_label(name: bytes, place: int) -> bool:
    """Whether a label of `name` begins at `place`; the octets of a zone may also come within one."""
    at = 0
    while at < place:
        at += name[at] + 1
    return at == place
