"""A client, a resolver and strangers that do whatever they like to a server (design rule S27; SPEC 2, 18, 19)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.transports.soar.server.scripted import (
    OTHER_ZONE,
    TARGET,
    ZONE,
    Asked,
    Desk,
    Script,
)
from transports.soar.core.crypto import EndCode, Kind, SizeClass
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.messages import QType
from transports.soar.core.dns.questions import build_question
from transports.soar.core.dns.zone import Zones
from transports.soar.core.server.parking import MAX_PARKED
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import (
    End,
    Floor,
    Frame,
    Lost,
    MaxData,
    MaxStreamData,
    Ping,
    RefusalReason,
    Reset,
    ResetCode,
    Response,
    Stop,
    StreamData,
)

if TYPE_CHECKING:
    from transports.soar.core.server.server_stream import ServerStream
    from transports.soar.core.server.session import Session

MAX_SESSION = 4 << 20  # octets that one session may hold
LONGEST = 0.6 + 1e-6  # seconds until an answer, SPEC 13.5

small = st.integers(0, 3)
numbers = st.one_of(small, st.integers(0, 200), st.integers(0, 1 << 40))
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.just(Ping()),
    st.builds(Floor, numbers),
    st.builds(Lost, st.lists(numbers, min_size=1, max_size=5).map(tuple)),
    st.builds(StreamData, small, st.just(0), st.just(TARGET.to_wire()), st.booleans()),
    st.builds(StreamData, numbers, numbers, st.binary(max_size=40), st.booleans()),
    st.builds(Reset, small, small, numbers),
    st.builds(Stop, small, small),
    st.builds(MaxData, numbers),
    st.builds(MaxStreamData, small, numbers),
    st.builds(Response, st.binary(min_size=4, max_size=4)),
    st.builds(End, small, small),
)
SOURCES = st.builds(
    lambda prefix, tcp: Source(bytes([192, 0, prefix, 1]), 53, tcp),
    st.integers(0, 4),
    st.sampled_from([False, False, False, True]),
)


class Hostile(RuleBasedStateMachine):
    """Everything that can be sent, in any order; what must hold is checked after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(max_sessions=12, zones=Zones((ZONE, OTHER_ZONE)), memory=1 << 20)
        self.clients: list[Script] = []
        self.asked: list[tuple[Script, Asked]] = []
        self.messages: list[bytes] = []
        self.tags = itertools.count()
        self.waiting: dict[object, tuple[float, bytes]] = {}
        self.heard = 0
        self.sent: list[float] = []
        self.ids = itertools.count(1)
        self.connected: set[ServerStream] = set()

    # --- the post

    def send(self, message: bytes, source: Source) -> None:
        tag = next(self.tags)
        self.sent.append(self.desk.time)
        if len(message) >= 12 and not message[2] & 0x80:
            name = message[12:-4].lower()
            # A newer copy takes the place of those before, whose asker has forgotten them (SPEC 13.4).
            for older, (_, theirs) in list(self.waiting.items()):
                if theirs[:64] == name[:64]:
                    del self.waiting[older]
            self.waiting[tag] = (self.desk.time, name)
        self.desk.ask(message, source._replace(tag=tag))
        self.hear()

    def hear(self) -> None:
        tags = set()
        for time, source, message in self.desk.said[self.heard :]:
            assert source.tag not in tags
            tags.add(source.tag)
            asked_at, _ = self.waiting.pop(source.tag, (time, b""))
            assert time - asked_at <= LONGEST
            assert len(message) <= 1232
        self.heard = len(self.desk.said)

    def keep(self, client: Script, asked: Asked) -> None:
        self.asked.append((client, asked))
        self.messages.append(asked.message)

    # --- clients

    @rule(frames=st.lists(FRAMES, max_size=1), source=SOURCES, other=st.booleans(), pieces=small)
    def begin(self, frames: list[Frame], source: Source, other: bool, pieces: int) -> None:
        seed = f"client {len(self.clients)}"
        zone = OTHER_ZONE if other else ZONE
        try:
            client = Script(self.desk, *frames, seed=seed, zone=zone)
        except Exception:  # what doesn't fit into a first message
            client = Script(self.desk, seed=seed, zone=zone)
        client.ids = self.ids
        self.clients.append(client)
        flight = client.flight()
        self.messages += flight
        for message in flight[: 4 if pieces else 1]:
            said = len(self.desk.said)
            self.send(message, source)
            for _, _, answer in self.desk.said[said:]:
                client.take_welcome(answer)

    @precondition(lambda self: self.clients)
    @rule(
        which=st.integers(0, 50),
        frames=st.lists(FRAMES, max_size=4),
        source=SOURCES,
        form=st.sampled_from(Form),
        size=st.sampled_from(SizeClass),
        options=st.tuples(st.booleans(), st.booleans(), small, st.sampled_from([1, 1, 1, 2, 4])),
        skip=st.sampled_from([0, 0, 0, 0, 1, 7, 8000, 40_000]),
    )
    def ask(
        self,
        which: int,
        frames: list[Frame],
        source: Source,
        form: Form,
        size: SizeClass,
        options: tuple[bool, bool, int, int],
        skip: int,
    ) -> None:
        client = self.clients[which % len(self.clients)]
        may_park, edns, path, name_class = options
        client.first.seals.next_number += skip
        try:
            asked = client.packet(
                *frames,
                kind=Kind.EARLY if client.terms is None else Kind.DATA,
                form=form,
                size=size,
                may_park=may_park,
                edns=edns,
                path=path,
                name_class=name_class,
            )
        except Exception:  # what doesn't fit into a packet
            return
        self.keep(client, asked)
        self.send(asked.message, source)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 50), raw=st.binary(min_size=1, max_size=14), source=SOURCES)
    def ask_nonsense(self, which: int, raw: bytes, source: Source) -> None:
        client = self.clients[which % len(self.clients)]
        kind = Kind.EARLY if client.terms is None else Kind.DATA
        asked = client.packet(raw=raw, kind=kind)
        self.keep(client, asked)
        self.send(asked.message, source)

    # --- resolvers and strangers

    @precondition(lambda self: self.asked)
    @rule(
        which=st.integers(0, 1000),
        source=SOURCES,
        edns=st.booleans(),
        qtype=st.sampled_from([None, None, QType.A, QType.TXT, QType.NS]),
    )
    def repeat(self, which: int, source: Source, edns: bool, qtype: QType | None) -> None:
        client, asked = self.asked[-1 - which % len(self.asked)]
        self.send(client.again(asked, edns=edns, qtype=qtype), source)

    @precondition(lambda self: self.messages)
    @rule(
        which=st.integers(0, 1000),
        at=st.integers(0, 200),
        octet=st.integers(0, 255),
        cut=st.sampled_from([None, None, 3, 12, 40]),
        source=SOURCES,
    )
    def spoil(self, which: int, at: int, octet: int, cut: int | None, source: Source) -> None:
        message = bytearray(self.messages[which % len(self.messages)])
        message[at % len(message)] = octet
        self.send(bytes(message[:cut]), source)

    @rule(message=st.binary(max_size=80), source=SOURCES)
    def babble(self, message: bytes, source: Source) -> None:
        self.send(message, source)

    @rule(packet=st.binary(min_size=38, max_size=38), source=SOURCES)
    def guess(self, packet: bytes, source: Source) -> None:
        name = ZONE.encode(packet, number=1, selector=0, flag=0)
        self.send(build_question(next(self.ids) & 0xFFFF, name, QType.DS, edns=True), source)

    # --- the program around the server

    @precondition(lambda self: self.desk.streams)
    @rule(which=st.integers(0, 50), what=st.integers(0, 7), size=st.integers(0, 40_000))
    def act(self, which: int, what: int, size: int) -> None:
        stream = self.desk.streams[-1 - which % len(self.desk.streams)]
        match what:
            case 0 if stream not in self.connected:
                stream.refuse(RefusalReason.UNREACHABLE)
            case 1:
                stream.read(size)
            case 2:
                stream.finish()
            case 3:
                stream.reset(ResetCode.RESET_BY_TARGET)
            case 4:
                stream.stop(ResetCode.CANCELLED)
            case _:
                self.connected.add(stream)
                stream.opened()
                if room := stream.room:
                    stream.write(bytes(min(size, room)))
        self.desk.flush()
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 50), code=st.sampled_from([EndCode.OPERATOR, EndCode.REVOKED]))
    def end(self, which: int, code: EndCode) -> None:
        client = self.clients[which % len(self.clients)]
        self.desk.server.end(client.sid, code, self.desk.now)
        self.desk.flush()
        self.hear()

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.024, 0.2, 0.7, 2.5, 11.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.desk.wait(seconds)
        self.hear()

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        self.waiting.clear()
        self.desk.events.clear()

    # --- what must hold

    @invariant()
    def nobody_waits_too_long(self) -> None:
        for asked_at, _ in self.waiting.values():
            assert self.desk.time - asked_at <= LONGEST

    @invariant()
    def the_books_agree(self) -> None:
        keeper = self.desk.server._keeper
        sessions: list[Session] = list(keeper.table)
        assert keeper.memory == sum(session.counted for session in sessions)
        for (
            session
        ) in sessions:  # each is counted once in 16 packets, or when its program does something
            assert abs(session.octets - session.counted) <= 16 * 2_000
        assert len(sessions) <= 12
        assert keeper.table.unconfirmed == sum(not each.is_confirmed for each in sessions)
        for session in sessions:
            assert session.octets <= MAX_SESSION
            assert len(session.records) <= 8192
            paths = [park.info.path for park in session.parking.parks.values()]
            assert all(paths.count(path) <= MAX_PARKED for path in paths)
            for park in session.parking.parks.values():
                assert park.alarm is not None
                assert park.alarm.is_set
                assert session.records.get(park.number) is not None
            handles = session.streams._handles
            assert set(session.streams._starved) <= set(handles)
        # One alarm for each session and each question that may wait, and those of what isn't whole yet.
        unfinished = 2 * len(keeper.early) + self.desk.server._door.in_part
        recent = sum(time > self.desk.time - LONGEST for time in self.sent)
        assert len(self.desk.server._deadlines) <= len(sessions) + recent + unfinished


def test_whatever_comes_the_server_stands() -> None:
    run_state_machine_as_test(
        Hostile,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_whatever_comes_for_long_the_server_stands() -> None:
    run_state_machine_as_test(
        Hostile,
        settings=settings(
            max_examples=3_000,
            stateful_step_count=80,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
