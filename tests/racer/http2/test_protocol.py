"""The client's side of HTTP/2 without IO, against h2's own server side."""

from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError, RemoteProtocolError
from racer.http2 import HTTP2Protocol, Stream, StreamFailure
from racer.http2._protocol import CONNECTION_WINDOW, FIRST_STREAMS, STREAM_WINDOW
from tests.racer.http2.test_frames import frame, goaway

FIELDS = [
    (b":method", b"GET"),
    (b":authority", b"example.com"),
    (b":scheme", b"https"),
    (b":path", b"/"),
]
CODES = h2.settings.SettingCodes


class Pair:
    """A client, and h2's server at the other end of a wire that loses nothing."""

    def __init__(self, **settings: int) -> None:
        self.client = HTTP2Protocol()
        self.server = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.server.initiate_connection()
        if settings:
            self.server.update_settings(
                {getattr(CODES, name): value for name, value in settings.items()}
            )
        self.events: list[Any] = []
        self.woken: list[int] = []
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes both ways until there are none."""
        while True:
            out, back = self.client.bytes_to_send(), self.server.data_to_send()
            if not out and not back:
                return
            if out:
                self.events += self.server.receive_data(out)
            if back:
                self.client.receive_data(back)

    def open(self, **options: Any) -> Stream:
        stream = self.client.open(FIELDS, lambda: self.woken.append(stream.id), **options)
        self.exchange()
        return stream

    def respond(self, stream: Stream, data: bytes = b"", *, end: bool = True) -> None:
        self.server.send_headers(stream.id, [(":status", "200")], end_stream=end and not data)
        self.server_sends(stream, data, end=end)

    def server_sends(self, stream: Stream, data: bytes, *, end: bool = False) -> None:
        while data:
            room = min(16_384, self.server.local_flow_control_window(stream.id), len(data))
            assert room, "the client's window is full"
            self.server.send_data(stream.id, data[:room], end_stream=end and room == len(data))
            data = data[room:]
        self.exchange()

    def seen(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def test_a_request_and_its_response() -> None:
    pair = Pair()
    stream = pair.open()
    assert pair.client.send(stream, memoryview(b"question")) == 8
    pair.client.end_upload(stream)
    pair.exchange()
    assert [event.data for event in pair.seen(h2.events.DataReceived)] == [b"question", b""]
    pair.respond(stream, b"answer")
    assert stream.headers == [(b":status", b"200")]
    assert pair.client.take(stream) == b"answer"
    assert (stream.is_ended, stream.is_closed, pair.client.streams) == (True, True, {})
    assert set(pair.woken) == {stream.id}


def test_push_is_off_and_windows_are_wide() -> None:
    pair = Pair()
    settings = pair.seen(h2.events.RemoteSettingsChanged)[0].changed_settings
    assert settings[CODES.ENABLE_PUSH].new_value == 0
    assert settings[CODES.INITIAL_WINDOW_SIZE].new_value == STREAM_WINDOW
    assert pair.server.outbound_flow_control_window == CONNECTION_WINDOW


def test_a_cancelled_stream_is_reset_and_its_place_is_free_at_once() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=1)
    for _ in range(200):
        stream = pair.open(end_upload=True)
        assert not pair.client.can_open
        pair.client.cancel(stream)
        pair.client.cancel(stream)
        assert pair.client.can_open
        pair.exchange()
    assert len(pair.seen(h2.events.StreamReset)) == 200
    assert {e.error_code for e in pair.seen(h2.events.StreamReset)} == {h2.errors.ErrorCodes.CANCEL}


def test_what_still_comes_for_a_cancelled_stream_does_not_use_up_the_connection() -> None:
    """Flow control counts it (RFC 9113 §6.9): a client that forgets to give it back stalls for ever."""
    pair = Pair()
    for _ in range(40):
        stream = pair.open(end_upload=True)
        pair.server.send_headers(stream.id, [(":status", "200")])
        pair.client.cancel(stream)
        pair.client.bytes_to_send()  # the reset is lost on the way for now
        for _ in range(50):
            pair.server.send_data(stream.id, b"x" * 16_384)
        pair.exchange()
    assert pair.server.outbound_flow_control_window > STREAM_WINDOW


def test_a_stream_that_nobody_reads_holds_its_own_window_and_no_other() -> None:
    pair = Pair()
    unread = [pair.open(end_upload=True) for _ in range(30)]
    for stream in unread:
        pair.respond(stream, b"x" * STREAM_WINDOW, end=False)
        assert pair.server.local_flow_control_window(stream.id) == 0
    read = pair.open(end_upload=True)
    pair.respond(read, b"y" * STREAM_WINDOW, end=False)
    for stream in [read, *unread]:
        assert len(pair.client.take(stream)) == STREAM_WINDOW
        pair.exchange()
        assert pair.server.local_flow_control_window(stream.id) == STREAM_WINDOW


def test_an_upload_goes_as_far_as_the_windows_and_on_when_they_open() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=10)
    stream = pair.open()
    data = memoryview(b"0123456789abcdef")
    assert pair.client.send(stream, data) == 10
    assert pair.client.send(stream, data[10:]) == 0
    pair.exchange()
    pair.woken.clear()
    pair.server.increment_flow_control_window(100, stream.id)
    pair.exchange()
    assert pair.woken == [stream.id]
    assert pair.client.send(stream, data[10:]) == 6


def test_as_many_streams_as_the_peer_takes() -> None:
    assert HTTP2Protocol().max_streams == FIRST_STREAMS
    pair = Pair(MAX_CONCURRENT_STREAMS=2)
    assert pair.client.max_streams == 2
    pair.open()
    assert pair.client.can_open
    pair.open()
    assert not pair.client.can_open
    pair.server.update_settings({CODES.MAX_CONCURRENT_STREAMS: 3})
    pair.exchange()
    assert pair.client.can_open


# --- how streams end before their time ------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (h2.errors.ErrorCodes.REFUSED_STREAM, StreamFailure.UNPROCESSED),
        (h2.errors.ErrorCodes.INTERNAL_ERROR, StreamFailure.RESET),
        (h2.errors.ErrorCodes.NO_ERROR, StreamFailure.RESET),
        (0xBAD, StreamFailure.RESET),
    ],
)
def test_a_reset_says_whether_the_request_was_acted_on(code: Any, failure: StreamFailure) -> None:
    pair = Pair()
    stream = pair.open(end_upload=True)
    pair.server.reset_stream(stream.id, code)
    pair.exchange()
    assert stream.failure is failure
    assert "reset" in stream.reason
    assert pair.client.streams == {}


def test_a_complete_answer_before_the_requests_end_is_no_failure() -> None:
    pair = Pair()
    stream = pair.open()
    pair.respond(stream, b"413 enough")
    pair.server.reset_stream(stream.id, h2.errors.ErrorCodes.NO_ERROR)
    pair.exchange()
    assert (stream.failure, stream.is_ended) == (None, True)
    assert pair.client.send(stream, memoryview(b"more")) == 0
    pair.client.end_upload(stream)
    assert pair.client.take(stream) == b"413 enough"


def test_goaway_lets_accepted_streams_end_and_refuses_later_ones() -> None:
    """RFC 9113 §6.8. h2 by itself would refuse every frame behind it."""
    pair = Pair()
    first, second, third = (pair.open(end_upload=True) for _ in range(3))
    pair.client.receive_data(goaway(second.id, 0, b"rolling restart"))
    assert third.failure is StreamFailure.UNPROCESSED
    assert (first.failure, second.failure) == (None, None)
    assert (pair.client.is_leaving, pair.client.is_ended, pair.client.can_open) == (
        True,
        False,
        False,
    )
    pair.respond(first, b"still")
    pair.respond(second, b"here")
    assert (pair.client.take(first), pair.client.take(second)) == (b"still", b"here")
    assert "NO_ERROR" in pair.client.reason


def test_goaway_may_come_twice() -> None:
    """A graceful server says 2**31-1 first (RFC 9113 §6.8)."""
    pair = Pair()
    stream = pair.open(end_upload=True)
    pair.client.receive_data(goaway(2**31 - 1, 0))
    assert (stream.failure, pair.client.is_leaving) == (None, True)
    pair.client.receive_data(goaway(0, 2))
    assert stream.failure is StreamFailure.UNPROCESSED


def test_the_end_of_the_connection_is_the_end_of_its_streams() -> None:
    pair = Pair()
    stream = pair.open(end_upload=True)
    pair.client.fail("cut")
    pair.client.fail("twice")
    assert (stream.failure, stream.reason) == (StreamFailure.CONNECTION, "cut")
    assert not pair.client.can_open
    pair.client.cancel(stream)
    pair.client.end_upload(stream)
    assert pair.client.bytes_to_send() == b""


def test_a_goodbye_is_said() -> None:
    pair = Pair()
    pair.client.say_goodbye()
    pair.client.say_goodbye()
    pair.events += pair.server.receive_data(pair.client.bytes_to_send())
    assert len(pair.seen(h2.events.ConnectionTerminated)) == 1


# --- misbehaviour ---------------------------------------------------------------------------------


def test_fields_that_no_request_can_have_are_ours_and_end_nobody_elses_request() -> None:
    pair = Pair()
    before = pair.open(end_upload=True)
    wrong = [*FIELDS, (b"learnt", b"by the compressor"), (b":bogus", b"pseudo")]
    with pytest.raises(LocalProtocolError):
        pair.client.open(wrong, lambda: None)
    # The peer did not hear what the compressor has learnt, so nothing more may be compressed for it.
    assert not pair.client.can_open
    pair.respond(before, b"unhurt")
    assert pair.client.take(before) == b"unhurt"


@pytest.mark.parametrize(
    "bad",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(0, b"data on no stream"),
        frame(5, b"\0\0\0\2", stream=1, flags=4),
        frame(4, b"\0" * 5),
        frame(8, b"\0\0\0\0"),
        frame(7, b""),
    ],
)
def test_a_peer_that_breaks_the_rules_is_told_and_left(bad: bytes) -> None:
    pair = Pair()
    stream = pair.open(end_upload=True)
    with pytest.raises(RemoteProtocolError, match="rules of HTTP/2"):
        pair.client.receive_data(bad)
    assert stream.failure is StreamFailure.CONNECTION
    assert pair.client.is_ended


def test_headers_beyond_bounds_are_refused() -> None:
    pair = Pair()
    stream = pair.open(end_upload=True)
    pair.server.send_headers(stream.id, [(":status", "200"), ("x", "y" * 16_000)])
    with pytest.raises(RemoteProtocolError):
        for _ in range(6):
            other = pair.client.open(FIELDS, lambda: None, end_upload=True)
            pair.server.receive_data(pair.client.bytes_to_send())
            pair.server.send_headers(
                other.id, [(":status", "200"), *((f"x{n}", "y" * 15_000) for n in range(5))]
            )
            pair.client.receive_data(pair.server.data_to_send())


@given(st.binary(max_size=400), st.lists(st.integers(1, 50), max_size=10))
def test_garbage_ends_in_the_one_error_or_in_nothing(data: bytes, sizes: list[int]) -> None:
    pair = Pair()
    stream = pair.open(end_upload=True)
    try:
        for size in [*sizes, len(data)]:
            piece, data = data[:size], data[size:]
            pair.client.receive_data(piece)
    except RemoteProtocolError:
        assert pair.client.is_ended
        assert stream.failure is not None
    pair.client.bytes_to_send()


frames = st.builds(
    frame,
    st.integers(0, 10),
    st.binary(max_size=30),
    stream=st.sampled_from([0, 1, 2, 3, 5]),
    flags=st.integers(0, 255),
)


@given(st.lists(frames, max_size=12))
def test_frames_in_any_order_end_so_too(chosen: list[bytes]) -> None:
    pair = Pair()
    streams = [pair.open(end_upload=bool(n % 2)) for n in range(3)]
    try:
        for each in chosen:
            pair.client.receive_data(each)
            for stream in streams:
                pair.client.take(stream)
                pair.client.send(stream, memoryview(b"more"))
    except RemoteProtocolError:
        assert all(stream.failure or stream.is_closed for stream in streams)
    for stream in streams:
        pair.client.cancel(stream)
    pair.client.bytes_to_send()
    assert pair.client.streams == {}
