"""What an authority owes everybody else: its zone's own records, and a refusal where it is none (SPEC 18.1, 4.5)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from racer.errors import ConfigError
from transports.soar.core.dns.answers import (
    APEX_SOA,
    Records,
    failure,
    nodata,
    nxdomain,
    with_records,
)
from transports.soar.core.dns.messages import (
    HEADER,
    IN,
    NAME_OF_QUESTION,
    POINTER,
    RECORD,
    QType,
    Rcode,
    wire_name,
)
from transports.soar.core.dns.zone import (
    Apex,
    Junk,
    Partial,
    PartialAnswer,
    Whole,
    Zone,
    Zones,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from transports.soar.core.dns.questions import Copy
    from transports.soar.core.dns.zone import Found

__all__ = ("MAX_EXTRA_OCTETS", "TTL", "Address", "Authority")

Address: TypeAlias = IPv4Address | IPv6Address

MAX_EXTRA_OCTETS: Final = 96
"""That an answer to a stranger is longer than its question (SPEC 18.2)."""

TTL: Final = 3600
"""Seconds that resolvers keep who the name servers are; with 0 they would ask again at every question."""

_TYPES: Final = {4: QType.A, 6: QType.AAAA}


class Authority:
    """Answers everything that isn't a session's business, without state.

    Args:
        zones: those of the server.
        name_servers: their names, as in the records that delegate the zones, each with its addresses. Those in a zone
            are answered for; of others, addresses are not looked at.

    Raises:
        ConfigError: there is no name server, one's name would be read as a packet, or their records are so many that
            answers would grow past `MAX_EXTRA_OCTETS`.
    """

    __slots__ = ("_records", "zones")

    def __init__(self, zones: Zones, name_servers: Mapping[str, Iterable[Address]]) -> None:
        """Lay out all answers."""
        self.zones: Final = zones
        self._records: Final[dict[tuple[bytes, int], Records]] = {}
        servers = {
            wire_name(text): list(dict.fromkeys(them)) for text, them in name_servers.items()
        }
        if not servers:
            msg = "an authority needs the name of a name server"
            raise ConfigError(msg)
        own: dict[bytes, list[Address]] = {}
        for name, addresses in servers.items():
            located = zones.read(name)
            if located is None:
                continue
            if isinstance(located[2], Whole):
                msg = f"the name server {_text(name)} would be read as a packet: its first label is too long"
                raise ConfigError(msg)
            own[name] = addresses
        for name, addresses in own.items():
            self._add_addresses(name, addresses)
        for zone in zones.all:
            self._records[zone.wire, QType.SOA] = APEX_SOA
            self._records[zone.wire, QType.NS] = _name_server_records(zone, list(servers), own)

    def answer(self, copy: Copy, located: tuple[int, Zone, Found] | None = None) -> bytes:
        """Return what `copy` is answered if no session has to do with it; total.

        A whole name is NODATA here, as junk is (SPEC 6.3). `located` is what `zones` say of its name, if they were asked
        already.
        """
        if copy.fault:
            return failure(copy, copy.fault)
        if (records := self._records.get((copy.name, copy.qtype))) is not None:
            return with_records(copy, records)
        if located is None and (located := self.zones.read(copy.name)) is None:
            return failure(copy, Rcode.REFUSED)
        _, zone, found = located
        match found:
            case Partial(answer=PartialAnswer.NXDOMAIN):
                return nxdomain(copy, zone)
            case Partial(answer=PartialAnswer.REFUSED):
                return failure(copy, Rcode.REFUSED)
            case Partial() | Whole() | Apex() | Junk():
                return nodata(copy, zone)
            case _:
                assert_never(found)

    def _add_addresses(self, name: bytes, addresses: list[Address]) -> None:
        for version, qtype in _TYPES.items():
            mine = [address for address in addresses if address.version == version]
            wire = b"".join(_address_record(NAME_OF_QUESTION, address) for address in mine)
            _check_size(wire, f"the {qtype.name} records of the name server {_text(name)}")
            if mine:
                self._records[name, qtype] = Records(len(mine), 0, wire)


def _name_server_records(
    zone: Zone, servers: list[bytes], own: Mapping[bytes, list[Address]]
) -> Records:
    """Return the NS records of a zone, with as many of the servers' addresses as may go with them."""
    at = HEADER.size + len(zone.wire) + 4  # behind the question for the zone
    known: dict[bytes, int] = {}
    _compress(zone.wire, HEADER.size, known)
    wire = b""
    for name in servers:
        data = _compress(name, at + len(wire) + len(NAME_OF_QUESTION) + RECORD.size, known)
        wire += NAME_OF_QUESTION + RECORD.pack(QType.NS, IN, TTL, len(data)) + data
    _check_size(wire, f"the NS records of {zone.text}")
    glue = [
        _address_record((POINTER | known[name]).to_bytes(2, "big"), address)
        for name in servers
        for address in own.get(name, ())
    ]
    while len(wire) + sum(map(len, glue)) > MAX_EXTRA_OCTETS:
        glue.pop()
    return Records(len(servers), len(glue), wire + b"".join(glue))


def _address_record(owner: bytes, address: Address) -> bytes:
    data = address.packed
    return owner + RECORD.pack(_TYPES[address.version], IN, TTL, len(data)) + data


def _compress(name: bytes, at: int, known: dict[bytes, int]) -> bytes:
    """Return `name` as it is written at octet `at` of a message, and add to `known` where its ends can be found."""
    wire = b""
    rest = name
    while rest != b"\0":
        if (place := known.get(rest)) is not None:
            return wire + (POINTER | place).to_bytes(2, "big")
        known[rest] = at + len(wire)
        label = rest[: rest[0] + 1]
        wire += label
        rest = rest[len(label) :]
    return wire + b"\0"


def _check_size(wire: bytes, what: str) -> None:
    if len(wire) > MAX_EXTRA_OCTETS:
        msg = f"{what} take {len(wire)} octets, more than the {MAX_EXTRA_OCTETS} that strangers are sent; name fewer"
        raise ConfigError(msg)


def _text(name: bytes) -> str:
    labels = []
    while name != b"\0":
        labels.append(name[1 : name[0] + 1].decode("ascii"))
        name = name[name[0] + 1 :]
    return ".".join(labels)
