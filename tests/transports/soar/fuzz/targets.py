"""Every parser of Soar that reads what a stranger sent, with good inputs to begin from.

To add one, write a function that hands octets to the parser and asserts what is true of any result, and put a `Target`
into `TARGETS`.
"""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import transports.soar.core.client
import transports.soar.core.dns
import transports.soar.core.server
from tests.transports.soar.fuzz.guided import Target
from tests.transports.soar.sim.traffic import Meddled, meddled, recorded
from transports.soar.core.dns.answers import (
    NOTICE_OCTETS,
    Form,
    build_answer,
    failure,
    nodata,
    nxdomain,
    read_answer,
    truncated,
)
from transports.soar.core.dns.authority import MAX_EXTRA_OCTETS, Authority
from transports.soar.core.dns.messages import MAX_NAME, QType, Rcode, read_labels, skip_name
from transports.soar.core.dns.questions import Copy, build_question, read_copy
from transports.soar.core.dns.zone import Whole, Zone, Zones

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("TARGETS",)

_ZONE: Final = Zone.parse("t.example.com")
_ZONES: Final = Zones([_ZONE, Zone.parse("in.t.example.com"), Zone.parse("x")])
_AUTHORITY: Final = Authority(_ZONES, {"ns.t.example.com": [ip_address("192.0.2.1")]})
_DNS: Final = (transports.soar.core.dns,)


def _names() -> Iterator[bytes]:
    for zone in _ZONES.all:
        for number, each in zone.classes.items():
            packet = bytes(range(each.capacity))
            name = zone.encode(packet, number=number, selector=9, flag=7)
            yield from (name, name[64:])
        yield zone.wire
    yield b"\x03www" + _ZONE.wire


def _questions() -> Iterator[bytes]:
    for name in _names():
        for qtype in (QType.DS, QType.TXT, QType.A):
            yield build_question(7, name, qtype, edns=qtype is not QType.A)
    opt = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x0c\0\x0a\0\x08cookie 8"
    address = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1"
    yield b"\0\7\1\x10\0\1\0\0\0\0\0\3\1t\7example\3com\0\0\2\0\1" + address + opt + address
    yield b"\0\7\x28\0\0\1\0\0\0\0\0\0\1t\7example\3com\0\0\6\0\1"


def _copies() -> Iterator[Copy]:
    for question in _questions():
        copy = read_copy(question)
        if copy is not None and not copy.fault and copy.name.endswith(_ZONE.wire):
            yield copy


def _answers() -> Iterator[bytes]:
    payload = bytes(range(256)) + bytes(range(44))
    for copy in list(_copies())[::4]:
        yield from (build_answer(copy, form, payload, _ZONE) for form in Form)
        yield nodata(copy, _ZONE)
        yield nxdomain(copy, _ZONE, bytes(NOTICE_OCTETS))
        yield truncated(copy)
        yield failure(copy, Rcode.SERVFAIL)
    # As a resolver writes a SOA whose names end alike, and one with records before ours.
    head = b"\0\7\x85\x80\0\1\0\0\0\1\0\0\1a\1t\7example\3com\0\0\1\0\1"
    yield head + b"\xc0\x0e\0\6\0\1\0\0\0\0\0\x20\2aa\4aeba\0\4aeba\xc0\x2d" + bytes(20)
    head = b"\0\7\x85\x80\0\1\0\2\0\0\0\0\1a\1t\7example\3com\0\0\x2b\0\1"
    address = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1"
    yield head + address + b"\xc0\x0c\0\x2b\0\1\0\0\0\0\0\6\1\2\3\xfa\4\5"


def _read_copy(data: bytes) -> None:
    copy = read_copy(data)
    if copy is None:
        assert len(data) < 12 or data[2] & 0x80
        return
    answer = _AUTHORITY.answer(copy)
    assert answer[:2] == data[:2]
    assert answer[2] & 0x80
    assert len(answer) <= len(data) + MAX_EXTRA_OCTETS
    # Whatever we send can be read.
    if copy.question and not copy.opcode:
        read_answer(answer)
        located = _ZONES.read(copy.name)
        if not copy.fault and located is not None and located[1] == _ZONE:
            for form in Form:
                told = read_answer(build_answer(copy, form, bytes(40), _ZONE), form)
                assert told.payload == bytes(40)


def _read_name(data: bytes) -> None:
    found = _ZONE.read(data)
    if isinstance(found, Whole):
        assert len(found.packet) == _ZONE.classes[found.number].capacity
        again = _ZONE.encode(
            found.packet, number=found.number, selector=found.selector, flag=0, fill=0
        )
        assert len(again) == len(data)
        assert _ZONE.read(again) == found
    elif found is not None:
        assert data.endswith(_ZONE.wire)


def _read_answer(data: bytes) -> None:
    answer = read_answer(data)
    assert answer.id == int.from_bytes(data[:2], "big")
    assert answer.payload is None or 0 < len(answer.payload) < len(data)
    assert answer.notice is None or len(answer.notice) == NOTICE_OCTETS
    for form in Form:
        assert read_answer(data, form).question == answer.question


def _read_labels(data: bytes) -> None:
    at = data[0] if data else 0
    labels = read_labels(data, at)
    assert sum(map(len, labels)) + len(labels) < MAX_NAME
    assert at < skip_name(data, at) <= len(data)


def _received() -> Iterator[bytes]:
    to_server, _ = recorded()
    yield from to_server[::5]


def _told() -> Iterator[bytes]:
    _, to_client = recorded()
    yield from to_client[::5]


@cache
def _world() -> Meddled:
    """Return the one world of all inputs, in which time stands still: making one takes longer than a thousand inputs."""
    return meddled()


def _serve(data: bytes) -> None:
    """Give a stranger's octets to a server in the middle of everything: one answer at most, and no visit."""
    server = _world().simulation.server
    before, visits = server.answers, len(server.origin.visits)
    server.inject(data, bytes((203, 0, 113, 9)))
    assert server.answers - before <= 1
    assert len(server.origin.visits) == visits


def _receive(data: bytes) -> None:
    """Give octets to a client in the middle of everything: no session changes."""
    client = _world().client
    client.inject((client.name, 0, client._ports.get(0, 0)), data)


_SERVER: Final = (transports.soar.core.server, transports.soar.core.dns)
_CLIENT: Final = (transports.soar.core.client, transports.soar.core.dns)

TARGETS: Final = (
    Target(name="dns-copy", run=_read_copy, seeds=_questions, watched=_DNS, allowed=()),
    Target(name="dns-name", run=_read_name, seeds=_names, watched=_DNS, allowed=(), longest=300),
    Target(name="dns-answer", run=_read_answer, seeds=_answers, watched=_DNS),
    Target(name="dns-labels", run=_read_labels, seeds=_answers, watched=_DNS),
    Target(name="server", run=_serve, seeds=_received, watched=_SERVER, allowed=()),
    Target(name="client", run=_receive, seeds=_told, watched=_CLIENT, allowed=()),
)
