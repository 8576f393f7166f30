"""The SOCKS5 machine: RFC 1928 and 1929 octet by octet, every reply, and whatever else may come."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import (
    ConfigError,
    CredentialRejected,
    ErrorType,
    LocalProtocolError,
    ProxyRefused,
    RemoteProtocolError,
    Severity,
    Stage,
    classify,
    error_type_of,
)
from tests.transports.proxy.machines import converse, pieces, ways_to_cut
from transports.proxy._credential import Credential
from transports.proxy._socks5 import Socks5Client

PROXY = "SOCKS5 proxy p:1080"
ALICE = Credential(b"alice", b"secret")

BOUND = {
    "ipv4": b"\x01\x7f\x00\x00\x01\x04\x38",
    "ipv6": b"\x04" + bytes(15) + b"\x01\x04\x38",
    "name": b"\x03\x05proxy\x04\x38",
    "empty name": b"\x03\x00\x04\x38",
    "longest name": b"\x03\xff" + b"n" * 255 + b"\x04\x38",
}
TURNS = {
    "open": (None, [b"\x05\x00"]),
    "password not asked for": (ALICE, [b"\x05\x00"]),
    "password": (ALICE, [b"\x05\x02", b"\x01\x00"]),
}


def client(
    host: str = "target.example", port: int = 443, credential: Credential | None = None
) -> Socks5Client:
    return Socks5Client(host, port, credential=credential, proxy=PROXY)


# --- what is sent -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "port", "request_bytes"),
    [
        ("target.example", 443, b"\x05\x01\x00\x03\x0etarget.example\x01\xbb"),
        ("xn--bcher-kva.example.", 80, b"\x05\x01\x00\x03\x16xn--bcher-kva.example.\x00\x50"),
        ("192.0.2.1", 65535, b"\x05\x01\x00\x01\xc0\x00\x02\x01\xff\xff"),
        ("2001:db8::1", 1, b"\x05\x01\x00\x04 \x01\x0d\xb8" + bytes(11) + b"\x01\x00\x01"),
        ("n" * 255, 443, b"\x05\x01\x00\x03\xff" + b"n" * 255 + b"\x01\xbb"),
    ],
)
def test_a_request_names_the_target(host: str, port: int, request_bytes: bytes) -> None:
    machine = client(host, port)
    assert machine.bytes_to_send() == b"\x05\x01\x00"
    machine.receive_data(b"\x05\x00")
    assert machine.bytes_to_send() == request_bytes
    assert machine.bytes_to_send() == b""


def test_a_credential_is_offered_and_sent_only_when_asked_for() -> None:
    machine = client(credential=ALICE)
    sent = converse(machine, [b"\x05\x02", b"\x01\x00"])
    assert sent == [b"\x05\x02\x00\x02", b"\x01\x05alice\x06secret"]
    assert machine.bytes_to_send().startswith(b"\x05\x01\x00")

    machine = client(credential=ALICE)
    assert converse(machine, [b"\x05\x00"]) == [b"\x05\x02\x00\x02"]
    assert machine.bytes_to_send().startswith(b"\x05\x01\x00\x03")


def test_the_longest_credential_fits() -> None:
    machine = client(credential=Credential(b"u" * 255, b"p" * 255))
    converse(machine, [b"\x05\x02"])
    assert machine.bytes_to_send() == b"\x01\xff" + b"u" * 255 + b"\xff" + b"p" * 255


@pytest.mark.parametrize(
    ("host", "port", "credential", "words"),
    [
        ("n" * 256, 443, None, "256 octets"),
        ("", 443, None, "0 octets"),
        ("bücher.example", 443, None, "ASCII"),
        ("fe80::1%eth0", 443, None, "interface"),
        ("target.example", 0, None, "port 0"),
        ("target.example", 65536, None, "port 65536"),
        ("target.example", 443, Credential(b"", b"x"), "username: empty"),
        ("target.example", 443, Credential(b"u" * 256, b"x"), "username: 256 octets"),
        ("target.example", 443, Credential(b"u", b"x" * 256), "password: 256 octets"),
    ],
)
def test_what_socks_cannot_carry_is_refused_before_any_io(
    host: str, port: int, credential: Credential | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        client(host, port, credential)


# --- yes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", BOUND.values(), ids=BOUND)
@pytest.mark.parametrize(("credential", "turns"), TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("first", [b"", b"SSH-2.0-x\r\n"])
def test_a_reply_cut_anywhere_is_a_yes_and_what_follows_is_the_targets(
    credential: Credential | None, turns: list[bytes], bound: bytes, first: bytes
) -> None:
    reply = b"\x05\x00\x00" + bound + first
    for cuts in ways_to_cut(reply):
        machine = client(credential=credential)
        converse(machine, turns, cuts=[1])
        machine.bytes_to_send()
        late = b""
        for part in pieces(reply, cuts):
            if machine.is_done:  # the stream is no longer the machine's
                late += part
            else:
                machine.receive_data(part)
        assert machine.is_done
        assert machine.leftover + late == first


def test_the_reserved_octet_is_ignored() -> None:
    machine = client()
    converse(machine, [b"\x05\x00", b"\x05\x00\xee" + BOUND["ipv4"]])
    assert machine.is_done


def test_there_is_no_leftover_before_the_end() -> None:
    machine = client()
    converse(machine, [b"\x05\x00", b"\x05\x00\x00\x01\x7f"])
    assert not machine.is_done
    assert machine.leftover == b""


# --- no ---------------------------------------------------------------------------------------

REPLIES = {
    0x01: (ErrorType.OTHER, Severity.TRANSIENT, "general failure"),
    0x02: (ErrorType.PROXY_REFUSED, Severity.PERMANENT, "not allowed"),
    0x03: (ErrorType.HOST_UNREACHABLE, Severity.TRANSIENT, "network unreachable"),
    0x04: (ErrorType.HOST_UNREACHABLE, Severity.TRANSIENT, "host unreachable"),
    0x05: (ErrorType.CONNECTION_REFUSED, Severity.TRANSIENT, "connection refused"),
    0x06: (ErrorType.TIMEOUT, Severity.TRANSIENT, "TTL expired"),
    0x07: (ErrorType.PROXY_REFUSED, Severity.PERMANENT, "does not support CONNECT"),
    0x08: (ErrorType.PROXY_REFUSED, Severity.PERMANENT, "type of address"),
    0x09: (ErrorType.PROXY_REFUSED, Severity.PERMANENT, "unassigned"),
    0xF0: (ErrorType.PROXY_REFUSED, Severity.PERMANENT, "unassigned"),
    0xFF: (ErrorType.PROXY_REFUSED, Severity.PERMANENT, "unassigned"),
}


@pytest.mark.parametrize("code", REPLIES)
@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x00" + BOUND["ipv4"], b"\x00\x99garbage"])
def test_every_reply_has_its_reason(code: int, rest: bytes) -> None:
    kind, severity, words = REPLIES[code]
    machine = client("2001:db8::1", 443)
    converse(machine, [b"\x05\x00"])
    machine.bytes_to_send()
    with pytest.raises(ProxyRefused) as caught:
        for part in pieces(bytes([5, code]) + rest, [1]):
            machine.receive_data(part)
    error = caught.value
    assert (error.code, error.error_type, error.stage) == (code, kind, Stage.HANDSHAKE)
    assert (error_type_of(error), classify(error)) == (kind, severity)
    assert words in str(error)
    assert f"(reply {code:#04x})" in str(error)
    assert str(error).startswith(f"{PROXY} did not connect to [2001:db8::1]:443: ")


def test_no_acceptable_method_without_a_credential_asks_for_one() -> None:
    with pytest.raises(CredentialRejected, match="wants a credential, and none was given") as no:
        converse(client(), [b"\x05\xff"], cuts=[1])
    assert classify(no.value) is Severity.CREDENTIAL
    assert no.value.stage is Stage.HANDSHAKE


def test_no_acceptable_method_with_a_credential_is_a_refusal() -> None:
    with pytest.raises(ProxyRefused, match="method 0xff") as no:
        converse(client(credential=ALICE), [b"\x05\xff"])
    assert no.value.code == 0xFF


@pytest.mark.parametrize("status", [1, 2, 0xFF])
def test_a_rejected_password_is_a_rejected_credential(status: int) -> None:
    with pytest.raises(CredentialRejected) as no:
        converse(client(credential=ALICE), [b"\x05\x02", bytes([1, status])], cuts=[1])
    assert f"status {status:#04x}" in str(no.value)
    assert "alice" not in str(no.value)
    assert "secret" not in str(no.value)


# --- neither ----------------------------------------------------------------------------------

MALFORMED = {
    "SOCKS4": ([b"\x00\x5b" + bytes(6)], "SOCKS4"),
    "HTTP": ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "HTTP, which HttpConnect"),
    "TLS": ([b"\x15\x03\x01\x00\x02\x02\x16"], "TLS, which tls=True"),
    "an unknown version": ([b"\x06\x00"], "version octet 0x06"),
    "a method never offered": ([b"\x05\x01"], "method 0x01"),
    "a password never offered": ([b"\x05\x02"], "method 0x02"),
    "an answer before the question": ([b"\x05\x00\x05"], "had not been asked"),
    "a reply in another version": ([b"\x05\x00", b"\x01\x00\x00\x01"], "version octet 0x01"),
    "a reply with a strange address": ([b"\x05\x00", b"\x05\x00\x00\x02\x00"], "type 0x02"),
}


@pytest.mark.parametrize(("answers", "words"), MALFORMED.values(), ids=MALFORMED)
def test_a_broken_rule_is_the_proxys(answers: list[bytes], words: str) -> None:
    machine = client()
    with pytest.raises(RemoteProtocolError, match=words) as caught:
        converse(machine, answers)
    assert PROXY in str(caught.value)
    with pytest.raises(LocalProtocolError):
        machine.receive_data(b"\x05")


@pytest.mark.parametrize("version", [0, 5, 255])
def test_a_verdict_in_another_version_is_a_broken_rule(version: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"version {version}, not 1"):
        converse(client(credential=ALICE), [b"\x05\x02", bytes([version])])


def test_bytes_out_of_turn_are_our_own_mistake() -> None:
    machine = client()
    with pytest.raises(LocalProtocolError):
        machine.receive_data(b"\x05\x00")  # before the greeting was sent
    machine.bytes_to_send()
    machine.receive_data(b"\x05\x00")
    machine.bytes_to_send()
    machine.receive_data(b"\x05\x00\x00" + BOUND["ipv4"])
    assert machine.is_done
    with pytest.raises(LocalProtocolError):
        machine.receive_data(b"more")  # the stream's, not the machine's


@given(
    st.booleans(),
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=400),
            st.sampled_from([b"\x05", b"\x05\x00", b"\x05\x02", b"\x01\x00", b"\x05\x00\x00\x03"]),
        ),
        max_size=12,
    ),
)
def test_garbage_gives_a_value_or_blames_the_peer(
    with_credential: bool, chunks: list[bytes]
) -> None:
    machine = client(credential=ALICE if with_credential else None)
    text = PROXY
    try:
        for chunk in chunks:
            machine.bytes_to_send()
            if machine.is_done:
                break
            machine.receive_data(chunk)
            # The longest message has 262 octets: what is kept of an unfinished one is less.
            assert machine.leftover or len(machine._buffer) < 262
    except (RemoteProtocolError, ProxyRefused, CredentialRejected) as exc:
        text = str(exc)
    assert PROXY in text
    assert "secret" not in text
    assert len(text) < 300


@given(
    turns=st.sampled_from(sorted(TURNS)),
    bound=st.one_of(
        st.binary(min_size=4, max_size=4).map(lambda b: b"\x01" + b),
        st.binary(min_size=16, max_size=16).map(lambda b: b"\x04" + b),
        st.binary(max_size=255).map(lambda b: b"\x03" + bytes([len(b)]) + b),
    ),
    port=st.binary(min_size=2, max_size=2),
    reserved=st.integers(0, 255),
    first=st.binary(max_size=50),
    cuts=st.lists(st.integers(1, 300)).map(sorted),
)
def test_any_lawful_yes_is_understood_however_it_is_cut(
    turns: str, bound: bytes, port: bytes, reserved: int, first: bytes, cuts: list[int]
) -> None:
    credential, answers = TURNS[turns]
    machine = client(credential=credential)
    converse(machine, answers, cuts=cuts)
    assert machine.bytes_to_send()
    parts = list(pieces(bytes([5, 0, reserved]) + bound + port + first, cuts))
    taken = 0
    for part in itertools.takewhile(lambda _: not machine.is_done, parts):
        machine.receive_data(part)
        taken += 1
    assert machine.is_done
    assert machine.leftover + b"".join(parts[taken:]) == first
