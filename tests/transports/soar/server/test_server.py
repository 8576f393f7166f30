from __future__ import annotations

from tests.transports.soar.server.scripted import TARGET, Desk, Script
from transports.soar.core.crypto import Status, Terms
from transports.soar.core.server import events
from transports.soar.core.streams.frames import Opened, StreamData


def test_a_stream_is_echoed() -> None:
    desk = Desk()
    client = Script(desk)
    terms = client.shake()
    assert isinstance(terms, Terms)
    assert terms.status is Status.WELCOME
    client.exchange(StreamData(0, 0, TARGET.to_wire()[:10], False))
    client.exchange(StreamData(0, 10, TARGET.to_wire()[10:], False))
    ((stream, target),) = desk.of(events.StreamOpened)
    assert target == TARGET
    stream.opened()
    stream.write(b"hello")
    said = client.exchange()
    assert Opened(0) in said.frames
    assert StreamData(0, 0, b"hello", False) in said.frames
