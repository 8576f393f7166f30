"""Sealed packets and answers (SPEC 8)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from tests.transports.soar.crypto.parties import SERVER_KEY, flips, pair
from transports.soar.core.crypto import (
    ANSWER_OVERHEAD,
    PACKET_OVERHEAD,
    ClientSeals,
    Header,
    Info,
    Kind,
    Opened,
    ServerSeals,
    SizeClass,
    read_header,
)
from transports.soar.core.crypto.noise import Split
from transports.soar.core.crypto.packets import NUMBER_WINDOW, SessionKeys

HEADER_KEY = SERVER_KEY.public.header_key
SID = b"abcd"
INFO = Info(3, SizeClass.OCTETS_1232, True)


def keys(letter: bytes = b"k") -> SessionKeys:
    return SessionKeys(to_server=letter * 32, to_client=letter.upper() * 32)


def ends(*, established: bool = True) -> tuple[ClientSeals, ServerSeals]:
    client = ClientSeals(sid=SID, header_key=HEADER_KEY, early_key=b"e" * 32)
    server = ServerSeals(early_key=b"e" * 32)
    if established:
        client.establish(keys())
        server.establish(keys())
    return client, server


def header_of(packet: bytes) -> Header:
    header = read_header(HEADER_KEY, packet)
    assert header is not None
    return header


def sealed(client: ClientSeals, frames: bytes = b"frames", **options: Any) -> bytes:
    kind = options.pop("kind", Kind.DATA)
    options.setdefault("capacity", 38)
    return client.seal_packet(kind, 1, client.next_number, INFO, frames, **options)


# Packets


@given(frames=st.binary(max_size=126), spare=st.integers(0, 20), zone_index=st.integers(0, 7))
def test_a_packet_opens_to_what_was_sealed_and_padding(
    frames: bytes, spare: int, zone_index: int
) -> None:
    client, server = ends()
    capacity = len(frames) + PACKET_OVERHEAD + spare
    packet = sealed(client, frames, capacity=capacity, zone_index=zone_index)
    assert len(packet) == capacity
    header = header_of(packet)
    assert header[:4] == (Kind.DATA, 1, SID, 0)
    assert server.open_packet(header, packet, 0, zone_index) == (INFO, frames + bytes(spare))


def test_numbers_follow_each_other_over_early_packets_and_data() -> None:
    client, server = ends(established=False)
    first = sealed(client, b"early", kind=Kind.EARLY)
    client.establish(keys())
    server.establish(keys())
    second = sealed(client, b"data")
    assert [header_of(packet).x for packet in (first, second)] == [0, 1]
    opened = [
        server.open_packet(header_of(packet), packet, number)
        for number, packet in enumerate((first, second))
    ]
    assert [frames.rstrip(b"\0") for _, frames in filter(None, opened)] == [b"early", b"data"]


def test_a_header_has_the_low_bits_of_a_number_and_the_seal_all_of_it() -> None:
    client, server = ends()
    client.next_number = 0x1_0002_0003
    packet = sealed(client)
    header = header_of(packet)
    assert header.x == 3
    assert server.open_packet(header, packet, 0x1_0002_0003) is not None
    assert server.open_packet(header, packet, 0x2_0003) is None
    assert server.open_packet(header, packet, 3) is None


def test_no_number_is_sealed_twice() -> None:
    client, _ = ends()
    sealed(client)
    for number in (0, 2, -1):
        with pytest.raises(LocalProtocolError, match="where 1 is the next"):
            client.seal_packet(Kind.DATA, 0, number, INFO, b"", capacity=38)
    sealed(client)
    assert client.next_number == 2


def test_frames_that_have_no_room_use_no_number() -> None:
    client, _ = ends()
    with pytest.raises(LocalProtocolError, match="15 octets of frames, where 14 fit"):
        sealed(client, bytes(15))
    assert client.next_number == 0


@pytest.mark.parametrize("established", [False, True])
@pytest.mark.parametrize("kind", range(4))
def test_each_kind_is_sealed_in_its_time_only(kind: int, established: bool) -> None:
    client, _ = ends(established=established)
    if kind == (Kind.DATA if established else Kind.EARLY):
        assert header_of(sealed(client, kind=kind)).kind == kind
    else:
        with pytest.raises(LocalProtocolError, match=f"kind {kind} cannot be sealed now"):
            sealed(client, kind=kind)
        assert client.next_number == 0


def test_any_bit_flipped_or_cut_anywhere_is_junk() -> None:
    client, server = ends()
    packet = sealed(client)
    for forged in [*flips(packet), *(packet[:at] for at in range(len(packet))), packet + b"\0"]:
        header = read_header(HEADER_KEY, forged)
        if header is not None:
            assert server.open_packet(header, forged, 0) is None
    assert server.open_packet(header_of(packet), packet, 0) is not None


def test_a_packet_is_bound_to_zone_kind_number_and_key() -> None:
    client, server = ends()
    packet = sealed(client, zone_index=2)
    header = header_of(packet)
    other = ServerSeals(early_key=b"e" * 32)
    other.establish(keys(b"o"))
    assert server.open_packet(header, packet, 0, 2) is not None
    assert server.open_packet(header, packet, 0, 1) is None
    assert server.open_packet(header, packet, 1, 2) is None
    assert server.open_packet(header._replace(kind=Kind.EARLY), packet, 0, 2) is None
    assert server.open_packet(header._replace(kind=Kind.FRAGMENT), packet, 0, 2) is None
    assert other.open_packet(header, packet, 0, 2) is None


def test_data_does_not_open_before_the_handshake_and_early_packets_do_after() -> None:
    client, _ = ends(established=False)
    early = sealed(client, kind=Kind.EARLY)
    client.establish(keys())
    data = sealed(client)
    _, waiting = ends(established=False)
    assert waiting.open_packet(header_of(data), data, 1) is None
    _, ready = ends()
    assert ready.open_packet(header_of(early), early, 0) is not None


# Answers


@given(
    frames=st.binary(max_size=1200),
    backlog=st.integers(0, 5000),
    held=st.floats(0, 5),
    number=st.integers(0, 2**32),
)
def test_an_answer_opens_to_what_was_sealed(
    frames: bytes, backlog: int, held: float, number: int
) -> None:
    client, server = ends()
    payload = server.seal_answer(number, backlog, held, frames)
    assert len(payload) == len(frames) + ANSWER_OVERHEAD
    opened = client.open_answer(number, payload)
    assert opened is not None
    assert opened.frames == frames
    if backlog < 128:
        assert opened.backlog == backlog
    elif backlog < 128 + 16 * 128:
        assert backlog - 16 < opened.backlog <= backlog
    else:
        assert opened.backlog == 128 + 16 * 127
    assert held - 0.008001 <= opened.held <= held + 1e-9 or opened.held == 255 * 0.008


def test_an_answer_s_octets_are_sealed_once() -> None:
    _, server = ends()
    server.seal_answer(7, 0, 0.0, b"")
    with pytest.raises(LocalProtocolError, match="one number is sealed once"):
        server.seal_answer(7, 0, 0.0, b"")


@given(st.lists(st.integers(0, 3 * NUMBER_WINDOW), max_size=300))
def test_numbers_are_sealed_once_in_any_order(numbers: list[int]) -> None:
    _, server = ends()
    used: set[int] = set()
    for number in numbers:
        if number in used or number <= max(used, default=0) - NUMBER_WINDOW:
            with pytest.raises(LocalProtocolError):
                server.seal_answer(number, 0, 0.0, b"")
        else:
            server.seal_answer(number, 0, 0.0, b"")
            used.add(number)


def test_what_is_remembered_of_numbers_stays_small_and_right() -> None:
    _, server = ends()
    for number in range(0, 40 * NUMBER_WINDOW, 37):
        server.seal_answer(number, 0, 0.0, b"")
        for old in (number, number - 37 * (NUMBER_WINDOW // 37), number - 2 * NUMBER_WINDOW):
            if old >= 0:
                with pytest.raises(LocalProtocolError):
                    server.seal_answer(old, 0, 0.0, b"")
    assert len(server._numbers._words) <= 2 * NUMBER_WINDOW // 64


def test_any_bit_flipped_or_cut_anywhere_is_no_answer() -> None:
    client, server = ends()
    payload = server.seal_answer(0, 1, 0.1, b"frames")
    for forged in [*flips(payload), *(payload[:at] for at in range(len(payload))), payload + b"\0"]:
        assert client.open_answer(0, forged) is None
    assert client.open_answer(0, payload) == Opened(1, 0.096, b"frames")


def test_an_answer_is_bound_to_number_direction_and_key() -> None:
    client, server = ends()
    payload = server.seal_answer(5, 0, 0.0, b"frames")
    other, _ = ends(established=False)
    other.establish(keys(b"o"))
    assert client.open_answer(4, payload) is None
    assert other.open_answer(5, payload) is None
    # An answer is no packet, even where the keys are the same both ways.
    assert (
        _one_key().open_packet(Header(Kind.DATA, 0, SID, 0, bytes(7)), bytes(7) + payload, 5)
        is None
    )
    # A packet that the client itself sent, thrown back at it, under keys that are the same both ways.
    mirror = ClientSeals(sid=SID, header_key=HEADER_KEY, early_key=b"e" * 32)
    mirror.establish(SessionKeys(to_server=b"k" * 32, to_client=b"k" * 32))
    assert mirror.open_answer(0, sealed(mirror)[7:]) is None


def _one_key() -> ServerSeals:
    seals = ServerSeals(early_key=b"e" * 32)
    seals.establish(SessionKeys(to_server=b"K" * 32, to_client=b"K" * 32))
    return seals


def test_an_answer_without_its_two_octets_is_none() -> None:
    client, server = ends()
    assert server._seal is not None
    for size in range(2):
        payload = server._seal.encrypt(b"\x01" + bytes(11), bytes(size), None)
        assert client.open_answer(0, payload) is None


@given(st.binary(max_size=200))
def test_garbage_is_no_answer_and_no_packet(garbage: bytes) -> None:
    client, server = ends()
    assert client.open_answer(0, garbage) is None
    assert server.open_packet(Header(Kind.DATA, 0, SID, 0, bytes(7)), garbage, 0) is None


def test_a_packet_without_its_octet_of_info_is_none() -> None:
    client, server = ends()
    assert client._seal is not None
    header = Header(Kind.DATA, 0, SID, 0, bytes(7))
    for size in range(2):
        packet = bytes(7) + client._seal.encrypt(bytes(12), bytes(size), bytes(8))
        assert (server.open_packet(header, packet, 0) is not None) == (size == 1)


def test_answers_wait_for_the_handshake() -> None:
    client, server = ends(established=False)
    with pytest.raises(LocalProtocolError, match="before msg2"):
        client.open_answer(0, bytes(18))
    with pytest.raises(LocalProtocolError, match="before the handshake"):
        server.seal_answer(0, 0, 0.0, b"")


# One owner of each key


def test_keys_are_given_once() -> None:
    for end in ends():
        with pytest.raises(LocalProtocolError, match="once"):
            end.establish(keys(b"o"))


def test_what_seals_is_not_copied() -> None:
    client, server = pair()
    for value in (client.seals, server.seals, keys(), Split(b"", b"", b"")):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="not copied"):
                duplicate(value)
    for holder in (client, server):
        with pytest.raises(TypeError):
            copy.deepcopy(holder)
