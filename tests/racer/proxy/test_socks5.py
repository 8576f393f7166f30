from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.abc import Target
from racer.proxy._requests import OpenTunnel, Refusal, Reply, Spoken
from racer.proxy._socks5 import Socks5Server, reply
from racer.proxy._users import Users
from tests.racer.proxy.machines import ALICE, ANYBODY, split, talk

HELLO = b"\x05\x01\x00"
NO_AUTH = b"\x05\x00"
LOGIN = b"\x05\x01\x02"


def login(name: bytes, password: bytes) -> bytes:
    return b"\x01" + bytes([len(name)]) + name + bytes([len(password)]) + password


def ask(host: bytes, port: int = 443, *, command: int = 1, kind: int = 3) -> bytes:
    address = bytes([len(host)]) + host if kind == 3 else host
    return bytes([5, command, 0, kind]) + address + port.to_bytes(2, "big")


@pytest.mark.parametrize(
    ("request_", "target"),
    [
        (ask(b"news.example"), "news.example:443"),
        (ask(b"NEWS.example.", 22), "news.example.:22"),
        (
            b"\x05\x01\x00\x03" + b"\x0cm\xc3\xbcnchen.foo" + b"\x00\x50",
            "xn--mnchen-3ya.foo:80",
        ),
        (ask(b"192.0.2.7"), "192.0.2.7:443"),
        (ask(b"[2001:db8::1]"), "[2001:db8::1]:443"),
        (ask(b"\xc0\x00\x02\x07", kind=1), "192.0.2.7:443"),
        (ask(bytes(15) + b"\x01", kind=4), "[::1]:443"),
        (ask(b"a" * 63 + b".example", 65535), f"{'a' * 63}.example:65535"),
    ],
)
def test_a_target_is_understood_however_it_is_cut(request_: bytes, target: str) -> None:
    wanted = OpenTunnel(target=Target.parse(target, tls=False), spoken=Spoken.SOCKS5)
    for pieces in ([HELLO, request_], [HELLO + request_], split(HELLO + request_)):
        heard = talk(pieces)
        assert heard.events == [wanted]
        assert heard.said == NO_AUTH


def test_what_comes_behind_the_request_is_for_the_target() -> None:
    heard = talk([HELLO, ask(b"news.example") + b"\x16\x03\x01 first"])
    assert isinstance(heard.machine, Socks5Server)
    assert heard.machine.leftover == b"\x16\x03\x01 first"
    assert heard.machine.next_event() is None


def test_nothing_is_left_over_before_the_end() -> None:
    machine = Socks5Server(ANYBODY)
    machine.receive_data(HELLO + b"\x05\x01")
    assert machine.next_event() is None
    assert machine.leftover == b""


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (ask(b"news.example", command=2), Reply.COMMAND_NOT_SUPPORTED, "BIND"),
        (ask(b"\0\0\0\0", 0, command=3, kind=1), Reply.COMMAND_NOT_SUPPORTED, "UDP ASSOCIATE"),
        (ask(b"news.example", command=0xF0), Reply.COMMAND_NOT_SUPPORTED, "command 240"),
        (b"\x05\x01\x00\x02\x00", Reply.ADDRESS_TYPE_NOT_SUPPORTED, "type 2"),
        (b"\x04\x01\x00\x03\x00", Reply.GENERAL_FAILURE, "version 4"),
        (ask(b"news.example", 0), Reply.HOST_UNREACHABLE, "port 0"),
        (ask(b""), Reply.HOST_UNREACHABLE, "empty"),
        (ask(b"a..b"), Reply.HOST_UNREACHABLE, "empty label"),
        (ask(b"\xff\xfe"), Reply.HOST_UNREACHABLE, "not UTF-8"),
        (ask(b"http://x/"), Reply.HOST_UNREACHABLE, "URL"),
    ],
)
def test_what_cannot_be_is_answered_with_its_code(request_: bytes, code: Reply, words: str) -> None:
    for pieces in ([HELLO, request_], split(HELLO + request_)):
        heard = talk(pieces)
        (event,) = heard.events
        assert isinstance(event, Refusal)
        assert event.is_final
        assert words in event.words
        assert heard.said == NO_AUTH + reply(code)


def test_a_user_with_the_right_password_gets_in() -> None:
    data = b"\x05\x02\x00\x02" + login(b"alice", b"s3cret") + ask(b"news.example")
    for pieces in ([data], split(data)):
        heard = talk(pieces, users=ALICE)
        assert isinstance(heard.events[0], OpenTunnel)
        assert heard.said == b"\x05\x02\x01\x00"


@pytest.mark.parametrize(
    ("name", "password"),
    [
        (b"alice", b"S3cret"),
        (b"bob", b"s3cret"),
        (b"", b""),
        (b"alice", b""),
        (b"alice", b"s3cret\0"),
    ],
)
def test_a_wrong_credential_is_denied_and_over(name: bytes, password: bytes) -> None:
    heard = talk([LOGIN + login(name, password) + ask(b"news.example")], users=ALICE)
    (event,) = heard.events
    assert isinstance(event, Refusal)
    assert event.is_denied
    assert heard.said == b"\x05\x02\x01\x01"
    if password:
        assert password.decode() not in event.words


def test_no_credential_where_one_is_wanted_is_denied() -> None:
    heard = talk([HELLO], users=ALICE)
    assert isinstance(heard.events[0], Refusal)
    assert heard.events[0].is_denied
    assert heard.said == b"\x05\xff"


def test_a_credential_that_nobody_wants_is_taken() -> None:
    heard = talk([LOGIN + login(b"any", b"thing") + ask(b"news.example")])
    assert isinstance(heard.events[0], OpenTunnel)
    assert heard.said == b"\x05\x02\x01\x00"


def test_no_credential_is_asked_of_who_need_not_give_one() -> None:
    assert talk([b"\x05\x02\x02\x00"]).said == NO_AUTH


@pytest.mark.parametrize(
    ("greeting", "said"),
    [(b"\x05\x00", b"\x05\xff"), (b"\x05\x02\x01\x80", b"\x05\xff")],
)
def test_no_method_that_is_known_is_told_so(greeting: bytes, said: bytes) -> None:
    heard = talk([greeting])
    assert isinstance(heard.events[0], Refusal)
    assert heard.said == said


def test_a_credential_of_another_version_is_refused() -> None:
    heard = talk([LOGIN, b"\x05\x01"], users=ALICE)
    assert isinstance(heard.events[0], Refusal)
    assert heard.said == b"\x05\x02\x01\x01"


def test_several_users_each_have_their_own_password() -> None:
    users = Users({"alice": "1", "bob": "2"})
    for name, password, is_in in [
        (b"alice", b"1", True),
        (b"bob", b"2", True),
        (b"bob", b"1", False),
    ]:
        heard = talk([LOGIN + login(name, password) + ask(b"x.example")], users=users)
        assert isinstance(heard.events[0], OpenTunnel) is is_in


def test_a_password_shows_nowhere() -> None:
    assert "s3cret" not in repr(ALICE)
    assert "s3cret" not in repr(talk([HELLO], users=ALICE).machine)


@given(st.binary(max_size=600), st.booleans())
def test_garbage_gives_an_event_or_nothing_however_it_is_cut(data: bytes, guarded: bool) -> None:
    users = ALICE if guarded else ANYBODY
    whole, cut = talk([b"\x05" + data], users=users), talk(split(b"\x05" + data), users=users)
    assert whole.events == cut.events
    assert whole.said == cut.said
    assert len(whole.events) <= 1
