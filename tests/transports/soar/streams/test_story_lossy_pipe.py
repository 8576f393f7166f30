"""Two tables joined by a path that loses, repeats and reorders: every octet arrives whole, in order, once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.transports.soar.streams.pairs import HEADER, TARGET, Packet, Pair
from transports.soar.core.streams.events import (
    StreamConnected,
    StreamOpened,
    StreamOver,
    StreamReadable,
    StreamRefused,
    StreamReset,
    StreamStopped,
    StreamWritable,
)
from transports.soar.core.streams.windows import Limits

if TYPE_CHECKING:
    from transports.soar.core.streams.table import StreamTable

UP, DOWN = True, False
PATTERN: Final = bytes(i * 7 & 0xFF for i in range(256)) * 120
ROOMS: Final = {UP: (14, 27, 79, 126), DOWN: (60, 200, 435, 1095)}


class Direction:
    """What one side means to send on one stream, has sent, and what the other has read of it."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.read = bytearray()
        self.finished = False
        self.reset = False  # by its sender, or as an answer to STOP
        self.stopped = False  # by its reader
        self.ended = False  # at its reader


class Pipe(RuleBasedStateMachine):
    """The path: packets under way in both directions, each with a fate still open."""

    def __init__(self) -> None:
        super().__init__()
        self.flights: dict[bool, list[Packet]] = {UP: [], DOWN: []}
        self.directions: dict[tuple[int, bool], Direction] = {}
        self.known: set[int] = set()  # to the server's application
        self.connected: set[int] = set()
        self.refused: dict[int, int] = {}
        self.over: dict[bool, set[int]] = {UP: set(), DOWN: set()}

    @initialize(window=st.sampled_from([16_384, 40_000]), most=st.sampled_from([50_000, 1 << 20]))
    def begin(self, window: int, most: int) -> None:
        limits = Limits(
            stream_window=window,
            session_window=window,
            most_session_window=max(window, most),
            max_streams=4,
        )
        self.pair = Pair(limits)

    def side(self, way: bool) -> StreamTable:
        """Return the sender of a way."""
        return self.pair.client if way is UP else self.pair.server

    def draw(self, data: st.DataObject, way: bool) -> tuple[int, Direction] | None:
        """Return a stream whose direction its sender may use."""
        numbers = [n for n, w in self.directions if w is way and (way is UP or n in self.known)]
        if not numbers:
            return None
        number = data.draw(st.sampled_from(numbers))
        return number, self.directions[number, way]

    # --- what applications do ---------------------------------------------------------------

    @precondition(lambda self: self.pair.client.can_open())
    @rule(early=st.binary(max_size=40))
    def open(self, early: bytes) -> None:
        number = self.pair.client.open(HEADER)
        for way in (UP, DOWN):
            self.directions[number, way] = Direction()
        self.directions[number, UP].written += early
        self.pair.client.write(number, early)

    @rule(data=st.data(), way=st.booleans(), size=st.integers(0, 30_000), salt=st.integers(0, 255))
    def write(self, data: st.DataObject, way: bool, size: int, salt: int) -> None:
        drawn = self.draw(data, way)
        if drawn is None or drawn[0] in self.refused:
            return
        number, direction = drawn
        if direction.finished or direction.reset:
            return
        if way is DOWN and number not in self.connected:
            self.connected.add(number)
            self.pair.server.opened(number)
        octets = PATTERN[salt : salt + min(size, self.side(way).room(number))]
        self.side(way).write(number, octets)
        direction.written += octets

    @rule(data=st.data(), way=st.booleans())
    def finish(self, data: st.DataObject, way: bool) -> None:
        drawn = self.draw(data, way)
        if drawn is not None:
            self.side(way).finish(drawn[0])
            drawn[1].finished = True

    @rule(data=st.data(), way=st.booleans())
    def reset(self, data: st.DataObject, way: bool) -> None:
        drawn = self.draw(data, way)
        if drawn is not None:
            self.side(way).reset(drawn[0], 2)
            drawn[1].reset = True

    @rule(data=st.data(), way=st.booleans())
    def stop(self, data: st.DataObject, way: bool) -> None:
        drawn = self.draw(data, way)
        if drawn is not None:
            # The sender of the other way is this one's reader.
            self.side(way).stop(drawn[0], 1)
            self.directions[drawn[0], not way].stopped = True

    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        drawn = self.draw(data, DOWN)
        if drawn is None or drawn[0] in self.connected or drawn[1].finished:
            return
        if not drawn[1].reset:
            self.refused[drawn[0]] = 3
        self.pair.server.refuse(drawn[0], 3)

    @rule(data=st.data(), way=st.booleans(), most=st.integers(1, 20_000))
    def read(self, data: st.DataObject, way: bool, most: int) -> None:
        numbers = [n for n, w in self.directions if w is way and (way is DOWN or n in self.known)]
        if numbers:
            self.take(data.draw(st.sampled_from(numbers)), way, most)

    def take(self, number: int, way: bool, most: int) -> None:
        """Read, and compare with what was written."""
        direction = self.directions[number, way]
        reader = self.side(not way)
        octets = reader.read(number, most)
        assert not (direction.stopped and octets)
        begin = len(direction.read)
        assert octets == direction.written[begin : begin + len(octets)]
        direction.read += octets
        direction.ended = direction.ended or reader.at_end(number)

    # --- what the path does -----------------------------------------------------------------

    @rule(way=st.booleans(), size=st.integers(0, 3), count=st.integers(1, 30))
    def send(self, way: bool, size: int, count: int) -> None:
        for _ in range(count):
            packet = (self.pair.up if way is UP else self.pair.down)(ROOMS[way][size])
            if not packet.records:
                return
            self.flights[way].append(packet)

    @rule(way=st.booleans(), seed=st.integers(0, 1 << 16), share=st.integers(1, 4))
    def arrive(self, way: bool, seed: int, share: int) -> None:
        """Let some packets arrive, twice at times; some get their acknowledgement back, some are thought lost."""
        rng = random.Random(seed)
        flight = self.flights[way]
        rng.shuffle(flight)
        for packet in flight[: len(flight) // share + 1]:
            fate = rng.random()
            if fate < 0.75:
                packet.deliver()
            if fate < 0.1:
                packet.deliver()
            if fate < 0.05 or fate > 0.7:
                packet.lose()
            if fate < 0.7:
                packet.ack()
                flight.remove(packet)
            elif fate > 0.85:
                flight.remove(packet)
        self.listen()

    def listen(self) -> None:
        """Take all events, and check each with what was done."""
        for way in (UP, DOWN):
            table = self.side(way)
            while table.events:
                event = table.events.popleft()
                number = event.stream
                incoming = self.directions[number, not way]
                match event:
                    case StreamOpened(_, target):
                        assert way is DOWN
                        assert target == TARGET
                        assert number not in self.known
                        self.known.add(number)
                    case StreamConnected():
                        assert way is UP
                        assert number not in self.refused
                    case StreamRefused(_, reason):
                        assert self.refused[number] == reason or reason == 6
                        self.refused.setdefault(number, reason)
                        incoming.ended = True
                        self.directions[number, UP].reset = True
                    case StreamReset():
                        # A stream whose target never came is reset by the server's table itself.
                        assert incoming.reset or number not in self.known
                        incoming.ended = True
                    case StreamStopped():
                        assert self.directions[number, way].stopped
                        self.directions[number, way].reset = True
                    case StreamOver():
                        assert number not in self.over[way]
                        self.over[way].add(number)
                    case StreamReadable() | StreamWritable():
                        pass

    # --- what always holds ------------------------------------------------------------------

    @invariant()
    def sums_agree(self) -> None:
        if not hasattr(self, "pair"):
            return
        for way in (UP, DOWN):
            table = self.side(way)
            sender, receiver = table._sender, table._receiver
            streams = table._register.streams.values()
            assert sender._kept == sum(s.send.kept for s in streams)
            assert table.sending == sum(len(s.send.data) for s in streams)
            assert sender._lost == sum(s.send.lost.size for s in streams)
            assert sender._sendable == sum(s.sendable for s in streams)
            assert receiver._pieces == sum(s.receive.pieces for s in streams)
            assert sender.sent <= sender.limit
            assert receiver._received <= receiver._window.limit
            assert 0 <= receiver.waiting <= receiver._limits.most_session_window
            assert all(s.send.sent <= s.send_limit for s in streams)
            assert bool(table.queued_octets()) == table.has_queued()
            held = sum(len(s.receive.data) + sum(map(len, s.receive._pieces)) for s in streams)
            assert held <= receiver.waiting
            assert table.live == sum(not s.over for s in streams)

    def teardown(self) -> None:
        """End all streams over a path that has become kind: nothing may be left, and every octet must have come."""
        if not hasattr(self, "pair"):
            return
        for way in (UP, DOWN):
            for packet in self.flights[way]:
                packet.lose()
        for _ in range(3000):
            if not (self.pair.client.kept or self.pair.server.kept):
                break
            for way in (UP, DOWN):
                for number in [n for n, w in self.directions if w is way]:
                    if way is DOWN and number not in self.known:
                        continue
                    self.side(way).finish(number)
                    self.directions[number, way].finished = True
                for number in [n for n, w in self.directions if w is not way]:
                    if way is UP or number in self.known:
                        self.take(number, not way, 1 << 30)
                for _ in range(8):
                    packet = (self.pair.up if way is UP else self.pair.down)(ROOMS[way][3])
                    packet.deliver()
                    packet.ack()
            self.listen()
        self.listen()
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        for way in (UP, DOWN):
            table = self.side(way)
            assert (table.kept, table.live, table.waiting) == (0, 0, 0)
            assert not table.has_queued()
            assert len(table._sender.controls) == 0
            assert not table._register._unseen
            assert table._register._counted == 0
            assert table._receiver._grown == 0
        # Either side knows exactly how much the other sent, resets and refusals included (RFC 9000 section 4.5).
        client, server = self.pair.client, self.pair.server
        assert client._sender.sent == server._receiver._received
        assert server._sender.sent == client._receiver._received
        for (number, way), direction in self.directions.items():
            if way is DOWN or number in self.known:
                self.take(number, way, 1)
            if not (direction.reset or direction.stopped or number in self.refused):
                assert direction.read == direction.written
                assert direction.ended
        assert self.over[UP] == {n for n, _ in self.directions}
        assert self.over[DOWN] == self.known


def test_every_octet_arrives_whole_in_order_once() -> None:
    run_state_machine_as_test(
        Pipe, settings=settings(max_examples=50, stateful_step_count=40, deadline=None)
    )


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_long_run_over_a_lossy_pipe() -> None:
    run_state_machine_as_test(
        Pipe, settings=settings(max_examples=2000, stateful_step_count=80, deadline=None)
    )
