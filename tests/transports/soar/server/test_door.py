"""First messages: from fragments to a welcome, a refusal, or another try (SPEC 7)."""

from __future__ import annotations

import itertools

import pytest

from tests.transports.soar.server.scripted import (
    KEY,
    OTHER_ZONE,
    TARGET,
    ZONE,
    Desk,
    Script,
)
from transports.soar.core.crypto import (
    EndCode,
    Grant,
    Retry,
    RetryCode,
    RetryCookie,
    Status,
    Terms,
)
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.messages import QType, Rcode
from transports.soar.core.dns.zone import Zones
from transports.soar.core.server.admission import (
    HANDSHAKES_BEFORE_COOKIES,
    HANDSHAKES_BEFORE_SILENCE,
)
from transports.soar.core.server.credentials import IssuedGrant
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import StreamData

GRANT = Grant(id=b"grant1", secret=bytes(range(32)))
SYN = StreamData(0, 0, TARGET.to_wire(), False)


def refused(client: Script, **options: Source) -> Status | RetryCode | None:
    said = client.shake(**options)
    if isinstance(said, Retry):
        return said.code
    return None if said is None else said.status


def test_any_fragment_of_the_flight_is_answered_with_the_same_welcome() -> None:
    desk = Desk()
    client = Script(desk)
    questions = client.flight()
    said = [desk.ask(question) for question in questions]
    assert [len(messages) for messages in said] == [0] * (len(questions) - 1) + [len(questions)]
    payloads = {client.read(message).payload for message in said[-1]}
    assert len(payloads) == 1
    terms = client.take_welcome(said[-1][0])
    assert isinstance(terms, Terms)
    assert terms.status is Status.WELCOME
    assert not terms.early_refused
    assert terms.idle_timeout == 120.0
    assert (terms.max_streams, terms.stream_window, terms.session_window) == (
        128,
        256 << 10,
        1 << 20,
    )
    assert terms.status_key == KEY.status_key(client.sid)
    assert terms.time == int(desk.now.wall)


@pytest.mark.parametrize("form", list(Form))
def test_the_welcome_comes_in_the_form_that_was_asked_for(form: Form) -> None:
    client = Script(Desk(), form=form)
    assert isinstance(client.shake(), Terms)


def test_a_first_message_may_come_in_one_long_name() -> None:
    desk = Desk()
    client = Script(desk)
    (question,) = client.flight(number=4, form=Form.TXT)
    (message,) = desk.ask(question)
    assert isinstance(client.take_welcome(message), Terms)


def test_later_copies_and_later_flights_get_the_same_octets() -> None:
    desk = Desk()
    client = Script(desk)
    client.shake()
    first = client.terms
    desk.wait(5.0)
    for question in client.flight() + client.flight(number=4):
        (message,) = desk.ask(question)
        assert client.take_welcome(message) is first
    assert len(desk.server.sids()) == 1


def test_early_fragments_wait_25_ms_and_are_then_answered_empty() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    first, second, *rest = client.flight()
    began = desk.time
    assert desk.ask(first) == []
    desk.wait(0.01)
    assert desk.ask(second) == []
    desk.wait(1.0)
    times = [time - began for time, _, _ in desk.said]
    assert times == pytest.approx([0.025, 0.035])
    for _, _, message in desk.said:
        assert client.read(message).rcode == Rcode.NOERROR
        assert client.read(message).payload is None
    (message,) = itertools.chain.from_iterable(desk.ask(question) for question in rest)
    assert isinstance(client.take_welcome(message), Terms)


def test_a_probe_brings_its_piece_and_gets_nothing() -> None:
    desk = Desk()
    client = Script(desk, form=Form.TXT)
    packets = client.first.fragments(38, form=Form.TXT, entropy=client.dice)
    names = [client.name(packet) for packet in packets]
    for name in names:
        (message,) = desk.ask(client.question(name, Form.TXT, qtype=QType.A))
        assert client.read(message).payload is None
    assert len(desk.server.sids()) == 1
    (message,) = desk.ask(client.question(names[0], Form.TXT))
    assert isinstance(client.take_welcome(message), Terms)


def test_whoever_does_not_know_the_public_key_gets_nothing_from_the_door() -> None:
    desk = Desk()
    client = Script(desk)
    packets = client.first.fragments(38, form=Form.DS, entropy=client.dice)
    for packet in packets:
        forged = bytes([packet[0]]) + packet[1:10] + bytes([packet[10] ^ 1]) + packet[11:]
        (message,) = desk.ask(client.question(client.name(forged), Form.DS))
        assert client.read(message).payload is None
    assert desk.server.status(desk.now).handshakes["junk"] == len(packets)
    assert desk.server.status(desk.now).in_part == 0


def test_a_first_message_is_for_one_zone() -> None:
    desk = Desk(zones=Zones((ZONE, OTHER_ZONE)))
    client = Script(desk)  # its message is bound to ZONE
    packets = client.first.fragments(38, form=Form.DS, entropy=client.dice)
    for packet in packets:
        desk.ask(client.question(client.name(packet, zone=OTHER_ZONE), Form.DS))
    desk.wait(0.1)
    assert desk.server.sids() == []
    assert isinstance(client.shake(), Terms)


# --- time -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skew", "said"),
    [
        (0, Status.WELCOME),
        (89, Status.WELCOME),
        (-90, Status.WELCOME),
        (92, RetryCode.CLOCK),
        (-92, RetryCode.CLOCK),
    ],
)
def test_a_clock_that_is_off_is_asked_to_try_again(skew: int, said: object) -> None:
    desk = Desk()
    client = Script(desk, wall=desk.now.wall + skew)
    assert refused(client) is said


def test_a_client_with_a_wrong_clock_gets_in_with_the_servers() -> None:
    desk = Desk()
    client = Script(desk, wall=1.0)
    retry = client.shake()
    assert isinstance(retry, Retry)
    assert retry.time == int(desk.now.wall)
    cookie = RetryCookie(retry.cookie, client.sid)
    again = Script(desk, seed="again", wall=float(retry.time), cookie=cookie)
    assert refused(again) is Status.WELCOME


@pytest.mark.parametrize(("uptime", "executed"), [(0.0, False), (90.0, False), (91.0, True)])
def test_soon_after_the_start_first_frames_are_not_executed(uptime: float, executed: bool) -> None:
    desk = Desk(uptime=uptime)
    client = Script(desk, SYN)
    client.shake()
    assert client.terms is not None
    assert client.terms.early_refused is not executed
    assert len(desk.streams) == executed
    # Data packets are executed in any case.
    client.exchange(StreamData(1, 0, TARGET.to_wire(), False), name_class=4)
    assert len(desk.streams) == executed + 1


@pytest.mark.parametrize(
    ("uptime", "known_for"), [(0.0, 0.0), (12.25, 12.25), (90.5, 90.5), (3600.0, 180.0)]
)
def test_a_welcome_says_back_to_when_first_messages_are_known(
    uptime: float, known_for: float
) -> None:
    desk = Desk(uptime=uptime)
    client = Script(desk, SYN)
    client.shake()
    assert client.terms is not None
    assert client.terms.known_for == known_for


def test_so_does_a_refusal_since_an_earlier_process_may_have_welcomed_the_same_message() -> None:
    desk = Desk(uptime=5.0)
    client = Script(desk, SYN)
    desk.server.shutdown(desk.now)
    assert refused(client) is Status.SHUTTING_DOWN
    assert client.terms is not None
    assert client.terms.known_for == 5.0


def after_retry(desk: Desk, cookie: RetryCookie) -> Terms:
    again = Script(desk, SYN, seed="again", cookie=cookie)
    again.shake()
    assert again.terms is not None
    assert again.terms.status is Status.WELCOME
    return again.terms


class TestAfterARetry:
    """The message before may have been executed, since anybody with the public key can forge a RETRY (SPEC 7.7)."""

    @pytest.mark.parametrize("skew", [500, -500, -100_000])
    def test_frames_are_executed_if_the_cookie_proves_that_they_were_not_before(
        self, skew: int
    ) -> None:
        desk = Desk()
        client = Script(desk, SYN, wall=desk.now.wall + skew)
        retry = client.shake()
        assert isinstance(retry, Retry)
        terms = after_retry(desk, RetryCookie(retry.cookie, client.sid))
        assert not terms.early_refused
        assert len(desk.streams) == 1

    def test_what_a_forged_one_answered_is_not_executed_again(self) -> None:
        desk = Desk()
        client = Script(desk, SYN)
        client.shake()
        assert len(desk.streams) == 1
        terms = after_retry(desk, RetryCookie(b"a cookie", client.sid))
        assert (terms.early_refused, terms.known_for) == (True, 0.0)
        assert len(desk.streams) == 1

    def test_what_the_process_before_may_have_executed_is_not_executed_again(self) -> None:
        """Its clock is fast: the message is of the time before the start, the next one would not be."""
        desk = Desk()
        desk.restart()
        desk.wait(2.0)
        client = Script(desk, SYN, wall=desk.now.wall - 100)
        retry = client.shake()
        assert isinstance(retry, Retry)
        desk.wait(100.0)
        terms = after_retry(desk, RetryCookie(retry.cookie, client.sid))
        assert (terms.early_refused, terms.known_for) == (True, 102.0)
        assert desk.streams == []

    def test_a_cookie_of_the_process_before_proves_nothing(self) -> None:
        desk = Desk()
        client = Script(desk, SYN, wall=desk.now.wall + 500)
        retry = client.shake()
        assert isinstance(retry, Retry)
        desk.restart()
        desk.wait(100.0)
        terms = after_retry(desk, RetryCookie(retry.cookie, client.sid))
        assert (terms.early_refused, terms.known_for) == (True, 0.0)


# --- replays --------------------------------------------------------------------------------


def test_a_session_that_was_is_not_made_again() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    flight = client.flight()
    for question in flight:
        desk.ask(question)
    assert len(desk.streams) == 1
    desk.server.end(client.sid, EndCode.OPERATOR, desk.now)
    for _ in range(3):
        for question in flight:
            (message,) = desk.ask(question)
            assert client.read(message).payload is None
        desk.wait(30.0)
    assert desk.server.sids() == []
    assert len(desk.streams) == 1


def test_one_that_was_never_confirmed_is_not_made_again_either() -> None:
    desk = Desk()
    client = Script(desk)  # no frames, so its end leaves no tombstone
    client.shake()
    desk.wait(40.0)
    assert desk.server.sids() == []
    assert desk.server.status(desk.now).tombstones == 0
    assert refused(client) is None


def test_one_that_was_refused_gets_the_same_refusal_and_never_a_session() -> None:
    desk = Desk(needs_grant=True)
    client = Script(desk, SYN)
    flight = client.flight()
    said = [message for question in flight for message in desk.ask(question)]
    desk.server.set_grants([], desk.now)
    again = [message for question in flight for message in desk.ask(question)]
    assert {client.read(message).payload for message in said} == {
        client.read(message).payload for message in again
    }
    desk.wait(10.0)
    assert refused(client) is None
    assert desk.streams == []


def test_one_that_was_asked_for_a_cookie_never_makes_a_session() -> None:
    desk = Desk()
    for _ in range(HANDSHAKES_BEFORE_COOKIES):
        assert desk.server._door._free.take(desk.now)
    client = Script(desk, SYN)
    assert refused(client) is RetryCode.BUSY
    desk.wait(5.0)  # no longer busy
    assert refused(client) is RetryCode.BUSY
    desk.wait(5.0)
    assert refused(client) is None
    assert desk.streams == []


def test_a_flight_recorded_before_a_restart_opens_nothing_after_it() -> None:
    desk = Desk()
    client = Script(desk, SYN)
    flight = client.flight()
    for question in flight:
        desk.ask(question)
    assert len(desk.streams) == 1
    desk.restart()
    for delay in (0.0, 30.0, 59.0, 5.0, 100.0):
        desk.wait(delay)
        for question in flight:
            desk.ask(question)
    desk.wait(20.0)
    assert len(desk.streams) == 1
    assert desk.server.sids() == []


# --- load -----------------------------------------------------------------------------------


def test_above_500_a_second_a_cookie_is_asked_for_and_works_once() -> None:
    desk = Desk()
    for number in range(HANDSHAKES_BEFORE_COOKIES):
        if number % 50 == 0:
            assert refused(Script(desk, seed=str(number))) is Status.WELCOME
        else:
            assert desk.server._door._free.take(desk.now)
    client = Script(desk, seed="late")
    retry = client.shake()
    assert isinstance(retry, Retry)
    assert retry.code is RetryCode.BUSY
    cookie = RetryCookie(retry.cookie, client.sid)
    wrong = RetryCookie(retry.cookie, b"sid?")
    assert refused(Script(desk, seed="wrong", cookie=wrong)) is RetryCode.BUSY
    assert refused(Script(desk, seed="good", cookie=cookie)) is Status.WELCOME
    assert refused(Script(desk, seed="greedy", cookie=cookie)) is RetryCode.BUSY
    desk.wait(1.0)
    assert refused(Script(desk, seed="next second")) is Status.WELCOME


def test_above_2000_a_second_fragments_are_answered_empty_and_can_come_again() -> None:
    desk = Desk()
    door = desk.server._door
    for _ in range(HANDSHAKES_BEFORE_SILENCE):
        assert door._any.take(desk.now)
    client = Script(desk)
    flight = client.flight()
    said = [message for question in flight for message in desk.ask(question)]
    assert len(said) == len(flight)
    assert all(client.read(message).payload is None for message in said)
    assert desk.server.status(desk.now).handshakes["unheard"] == 1
    desk.wait(1.0)
    assert refused(client) is Status.WELCOME


# --- the order of checks (racing.md 5.3 C; SPEC 17.1) -------------------------------------------

FULL = {"max_sessions": 1}

ORDER = {
    "ended": None,  # a name that is known to have been: nothing is said, whatever else is true
    "clock": RetryCode.CLOCK,
    "unknown grant": Status.GRANT_REJECTED,
    "revoked grant": Status.GRANT_REVOKED,
    "expired grant": Status.GRANT_EXPIRED,
    "false proof": Status.GRANT_REJECTED,
    "shutting down": Status.SHUTTING_DOWN,
    "full": Status.CAPACITY,
}
GRANT_FAULTS = {"unknown grant", "revoked grant", "expired grant", "false proof"}
PAIRS = [
    (first, second)
    for first, second in itertools.combinations(ORDER, 2)
    # A grant that isn't known is neither revoked nor expired, and has no proof that could be false.
    if not (first == "unknown grant" and second in GRANT_FAULTS)
]


def attempt(*faults: str) -> Status | RetryCode | None:
    """Try to begin a session under these circumstances, and return what is said."""
    desk = Desk(needs_grant=True, max_sessions=1)
    now = desk.now
    good = IssuedGrant(grant=GRANT)
    other = Grant(id=b"other1", secret=bytes(32))
    desk.server.set_grants([good, IssuedGrant(grant=other)], now)
    if "full" in faults:
        holder = Script(desk, seed="holder", grant=other)
        holder.shake()
        holder.exchange()
    client = Script(
        desk,
        grant=Grant(id=GRANT.id, secret=bytes(32)) if "false proof" in faults else GRANT,
        wall=1.0 if "clock" in faults else None,
    )
    if "ended" in faults:
        desk.server._keeper.tombstones.add(client.sid, EndCode.OPERATOR, None, now)
    issued = IssuedGrant(
        grant=GRANT,
        is_revoked="revoked grant" in faults,
        expires=now.wall if "expired grant" in faults else None,
    )
    known = [IssuedGrant(grant=other)] + ([] if "unknown grant" in faults else [issued])
    desk.server.set_grants(known, now)
    if "shutting down" in faults:
        desk.server._keeper.is_shutting_down = True
    return refused(client)


def test_without_a_fault_a_session_begins() -> None:
    assert attempt() is Status.WELCOME


@pytest.mark.parametrize("fault", list(ORDER))
def test_each_fault_has_its_own_answer(fault: str) -> None:
    assert attempt(fault) is ORDER[fault]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_faults_the_first_in_order_is_told(first: str, second: str) -> None:
    assert attempt(first, second) is ORDER[first]


def test_a_grant_is_needed_where_none_is_shown() -> None:
    assert refused(Script(Desk(needs_grant=True))) is Status.GRANT_NEEDED


def test_a_server_that_needs_no_grant_looks_at_none() -> None:
    desk = Desk()
    assert refused(Script(desk, grant=GRANT)) is Status.WELCOME


# --- amplification ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", list(Form))
def test_no_answer_of_a_handshake_is_more_than_192_octets_longer_than_its_question(
    form: Form,
) -> None:
    desk = Desk(needs_grant=True)
    for client in (
        Script(desk, form=form),
        Script(desk, form=form, seed="clock", wall=1.0),
    ):
        flight = client.flight()
        for question in flight + flight:
            for message in desk.ask(question):
                assert len(message) <= len(question) + 192


def test_what_is_kept_of_a_flight_is_bounded_by_its_sources_too() -> None:
    desk = Desk(max_sessions=40)
    sources = [Source(bytes([198, 51, number, 1]), 53) for number in range(100)]
    for number, source in enumerate(sources):
        client = Script(desk, seed=str(number))
        assert refused(client, source=source) is Status.WELCOME
    status = desk.server.status(desk.now)
    assert len(status.sessions) == 10
    assert status.tombstones == 0  # nothing was executed for those that gave way
