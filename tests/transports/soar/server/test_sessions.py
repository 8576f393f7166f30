from __future__ import annotations

from typing import NamedTuple

from transports.soar.core.server.sessions import SessionTable


class Plain(NamedTuple):
    sid: bytes
    prefix: bytes


def make(number: int, prefix: bytes = b"a") -> Plain:
    return Plain(number.to_bytes(4), prefix)


def test_a_session_is_found_until_it_is_removed() -> None:
    table: SessionTable[Plain] = SessionTable(8)
    session = make(1)
    table.add(session)
    assert table.get(session.sid) is session
    assert list(table) == [session]
    assert (len(table), table.unconfirmed) == (1, 1)
    table.confirm(session)
    table.confirm(session)
    assert (len(table), table.unconfirmed) == (1, 0)
    table.remove(session)
    assert table.get(session.sid) is None
    assert len(table) == 0


def test_a_prefix_may_have_a_quarter_of_the_table() -> None:
    table: SessionTable[Plain] = SessionTable(8)
    for number in range(2):
        table.add(session := make(number))
        table.confirm(session)
    assert not table.has_room(b"a")
    assert table.has_room(b"b")
    assert table.victim(b"b") is None


def test_in_a_full_prefix_the_oldest_unconfirmed_gives_way() -> None:
    table: SessionTable[Plain] = SessionTable(12)
    sessions = [make(number) for number in range(3)]
    for session in sessions:
        table.add(session)
    table.confirm(sessions[0])
    assert table.has_room(b"a")
    assert table.victim(b"a") is sessions[1]


def test_in_a_full_table_the_oldest_unconfirmed_gives_way_whoever_it_is() -> None:
    table: SessionTable[Plain] = SessionTable(8)
    sessions = [make(number, bytes([number])) for number in range(8)]
    for session in sessions:
        table.add(session)
        if session.sid[-1] != 5:
            table.confirm(session)
    assert table.has_room(b"z")
    assert table.victim(b"z") is sessions[5]
    table.confirm(sessions[5])
    assert not table.has_room(b"z")


def test_unconfirmed_ones_fill_a_quarter_at_most() -> None:
    table: SessionTable[Plain] = SessionTable(100)
    for number in range(1000):
        prefix = number.to_bytes(3)
        assert table.has_room(prefix)
        if (victim := table.victim(prefix)) is not None:
            table.remove(victim)
        table.add(make(number, prefix))
    assert table.unconfirmed == len(table) == 25
    assert next(iter(table)).sid == (975).to_bytes(4)


def test_what_is_removed_leaves_nothing_behind() -> None:
    table: SessionTable[Plain] = SessionTable(100)
    for number in range(50):
        table.add(session := make(number, bytes([number % 5])))
        if number % 2:
            table.confirm(session)
    for session in table:
        table.remove(session)
    assert not table._sessions
    assert not table._in_prefix
    assert not table._unconfirmed
    assert not table._unconfirmed_in
