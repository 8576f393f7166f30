"""What goes into packets, and in which names (SPEC 8, 9, 12.6, 13)."""

from __future__ import annotations

import pytest

from tests.transports.soar.client.peer import RTT, Asked, Echo, Rig
from transports.soar.core.client.events import StreamFailed
from transports.soar.core.client.numbers import MOST_OUTSTANDING
from transports.soar.core.client.states import SessionState
from transports.soar.core.crypto import Kind
from transports.soar.core.streams.frames import (
    Floor,
    Lost,
    LostMap,
    MaxData,
    MaxStreamData,
    Opened,
    StreamData,
)


def stream_of(rig: Rig) -> object:
    return next(iter(rig.sessions[0].intake.streams.values()))


def data(asked: list[Asked]) -> list[Asked]:
    return [each for each in asked if each.of(StreamData)]


def test_a_warm_opening_goes_out_in_one_instant_with_two_polls() -> None:
    rig = Rig()
    rig.client._pool.acquire(rig.now)
    rig.welcomed()
    rig.time += 5.0
    from tests.transports.soar.client.peer import TARGET

    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    assert [each.kind for each in asked] == [Kind.DATA] * 4
    assert [bool(each.of(StreamData)) for each in asked] == [True, True, False, False]
    assert [each.may_park for each in asked] == [False, False, True, True]
    assert {each.name_class for each in asked} == {1}


@pytest.mark.parametrize(
    ("octets", "begun", "classes"),
    [(60, True, {1}), (5000, False, {1}), (5000, True, {1, 2})],
    ids=["little", "before the first octets", "much"],
)
def test_long_names_are_for_much_and_tried_one_step_at_a_time(
    octets: int, begun: bool, classes: set[int]
) -> None:
    rig = Rig()
    dial = rig.dialed()
    rig.client._paths[0].sizes.has_begun = begun
    dial.stream.write(bytes(octets))
    assert {each.name_class for each in data(rig.send())} == classes


def test_an_upload_climbs_to_the_longest_names() -> None:
    rig = Rig()
    dial = rig.dialed()
    dial.stream.write(bytes(50_000))
    echo = Echo(rig)
    echo.said.add(0)
    rig.run(rig.time + 2.0, echo)
    assert rig.client._paths[0].sizes.up.current == max(rig.client._paths[0].zone.classes)
    assert len(echo.got[0]) == 14 + 50_000


def test_a_download_asks_for_larger_answers_once_one_has_passed() -> None:
    rig = Rig()
    rig.dialed()
    offset = 0

    def reply(asked: Asked) -> bytes | None:
        nonlocal offset
        room = 1000 if asked.size_class else 300
        frame = StreamData(0, offset, bytes(room), False)
        offset += room
        return rig.peer.answer(asked, frame, backlog=100) if asked.number >= 0 else None

    for early in [each for _, each in rig.log if each.number >= 0]:
        rig.post(early, reply(early))
    rig.run(rig.time + 0.5, reply)
    assert [each.size_class for _, each in rig.log if each.kind is Kind.DATA][-5:] == [1] * 5


def test_a_small_answer_is_no_proof_that_large_ones_pass() -> None:
    rig = Rig()
    rig.dialed()
    path = rig.client._paths[0]
    path.sizes.has_begun = True
    rig.run(
        rig.time + 0.5,
        lambda asked: rig.peer.answer(asked, backlog=5) if asked.number >= 0 else None,
    )
    assert path.sizes.down.current == 0


def test_polls_tell_the_floor_and_full_packets_every_sixteenth() -> None:
    rig = Rig()
    dial = rig.dialed()
    echo = Echo(rig)
    echo.said.add(0)
    dial.stream.write(bytes(3000))
    for early in [each for _, each in rig.log if each.number >= 0]:
        rig.post(early, rig.peer.answer(early))
    rig.run(rig.time + 1.0, echo)
    full = [each for _, each in rig.log if each.kind is Kind.DATA and each.of(StreamData)]
    told = [each for each in full if each.of(Floor)]
    assert 0 < len(told) <= len(full) / 16 + 2
    for each in rig.log:
        for floor in each[1].of(Floor):
            assert 0 <= floor.delta <= each[1].number


def test_reading_lets_the_server_send_more() -> None:
    rig = Rig()
    dial = rig.dialed(stream_window=16 << 10, session_window=64 << 10)
    polls = [each for _, each in rig.log if each.may_park]
    rig.tell(polls[0], rig.peer.answer(polls[0], Opened(0), StreamData(0, 0, bytes(9000), False)))
    rig.send()
    assert len(dial.stream.read(9000)) == 9000
    (raised,) = [frame for each in rig.send() for frame in each.of(MaxStreamData)]
    assert raised.octets > 16 << 10


def reported(asked: Asked) -> set[int]:
    """Return the numbers that `asked` says are lost."""
    numbers = {asked.number - delta for frame in asked.of(Lost) for delta in frame.deltas}
    for frame in asked.of(LostMap):
        first = asked.number - frame.delta
        places = range(8 * len(frame.bits))
        numbers |= {first + at for at in places if frame.bits[at >> 3] & 0x80 >> (at & 7)}
    return numbers


def test_far_above_the_floor_nothing_is_sent_but_polls_and_then_nothing() -> None:
    rig = Rig()
    dial = rig.dialed()
    numbers = rig.sessions[0].packets.numbers
    numbers.confirmed = numbers.next - MOST_OUTSTANDING + 500
    dial.stream.write(b"x")
    rig.time += 1.0
    assert 0 < len(rig.send()) <= 2
    session = rig.sessions[0]
    numbers.confirmed = numbers.next - MOST_OUTSTANDING
    session.packets.parked = 0
    assert rig.send() == []
    session.packets.outstanding = 0
    rig.send()
    assert session.state is SessionState.LOST
    (failed,) = rig.events(StreamFailed)
    assert "no packet number is left" in failed.error.words


def test_far_above_the_floor_news_of_losses_is_not_parked_and_of_the_lowest_first() -> None:
    rig = Rig()
    rig.dialed()
    numbers = rig.sessions[0].packets.numbers
    start = numbers.next
    for _ in range(MOST_OUTSTANDING // 2):
        numbers.take()
    for number in reversed(range(start, start + 500)):
        numbers.lost(number)
    seals = rig.sessions[0].packets._seals
    assert seals is not None
    seals.next_number = numbers.next
    rig.peer.halves[rig.log[0][1].sid].highest = numbers.next
    rig.time += 1.0
    asked = rig.send()
    assert asked
    assert all(reported(each) or each.may_park for each in asked)
    assert not any(reported(each) and each.may_park for each in asked)
    assert asked[0].of(LostMap)
    assert min(reported(asked[0])) == 0, "the lowest first"
    for _ in range(30):
        rig.time += 0.01
        asked += rig.send()
    assert len(asked) <= 64


def test_news_of_losses_leaves_room_for_what_was_lost() -> None:
    rig = Rig()
    dial = rig.dialed()
    dial.stream.write(b"0123456789" * 8)
    sent = data(rig.send())
    assert len(sent) > 5
    rig.client.carrier_failed(0, rig.now)
    rig.time += 1.0
    again = data(rig.send())
    assert sum(bool(each.of(Lost)) for each in again) > 2
    octets = {frame.offset: frame.data for each in again for frame in each.of(StreamData)}
    assert b"".join(octets[offset] for offset in sorted(octets)) == b"0123456789" * 8


def test_many_losses_are_told_at_once_however_idle_the_stream_is() -> None:
    rig = Rig()
    rig.dialed()
    echo = Echo(rig)
    echo.said.add(0)
    rig.run(20.0, echo)
    numbers = rig.sessions[0].packets.numbers
    for _ in range(200):
        rig.peer.halves[rig.log[0][1].sid].highest = numbers.next
        number = numbers.take()
        numbers.lost(number)
    seals = rig.sessions[0].packets._seals
    assert seals is not None
    seals.next_number = numbers.next
    began = rig.time
    rig.run(began + 2.0, rig.peer.answer)
    named = {number for at, each in rig.log if at >= began for number in reported(each)}
    assert len(named) >= 200
    assert numbers.floor == numbers.next


def test_a_server_that_is_heard_gets_what_was_held_back() -> None:
    rig = Rig()
    rig.dialed()
    session = rig.sessions[0]
    asked = [each for _, each in rig.log if each.may_park]
    rig.time += RTT
    for each in asked:
        rig.tell(each, rig.peer.answer(each))
    assert session.packets.outstanding == 0
    assert [each.may_park for each in rig.send()] == [True, True]


def test_what_has_no_room_beside_news_of_losses_goes_without_it() -> None:
    rig = Rig()
    rig.dialed()
    rig.send()
    session = rig.sessions[0]
    packets, numbers = session.packets, session.packets.numbers
    first = numbers.next
    for _ in range(600):
        numbers.take()
    for number in range(first, first + 6):
        numbers.lost(number)
    seals = packets._seals
    assert seals is not None
    seals.next_number = numbers.next
    rig.peer.halves[rig.log[0][1].sid].highest = numbers.next
    packets.parked = packets.outstanding = 100  # no poll is wanted
    session.table.queue(MaxData(1 << 40))
    assert rig.send() == []
    assert numbers.to_report, "what was not sent is not taken as said"
    numbers.to_report.clear()
    (asked,) = rig.send()
    assert asked.of(MaxData)


# --- where packets are lost (SPEC 11.6)


def lossy(rig: Rig) -> None:
    for path in rig.client._paths.values():
        path.recovery.loss.lost()


def test_a_small_message_is_sent_twice_the_second_time_in_new_polls() -> None:
    rig = Rig()
    dial = rig.dialed()
    lossy(rig)
    dial.stream.write(b"key")
    asked = rig.send()
    assert [each.of(StreamData)[0].data for each in data(asked)] == [b"key"] * 2
    assert [each.may_park for each in asked] == [False, True, True]


def test_what_polls_have_no_room_for_goes_in_questions_that_are_answered_at_once() -> None:
    rig = Rig()
    dial = rig.dialed()
    lossy(rig)
    text = bytes(range(50))
    dial.stream.write(text)
    times = [0] * 50
    asked = rig.send()
    for each in data(asked):
        for frame in each.of(StreamData):
            for place in range(len(frame.data)):
                times[frame.offset - 14 + place] += 1
    assert times == [2] * 50
    assert sum(each.may_park for each in asked) == 2


@pytest.mark.parametrize(("is_lossy", "octets"), [(False, 3), (True, 5_000)])
def test_without_loss_or_with_much_to_say_nothing_is_sent_twice(
    is_lossy: bool, octets: int
) -> None:
    rig = Rig()
    dial = rig.dialed()
    if is_lossy:
        lossy(rig)
    dial.stream.write(bytes(octets))
    frames = [frame for each in rig.send() for frame in each.of(StreamData)]
    places = [place for f in frames for place in range(f.offset, f.offset + len(f.data))]
    assert len(places) == len(set(places))


def test_the_answer_to_a_copy_acknowledges_what_is_in_it_and_its_loss_queues_nothing() -> None:
    rig = Rig()
    dial = rig.dialed()
    lossy(rig)
    dial.stream.write(b"key")
    (session,) = rig.sessions
    path = rig.client._paths[0]
    asked = rig.send()
    pending = {q.number: q for q in path.recovery.pending.values()}
    original, copy = (pending[each.number] for each in data(asked))
    assert (original.needs_answer, copy.needs_answer) == (True, False)
    session.packets.lost(copy)
    assert not session.table.has_queued()
    session.table.acked(copy.records)
    session.packets.lost(original)
    assert not session.table.has_queued(), "it has arrived"
