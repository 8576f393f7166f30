"""The handshake (SPEC 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError, RemoteProtocolError
from tests.transports.soar.crypto.parties import (
    GRANT,
    NOW,
    SERVER_KEY,
    ZONE,
    FixedEntropy,
    flips,
    greet,
    pair,
    terms,
)
from tests.transports.soar.crypto.test_keys import LOW_ORDER
from transports.soar.core.crypto import (
    First,
    FirstMessage,
    Grant,
    Info,
    Kind,
    Retry,
    RetryCode,
    RetryCookie,
    ServerKey,
    Status,
    Terms,
    build_retry,
    clock_error,
    frames_room,
    open_first,
    read_fragment,
    read_header,
    sid_of,
)
from transports.soar.core.crypto.hashes import digest
from transports.soar.core.crypto.noise import Initiator, Responder
from transports.soar.core.crypto.retries import BodyType, wrap

COOKIE = RetryCookie(b"12345678", b"abcd")
OTHER_KEY = ServerKey.generate(FixedEntropy("another"))
INFO = Info(0, 0, True)


def opened(client: FirstMessage, key: ServerKey = SERVER_KEY, zone: bytes = ZONE) -> First:
    first = open_first(key, zone, client.message)
    assert first is not None
    return first


def answered(client: FirstMessage, seed: str = "answer") -> bytes:
    return opened(client).answer(terms(client.sid), entropy=FixedEntropy(seed))


# The first message


@pytest.mark.parametrize(
    ("grant", "cookie", "frames", "packets"),
    [
        (None, None, 0, 2),  # 54 octets exactly
        (None, None, 1, 3),
        (
            None,
            None,
            20,
            3,
        ),  # the opening of a stream to a name of 15 letters, with early data to spare
        (GRANT, None, 20, 4),
        (None, COOKIE, 42, 4),
        (GRANT, COOKIE, 20, 4),
    ],
)
def test_a_first_message_ends_where_its_packets_do(
    grant: Grant | None, cookie: RetryCookie | None, frames: int, packets: int
) -> None:
    client = greet(grant=grant, cookie=cookie, frames=b"f" * frames)
    assert len(client.message) == packets * 27
    assert len(client.fragments(38, form=0, entropy=FixedEntropy("filling"))) == packets


@given(capacity=st.integers(66, 150), cookie=st.booleans(), grant=st.booleans(), data=st.data())
def test_there_is_the_room_that_is_promised(
    capacity: int, cookie: bool, grant: bool, data: st.DataObject
) -> None:
    room = frames_room(capacity, cookie=cookie, grant=grant)
    options = {
        "capacity": capacity,
        "cookie": COOKIE if cookie else None,
        "grant": GRANT if grant else None,
    }
    with pytest.raises(LocalProtocolError, match=f"room for {room}"):
        greet(frames=bytes(max(room, -1) + 1), **options)  # type: ignore[arg-type]
    if room >= 0:
        frames = b"f" * data.draw(st.integers(0, room))
        client = greet(frames=frames, **options)  # type: ignore[arg-type]
        packets = client.fragments(capacity, form=1, entropy=FixedEntropy("filling"))
        assert len(client.message) == len(packets) * (capacity - 11) <= 255
        assert opened(client).claims.frames.rstrip(b"\0") == frames


@pytest.mark.parametrize("capacity", [0, 11, 12, 20, 300])
def test_names_that_carry_no_first_message_are_refused(capacity: int) -> None:
    assert frames_room(capacity, cookie=False, grant=False) < 0
    with pytest.raises(LocalProtocolError, match="room for -"):
        greet(capacity=capacity)


def test_the_server_reads_what_the_client_claims() -> None:
    client = greet(grant=GRANT, cookie=COOKIE, frames=b"frames")
    first = opened(client)
    assert first.sid == client.sid == sid_of(client.message) == digest(4, b"", client.message)
    assert first.claims.time == int(NOW)
    assert first.claims.max_version == 0
    assert first.claims.cookie == COOKIE
    assert first.claims.grant is not None
    assert first.claims.grant[0] == GRANT.id
    assert first.claims.frames.rstrip(b"\0") == b"frames"


def test_a_grant_is_proven_to_who_knows_its_secret_only() -> None:
    first = opened(greet(grant=GRANT))
    assert first.proves(GRANT.secret)
    for secret in flips(GRANT.secret):
        assert not first.proves(secret)
    assert not opened(greet()).proves(GRANT.secret)


def test_a_proof_does_not_fit_another_handshake() -> None:
    # A thief who has one client's proof, and the server's key, cannot show it in a handshake of their own.
    one, other = (
        opened(greet(grant=GRANT, entropy=FixedEntropy(seed))).claims.grant for seed in "ab"
    )
    assert one is not None
    assert other is not None
    assert one[0] == other[0]
    assert one[1] != other[1]


def test_every_first_message_has_its_own_ephemeral_key() -> None:
    entropy = FixedEntropy("client")
    one, other = greet(entropy=entropy), greet(entropy=entropy)
    assert one.message[:32] != other.message[:32]
    assert one.sid != other.sid


def test_the_same_message_travels_in_names_of_any_class() -> None:
    client = greet(frames=b"frames")
    for capacity in (38, 51, 98, 146):
        joined = bytearray(len(client.message))
        for packet in client.fragments(capacity, form=2, entropy=FixedEntropy("filling")):
            header = read_header(SERVER_KEY.public.header_key, packet)
            assert header is not None
            assert (header.kind, header.form, header.sid) == (Kind.FRAGMENT, 2, client.sid)
            fragment = read_fragment(SERVER_KEY.public.header_key, header, packet)
            assert fragment is not None
            joined[fragment.offset : fragment.offset + len(fragment.piece)] = fragment.piece
        assert bytes(joined) == client.message


def test_a_first_message_with_any_bit_flipped_or_cut_anywhere_is_none() -> None:
    message = greet(frames=b"frames").message
    wrong = [*flips(message), *(message[:at] for at in range(len(message))), message + b"\0"]
    for forged in wrong:
        assert open_first(SERVER_KEY, ZONE, forged) is None


def test_a_first_message_is_for_one_server_and_zone() -> None:
    client = greet()
    assert open_first(OTHER_KEY, ZONE, client.message) is None
    for zone in (b"\x01u" + ZONE[2:], ZONE[2:], ZONE[:-1], b""):
        assert open_first(SERVER_KEY, zone, client.message) is None
    assert open_first(SERVER_KEY, ZONE, client.message) is not None


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_a_point_of_low_order_makes_no_session(point: bytes) -> None:
    assert open_first(SERVER_KEY, ZONE, point + bytes(49)) is None
    client = greet()
    forged = wrap(SERVER_KEY.public.header_key, BodyType.MSG2, point + bytes(53))
    assert client.receive(forged) is None
    assert client.receive(answered(client)) is not None


@given(st.binary(max_size=300))
def test_garbage_is_no_first_message_and_no_answer(garbage: bytes) -> None:
    assert open_first(SERVER_KEY, ZONE, garbage) is None
    client = greet()
    assert client.receive(garbage) is None
    assert client.finish(garbage) is None


@pytest.mark.parametrize(("size", "good"), [(54, True), (255, True), (256, False), (300, False)])
def test_a_first_message_has_at_most_255_octets(size: int, good: bool) -> None:
    noise = Initiator(
        remote_static=SERVER_KEY.public.raw,
        prologue=b"soar/1" + ZONE,
        ephemeral=FixedEntropy("client")(32),
    )
    message = noise.seal(bytes(size - 48))
    assert len(message) == size
    assert (open_first(SERVER_KEY, ZONE, message) is not None) == good


def test_claims_that_are_cut_short_are_no_first_message() -> None:
    for payload in (bytes(5), b"\0\0\0\0\1\0" + bytes(11), b"\0\0\0\0\2\0" + bytes(21)):
        noise = Initiator(
            remote_static=SERVER_KEY.public.raw,
            prologue=b"soar/1" + ZONE,
            ephemeral=FixedEntropy("client")(32),
        )
        assert open_first(SERVER_KEY, ZONE, noise.seal(payload)) is None


# The answer


def test_a_welcome_tells_the_terms_and_makes_a_session() -> None:
    client = greet()
    first = opened(client)
    told = terms(client.sid)
    payload = first.answer(told, entropy=FixedEntropy("answer"))
    assert len(payload) == 87
    assert client.receive(payload) == told

    packet = client.seals.seal_packet(Kind.DATA, 0, 0, INFO, b"up", capacity=38)
    header = read_header(SERVER_KEY.public.header_key, packet)
    assert header is not None
    assert header.sid == first.sid
    up = first.seals.open_packet(header, packet, 0)
    assert up is not None
    assert up[1].rstrip(b"\0") == b"up"
    down = client.seals.open_answer(0, first.seals.seal_answer(0, 0, 0.0, b"down"))
    assert down is not None
    assert down.frames == b"down"


def test_early_packets_need_no_answer() -> None:
    client = greet()
    packet = client.seals.seal_packet(Kind.EARLY, 0, 0, INFO, b"early", capacity=38)
    header = read_header(SERVER_KEY.public.header_key, packet)
    assert header is not None
    assert opened(client).seals.open_packet(header, packet, 0) is not None
    # Another first message has another early key.
    other = opened(greet(entropy=FixedEntropy("other")))
    assert other.seals.open_packet(header, packet, 0) is None


def test_the_same_answer_to_every_fragment_gives_the_same_terms() -> None:
    client = greet()
    payload = answered(client)
    first = client.receive(payload)
    assert first is not None
    assert client.receive(payload) is first


def test_another_answer_to_the_same_message_counts_no_more() -> None:
    client = greet()
    first, second = (answered(client, seed) for seed in "ab")
    assert first != second
    kept = client.receive(first)
    assert client.receive(second) is None
    assert client.receive(first) is kept


def test_an_answer_with_any_bit_flipped_or_cut_anywhere_proves_nothing() -> None:
    client = greet()
    payload = answered(client)
    wrong = [*flips(payload), *(payload[:at] for at in range(len(payload))), payload + b"\0"]
    for forged in wrong:
        assert client.receive(forged) is None
    assert client.receive(payload) is not None  # the true one still counts


def test_an_answer_to_another_message_proves_nothing() -> None:
    client, other = greet(), greet(entropy=FixedEntropy("other"))
    assert client.receive(answered(other)) is None


def test_a_server_without_the_key_cannot_answer() -> None:
    # It knows the public key and the message, and has its own static key in place of the server's.
    client = greet()
    with_other = greet(public=OTHER_KEY.public)
    payload = opened(with_other, OTHER_KEY).answer(
        terms(client.sid), entropy=FixedEntropy("answer")
    )
    body = payload[1:]
    assert client.receive(wrap(SERVER_KEY.public.header_key, BodyType.MSG2, body)) is None


@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.WELCOME, Status.OTHER)])
def test_a_refusal_is_proven_and_makes_no_session(status: Status) -> None:
    client = greet()
    first = opened(client)
    payload = first.answer(terms(client.sid, status), entropy=FixedEntropy("answer"))
    received = client.receive(payload)
    assert isinstance(received, Terms)
    assert received.status is status
    with pytest.raises(LocalProtocolError):
        client.seals.seal_packet(Kind.DATA, 0, 0, INFO, b"", capacity=38)
    with pytest.raises(LocalProtocolError):
        first.seals.seal_answer(0, 0, 0.0, b"")


def test_a_first_message_is_answered_once() -> None:
    first = opened(greet())
    first.answer(terms(first.sid), entropy=FixedEntropy("a"))
    with pytest.raises(LocalProtocolError, match="one answer"):
        first.answer(terms(first.sid), entropy=FixedEntropy("b"))


def test_terms_that_cannot_be_said_leave_the_message_unanswered() -> None:
    first = opened(greet())
    with pytest.raises(LocalProtocolError, match="no answer says"):
        first.answer(Terms(status=Status.WELCOME, time=0), entropy=FixedEntropy("a"))
    assert first.answer(terms(first.sid), entropy=FixedEntropy("b"))


@pytest.mark.parametrize("payload", [b"", bytes(35), bytes(36)])
def test_a_server_that_proves_itself_and_breaks_the_rules_is_told_from_a_forger(
    payload: bytes,
) -> None:
    client = greet()
    server = Responder(
        static=SERVER_KEY.private,
        static_public=SERVER_KEY.public.raw,
        prologue=b"soar/1" + ZONE,
        message=client.message,
    )
    message, _ = server.seal(payload, ephemeral=FixedEntropy("answer")(32))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            client.receive(wrap(SERVER_KEY.public.header_key, BodyType.MSG2, message))


# RETRY


def test_a_retry_is_obeyed_with_another_message() -> None:
    client = greet(frames=b"frames")
    retry = Retry(RetryCode.CLOCK, b"12345678", 1_700_000_000)
    payload = build_retry(SERVER_KEY.public.header_key, client.sid, retry)
    assert client.receive(payload) == retry
    again = FirstMessage(
        public=SERVER_KEY.public,
        zone=ZONE,
        wall=retry.time,
        frames=b"frames",
        capacity=38,
        cookie=RetryCookie(retry.cookie, client.sid),
        entropy=FixedEntropy("again"),
    )
    claims = opened(again).claims
    assert claims.time == retry.time
    assert claims.cookie == (retry.cookie, client.sid)
    # The first message may still be welcomed by a server that wasn't busy.
    assert client.receive(answered(client)) is not None


def test_a_retry_for_another_message_says_nothing() -> None:
    retry = Retry(RetryCode.BUSY, b"12345678", 0)
    payload = build_retry(SERVER_KEY.public.header_key, b"abcd", retry)
    assert greet().receive(payload) is None


# Clocks


@pytest.mark.parametrize(
    ("wall", "claimed", "error"),
    [
        (1_800_000_000.0, 1_800_000_000, 0.0),
        (1_800_000_000.5, 1_800_000_090, 89.5),
        (1_800_000_000.5, 1_799_999_910, -90.5),
        (2**32 + 5.0, 5, 0.0),
        (2**32 + 5.0, 2**32 - 5, -10.0),
        (2**32 - 5.0, 5, 10.0),
        (0.0, 2**32 - 1, -1.0),
    ],
)
def test_a_clock_s_error_is_told_over_the_wrap(wall: float, claimed: int, error: float) -> None:
    assert clock_error(claimed, wall) == error


def test_a_client_far_in_the_future_can_speak() -> None:
    client = FirstMessage(
        public=SERVER_KEY.public,
        zone=ZONE,
        wall=2.0**32 + 7,
        frames=b"",
        capacity=38,
        entropy=FixedEntropy("client"),
    )
    assert opened(client).claims.time == 7


def test_both_ends_of_a_pair_agree() -> None:
    client, server = pair()
    assert client.sid == server.sid
