from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.proxy._http import HttpServer
from racer.proxy._requests import Refusal, Spoken
from racer.proxy._socks5 import Socks5Server
from tests.racer.proxy.machines import split, talk


def test_the_first_octet_tells_the_protocol() -> None:
    assert isinstance(talk([b"\x05"]).machine, Socks5Server)
    for first in (b"C", b"G", b"p"):
        assert isinstance(talk([first]).machine, HttpServer)


@pytest.mark.parametrize(
    ("data", "said", "words"),
    [
        (b"\x04\x01\x00\x50\x00\x00\x00\x01\x00news.example\x00", b"\x00\x5b" + bytes(6), "SOCKS4"),
        (b"\x16\x03\x01\x02\x00\x01", b"HTTP/1.1 400 Bad Request\r\n", "TLS with the proxy itself"),
        (b"\x80\x2e\x01", b"HTTP/1.1 400 Bad Request\r\n", "TLS"),
        (b"\x00", b"HTTP/1.1 400 Bad Request\r\n", "first octet 0x00"),
        (b"\r\n", b"HTTP/1.1 400 Bad Request\r\n", "first octet 0x0d"),
        (b"\xff\xfb\x01", b"HTTP/1.1 400 Bad Request\r\n", "neither SOCKS5 nor HTTP"),
    ],
)
def test_what_is_not_spoken_here_is_refused_in_words(data: bytes, said: bytes, words: str) -> None:
    for pieces in ([data], split(data)):
        heard = talk(pieces)
        (event,) = heard.events
        assert isinstance(event, Refusal)
        assert event.spoken is Spoken.UNKNOWN
        assert event.is_final
        assert words in event.words
        assert heard.said.startswith(said)


@given(st.binary(min_size=1, max_size=400))
def test_garbage_never_raises_and_is_the_same_however_it_is_cut(data: bytes) -> None:
    whole, cut = talk([data], pages=True), talk(split(data), pages=True)
    assert whole.events == cut.events
    assert whole.said == cut.said
