"""Questions as POSTs over HTTP/2, against a server that is h2's own (RFC 8484)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from transports.soar.carriers.https import HTTPSMachine

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = ((":status", "200"), ("content-type", "application/dns-message"))


class Pair:
    """A machine and a server, joined."""

    def __init__(self, **settings: int) -> None:
        self.machine = HTTPSMachine("dns.example:8443", "/dns-query")
        self.server = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        if settings:
            codes = {h2.settings.SettingCodes[name]: value for name, value in settings.items()}
            self.server.local_settings = h2.settings.Settings(client=False, initial_values=codes)
        self.server.initiate_connection()
        self.requests: dict[int, list[Any]] = {}
        self.bodies: dict[int, bytes] = {}
        self.complete: list[int] = []
        self.answers: list[bytes] = []

    def exchange(self) -> None:
        """Carry octets both ways until nobody has anything to say."""
        while True:
            there, back = self.machine.bytes_to_send(), self.server.data_to_send()
            if not there and not back:
                return
            for event in self.server.receive_data(there) if there else ():
                self._take(event)
            if back:
                self.answers += self.machine.receive_data(back)

    def answer(
        self, stream: int, body: bytes, headers: Iterable[tuple[str, str]] = OK, *, size: int = 99
    ) -> None:
        self.server.send_headers(stream, list(headers))
        pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        for number, piece in enumerate(pieces, 1):
            self.server.send_data(stream, piece, end_stream=number == len(pieces))
            self.exchange()

    def _take(self, event: Any) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=stream, headers=headers):
                self.requests[stream] = headers
                self.bodies[stream] = b""
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=size):
                self.bodies[stream] += data
                self.server.acknowledge_received_data(size, stream)
            case h2.events.StreamEnded(stream_id=stream):
                self.complete.append(stream)
            case _:
                pass


def test_a_question_is_a_post_as_the_rfc_has_it() -> None:
    pair = Pair()
    pair.machine.ask([b"question"])
    pair.exchange()
    assert pair.requests == {
        1: [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "dns.example:8443"),
            (":path", "/dns-query"),
            ("accept", "application/dns-message"),
            ("content-type", "application/dns-message"),
            ("content-length", "8"),
        ]
    }
    assert (pair.bodies, pair.complete) == ({1: b"question"}, [1])


def test_answers_come_in_any_order_and_in_pieces() -> None:
    pair = Pair()
    pair.machine.ask([b"one", b"two", b"three"])
    pair.exchange()
    pair.answer(5, b"third" * 100)
    pair.answer(1, b"first" * 100)
    assert pair.answers == [b"third" * 100, b"first" * 100]


@pytest.mark.parametrize(
    "headers",
    [
        ((":status", "503"), ("content-type", "application/dns-message")),
        ((":status", "200"), ("content-type", "text/html")),
        ((":status", "200"),),
    ],
)
def test_what_is_no_answer_is_dropped(headers: tuple[tuple[str, str], ...]) -> None:
    pair = Pair()
    pair.machine.ask([b"one", b"two"])
    pair.exchange()
    pair.answer(1, b"an error page", headers)
    pair.answer(3, b"answer")
    assert pair.answers == [b"answer"]


def test_the_type_may_have_parameters_and_any_case() -> None:
    pair = Pair()
    pair.machine.ask([b"one"])
    pair.exchange()
    pair.answer(
        1, b"answer", ((":status", "200"), ("content-type", "Application/DNS-Message ; x=y"))
    )
    assert pair.answers == [b"answer"]


def test_no_more_at_once_than_the_server_takes() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=3)
    pair.exchange()
    pair.machine.ask([b"%d" % number for number in range(10)])
    pair.exchange()
    assert sorted(pair.bodies.values()) == [b"0", b"1", b"2"]
    pair.answer(pair.complete[0], b"answer")
    assert sorted(pair.bodies.values()) == [b"0", b"1", b"2", b"3"]


def test_a_reset_frees_its_place() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=1)
    pair.exchange()
    pair.machine.ask([b"one", b"two"])
    pair.exchange()
    pair.server.reset_stream(1, h2.errors.ErrorCodes.REFUSED_STREAM)
    pair.exchange()
    assert pair.bodies[3] == b"two"


def test_a_server_without_room_is_waited_for() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=0)
    pair.exchange()
    pair.machine.ask([b"question", b"another"])
    pair.exchange()
    assert (pair.bodies, pair.complete) == ({1: b""}, [])  # the second waits for the first
    pair.server.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 99})
    pair.exchange()
    assert (pair.bodies, pair.complete) == ({1: b"question", 3: b"another"}, [1, 3])


def test_a_question_goes_in_pieces_as_room_comes() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=4)
    pair.exchange()
    pair.machine.ask([b"a question", b"another"])
    pair.exchange()
    assert (pair.bodies, pair.complete) == ({1: b"a question", 3: b"another"}, [1, 3])


def test_megabytes_of_answers_never_stall() -> None:
    pair = Pair()
    for _ in range(200):
        pair.machine.ask([b"question"])
        pair.exchange()
        pair.answer(pair.complete[-1], bytes(20_000), size=16_000)
    assert pair.answers == [bytes(20_000)] * 200


def test_an_answer_that_is_no_message_s_size_is_dropped() -> None:
    pair = Pair()
    pair.machine.ask([b"one"])
    pair.exchange()
    pair.answer(1, bytes(70_000), size=16_000)
    assert pair.answers == []


def test_the_end_of_a_connection_is_an_error_that_says_so() -> None:
    pair = Pair()
    pair.exchange()
    pair.server.close_connection()
    with pytest.raises(RemoteProtocolError, match=r"going away \(NO_ERROR\)"):
        pair.exchange()


def test_a_server_that_goes_away_still_answers_what_it_took() -> None:
    pair = Pair()
    pair.machine.ask([b"one", b"two", b"three"])
    pair.exchange()
    pair.server.send_headers(1, list(OK))
    pair.server.send_data(1, b"first", end_stream=True)
    assert pair.machine.receive_data(pair.server.data_to_send() + goaway(3)) == [b"first"]
    pair.machine.ask([b"four"])
    assert pair.machine.bytes_to_send() == b""  # it takes no more
    pair.server.send_headers(3, list(OK))
    pair.server.send_data(3, b"second", end_stream=True)
    assert pair.machine.receive_data(pair.server.data_to_send()) == [b"second"]
    with pytest.raises(RemoteProtocolError, match=r"going away \(NO_ERROR\)"):
        pair.machine.receive_data(b"")


def test_a_server_that_goes_away_with_nothing_left_to_answer_has_gone() -> None:
    pair = Pair()
    pair.machine.ask([b"one"])
    pair.exchange()
    with pytest.raises(RemoteProtocolError, match="going away"):
        pair.machine.receive_data(goaway(0))


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (((":status", "403"), ("content-type", "text/html")), "HTTP status 403"),
        (((":status", "200"), ("content-type", "text/html")), "something else"),
    ],
)
def test_what_is_no_answer_is_told_until_there_is_one(
    headers: tuple[tuple[str, str], ...], words: str
) -> None:
    pair = Pair()
    assert not pair.machine.trouble
    pair.machine.ask([b"one", b"two"])
    pair.exchange()
    pair.answer(1, b"an error page", headers)
    assert words in pair.machine.trouble
    pair.answer(3, b"answer")
    assert not pair.machine.trouble


def test_a_refused_question_is_told() -> None:
    pair = Pair()
    pair.machine.ask([b"one"])
    pair.exchange()
    pair.server.reset_stream(1, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
    pair.exchange()
    assert "ENHANCE_YOUR_CALM" in pair.machine.trouble


def test_questions_that_wait_are_bounded() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=1)
    pair.exchange()
    pair.machine.ask([b"x"] * 5000)
    assert len(pair.machine._waiting) <= 512


@given(st.binary(max_size=300))
def test_garbage_gives_answers_or_the_one_error(octets: bytes) -> None:
    for prefix in (b"", greeting()):
        machine = HTTPSMachine("dns.example", "/")
        machine.ask([b"question"])
        with suppress(RemoteProtocolError):
            assert machine.receive_data(prefix + octets) == []


def goaway(last: int) -> bytes:
    """Return a GOAWAY that names the last stream that is answered; h2's own would end all (RFC 9113 section 6.8)."""
    return bytes.fromhex("000008 07 00 00000000") + last.to_bytes(4) + bytes(4)


def greeting() -> bytes:
    """Return what a server says first."""
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    server.initiate_connection()
    return server.data_to_send()
