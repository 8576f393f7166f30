"""The CONNECT machine: what it asks, every kind of answer cut anywhere, and its bounds."""

from __future__ import annotations

import base64
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
from transports.proxy._connect import MAX_HEADER_BYTES, MAX_INFORMATIONAL, ConnectClient
from transports.proxy._credential import Credential
from transports.proxy._statuses import asked_schemes

PROXY = "HTTP proxy p:8080"
ALICE = Credential(b"alice", b"secret")


def client(
    host: str = "target.example",
    port: int = 443,
    credential: Credential | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> ConnectClient:
    return ConnectClient(host, port, credential=credential, headers=headers, proxy=PROXY)


# --- what is sent -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "authority"),
    [
        ("target.example", b"target.example:443"),
        ("xn--bcher-kva.example", b"xn--bcher-kva.example:443"),
        ("192.0.2.1", b"192.0.2.1:443"),
        ("2001:db8::1", b"[2001:db8::1]:443"),
        (".".join(["n" * 63] * 3 + ["n" * 61]), b".".join([b"n" * 63] * 3 + [b"n" * 61]) + b":443"),
    ],
)
def test_the_request_names_the_target_twice(host: str, authority: bytes) -> None:
    machine = client(host)
    expected = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (authority, authority)
    assert machine.bytes_to_send() == expected
    assert machine.bytes_to_send() == b""


def test_a_credential_and_further_fields_go_with_it() -> None:
    machine = client(
        credential=Credential("älice".encode(), "p:ä€ss".encode()),
        headers=((b"User-Agent", b"x/1"), (b"X-Region", b"eu")),
    )
    token = base64.b64encode("älice:p:ä€ss".encode())  # RFC 7617 section 2.1, in UTF-8
    assert machine.bytes_to_send() == (
        b"CONNECT target.example:443 HTTP/1.1\r\nHost: target.example:443\r\n"
        b"Proxy-Authorization: Basic %b\r\nUser-Agent: x/1\r\nX-Region: eu\r\n\r\n" % token
    )


@pytest.mark.parametrize(
    ("credential", "words"),
    [
        (Credential(b"a:b", b"x"), "username: has a ':'"),
        (Credential(b"a", b"x\r\ny"), "password: has a control character"),
        (Credential(b"a\x00", b"x"), "username: has a control character"),
        (Credential(b"a" * 2049, b"x"), "username: 2049 octets"),
        (Credential(b"a", b"x" * 2049), "password: 2049 octets"),
    ],
)
def test_what_basic_cannot_carry_is_refused_before_any_io(
    credential: Credential, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        client(credential=credential)


# --- yes --------------------------------------------------------------------------------------

YESES = {
    "plain": b"HTTP/1.1 200 OK\r\n\r\n",
    "of an old proxy": b"HTTP/1.0 200 Connection established\r\nProxy-agent: tinyproxy/1.11.1\r\n\r\n",
    "without a reason phrase": b"HTTP/1.1 200\r\n\r\n",
    "of another 2xx": b"HTTP/1.1 299 Fine\r\n\r\n",
    # RFC 9110 section 9.3.6: a client ignores both in an answer of 2xx.
    "with a length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "with an encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "in bare line feeds": b"HTTP/1.1 200 OK\nVia: x\n\n",
    "after others": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
}


@pytest.mark.parametrize("answer", YESES.values(), ids=YESES)
@pytest.mark.parametrize("first", [b"", b"SSH-2.0-x\r\n"])
def test_a_yes_cut_anywhere_is_one_and_what_follows_is_the_targets(
    answer: bytes, first: bytes
) -> None:
    whole = answer + first
    for cuts in ways_to_cut(whole):
        machine = client()
        machine.bytes_to_send()
        late = b""
        for part in pieces(whole, cuts):
            if machine.is_done:
                late += part
            else:
                machine.receive_data(part)
        assert machine.is_done
        assert machine.leftover + late == first


def test_there_is_no_leftover_before_the_end() -> None:
    machine = client()
    converse(machine, [b"HTTP/1.1 200 OK\r\n"])
    assert not machine.is_done
    assert machine.leftover == b""


# --- no ---------------------------------------------------------------------------------------

STATUSES = {
    300: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    302: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    400: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    403: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    404: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    405: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    408: (ErrorType.TIMEOUT, Severity.TRANSIENT),
    429: (ErrorType.RESOURCE_EXHAUSTED, Severity.TRANSIENT),
    451: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    500: (ErrorType.HOST_UNREACHABLE, Severity.TRANSIENT),
    501: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    502: (ErrorType.HOST_UNREACHABLE, Severity.TRANSIENT),
    503: (ErrorType.RESOURCE_EXHAUSTED, Severity.TRANSIENT),
    504: (ErrorType.TIMEOUT, Severity.TRANSIENT),
    505: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    511: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    599: (ErrorType.HOST_UNREACHABLE, Severity.TRANSIENT),
    600: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
    999: (ErrorType.PROXY_REFUSED, Severity.PERMANENT),
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    "rest",
    [
        b"\r\n\r\n",
        b" Words\r\nContent-Length: 5\r\n\r\nsorry",
        b" W\r\nConnection: close\r\n\r\n<html>",
    ],
)
def test_every_status_has_its_reason_body_or_not(status: int, rest: bytes) -> None:
    kind, severity = STATUSES[status]
    answer = b"HTTP/1.1 %d" % status + rest
    for cuts in ([], list(range(1, len(answer)))):
        machine = client("2001:db8::1")
        with pytest.raises(ProxyRefused) as caught:
            converse(machine, [answer], cuts=cuts)
        error = caught.value
        assert (error.code, error.error_type, error.stage) == (status, kind, Stage.HANDSHAKE)
        assert (error_type_of(error), classify(error)) == (kind, severity)
        assert str(error).startswith(f"{PROXY} did not connect to [2001:db8::1]:443: HTTP {status}")
        assert "Words" not in str(error)  # theirs, and so perhaps an echo


DETAILS = {
    b"Proxy-Status: a.example; error=connection_refused": ErrorType.CONNECTION_REFUSED,
    b'proxy-status: b; details="; error=x\\"; error=dns_error", a ;error=dns_timeout': ErrorType.DNS_FAILURE,
    b"Proxy-Status: a; received-status=200, b; error = destination_ip_prohibited": ErrorType.PROXY_REFUSED,
    b"Proxy-Status: a; error=connection_limit_reached": ErrorType.RESOURCE_EXHAUSTED,
    b"Proxy-Status: a; error=of_tomorrow": ErrorType.RESOURCE_EXHAUSTED,  # what 503 says by itself
    b'Proxy-Status: a; details="error=dns_error"': ErrorType.RESOURCE_EXHAUSTED,
    b"X-Squid-Error: ERR_DNS_FAIL 0": ErrorType.DNS_FAILURE,
    b"X-Squid-Error: ERR_CONNECT_FAIL 111": ErrorType.CONNECTION_REFUSED,
    b"X-Squid-Error: ERR_CONNECT_FAIL 110": ErrorType.TIMEOUT,
    b"X-Squid-Error: ERR_CONNECT_FAIL 113": ErrorType.HOST_UNREACHABLE,
    b"X-Squid-Error: ERR_ACCESS_DENIED 0": ErrorType.PROXY_REFUSED,
    b"X-Squid-Error: ERR_OF_TOMORROW 7": ErrorType.RESOURCE_EXHAUSTED,
    b"X-Squid-Error: gibberish": ErrorType.RESOURCE_EXHAUSTED,
    b"X-Other: error=dns_error": ErrorType.RESOURCE_EXHAUSTED,
}


@pytest.mark.parametrize("field", DETAILS, ids=bytes.decode)
def test_a_proxy_that_says_more_is_heard(field: bytes) -> None:
    with pytest.raises(ProxyRefused) as caught:
        converse(client(), [b"HTTP/1.1 503 Service Unavailable\r\n%b\r\n\r\n" % field])
    assert caught.value.error_type is DETAILS[field]
    assert caught.value.code == 503


def test_the_words_are_the_standards() -> None:
    with pytest.raises(ProxyRefused) as caught:
        converse(client(), [b"HTTP/1.1 503 x\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\n\r\n"])
    assert str(caught.value) == (
        f"{PROXY} did not connect to target.example:443: "
        "HTTP 503 Service Unavailable, ERR_CONNECT_FAIL 111"
    )


@pytest.mark.parametrize("status", [401, 407])
@pytest.mark.parametrize("credential", [None, ALICE])
def test_a_wanted_credential_is_a_rejected_one(status: int, credential: Credential | None) -> None:
    answer = b'HTTP/1.1 %d x\r\nProxy-Authenticate: Basic realm="alice:secret"\r\n\r\n' % status
    with pytest.raises(CredentialRejected) as caught:
        converse(client(credential=credential), [answer])
    text = str(caught.value)
    assert ("none was given" in text) is (credential is None)
    assert ("rejected the credential" in text) is (credential is not None)
    assert caught.value.stage is Stage.HANDSHAKE
    assert classify(caught.value) is Severity.CREDENTIAL
    assert f"(HTTP {status})" in text
    assert "secret" not in text


def test_407_names_the_schemes_that_are_not_spoken_here() -> None:
    answer = b'HTTP/1.1 407 x\r\nProxy-Authenticate: NTLM\r\nProxy-Authenticate: Digest qop="a,Basic b"\r\n\r\n'
    with pytest.raises(CredentialRejected, match="it asks for Digest, NTLM, and only Basic"):
        converse(client(credential=ALICE), [answer])


@pytest.mark.parametrize(
    ("value", "schemes"),
    [
        (b"", ()),
        (b'Basic realm="x"', ("Basic",)),
        (b"basic", ("Basic",)),
        (b'Digest realm="a, Basic", nonce="b", Basic realm="c"', ("Basic", "Digest")),
        (b"Negotiate, NTLM", ("Negotiate", "NTLM")),
        (b"Digest basic=1", ("Digest",)),
        (b"Unheard-Of x=1", ()),
        (b"Basics", ()),
    ],
)
def test_schemes_are_read_from_challenges(value: bytes, schemes: tuple[str, ...]) -> None:
    assert asked_schemes([(b"proxy-authenticate", value), (b"via", b"Basic")]) == schemes


# --- neither ----------------------------------------------------------------------------------

MALFORMED = {
    "TLS": (b"\x15\x03\x01\x00\x02\x02\x16", "TLS, which tls=True"),
    "SOCKS5": (b"\x05\xff", "SOCKS5, which Socks5"),
    "a control octet": (b"\x01", "not HTTP/1.1: illegal request line"),
    "words": (b"530 Login incorrect\r\n\r\n", "not HTTP/1.1: illegal status line"),
    "another version": (b"HTTP/2 200 OK\r\n\r\n", "illegal status line"),
    "an echo": (b"CONNECT target.example:443 HTTP/1.1\r\n\r\n", "illegal status line"),
    "nothing but line ends": (b"\r\n\r\n", "no response line"),
    "a broken field": (b"HTTP/1.1 200 OK\r\nalice secret\r\n\r\n", "illegal header line"),
    "a field before the first": (b"HTTP/1.1 200 OK\r\n x: y\r\n\r\n", "continuation line"),
    "another protocol": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "Received server"),
    "a status of 099": (b"HTTP/1.1 099 Early\r\n\r\n", "not HTTP/1.1"),
    "an endless header": (b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEADER_BYTES, "too long"),
}


@pytest.mark.parametrize(("answer", "words"), MALFORMED.values(), ids=MALFORMED)
def test_a_broken_rule_is_the_proxys(answer: bytes, words: str) -> None:
    machine = client(credential=ALICE)
    with pytest.raises(RemoteProtocolError, match=words) as caught:
        converse(machine, [answer])
    assert PROXY in str(caught.value)
    assert "secret" not in str(caught.value)
    assert (
        caught.value.__context__ is None
    )  # h11's own error quotes what came, and so perhaps an echo
    with pytest.raises(LocalProtocolError):
        machine.receive_data(b"HTTP/1.1 200 OK\r\n\r\n")


def test_no_more_than_eight_answers_of_1xx() -> None:
    some = b"HTTP/1.1 102 Processing\r\n\r\n" * MAX_INFORMATIONAL
    machine = client()
    converse(machine, [some + b"HTTP/1.1 200 OK\r\n\r\n"])
    assert machine.is_done
    with pytest.raises(RemoteProtocolError, match="more than 8 answers of 1xx"):
        converse(client(), [some + b"HTTP/1.1 102 Processing\r\n\r\n"], cuts=range(1, 300))


def test_bytes_out_of_turn_are_our_own_mistake() -> None:
    machine = client()
    with pytest.raises(LocalProtocolError):
        machine.receive_data(b"HTTP/1.1 200 OK\r\n\r\n")  # before the request was sent
    machine.bytes_to_send()
    machine.receive_data(b"")  # nothing, and not the end
    machine.receive_data(b"HTTP/1.1 200 OK\r\n\r\n")
    assert machine.is_done
    with pytest.raises(LocalProtocolError):
        machine.receive_data(b"more")


FRAGMENTS = st.sampled_from(
    [
        b"HTTP/1.1 ",
        b"200",
        b" OK",
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"103 x",
        b"407",
        b"Via: ",
        b" ",
        b"502",
        b"x: y",
    ]
)


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=200), FRAGMENTS), max_size=30))
def test_garbage_gives_a_value_or_blames_the_peer(chunks: list[bytes]) -> None:
    machine = client(credential=ALICE)
    machine.bytes_to_send()
    text = PROXY
    try:
        for chunk in itertools.takewhile(lambda _: not machine.is_done, chunks):
            machine.receive_data(chunk)
    except (RemoteProtocolError, ProxyRefused, CredentialRejected) as exc:
        text = str(exc)
    assert PROXY in text
    assert "secret" not in text
    assert len(text) < 300


@given(
    reason=st.from_regex(rb"[ -~]{0,40}", fullmatch=True),
    fields=st.lists(st.from_regex(rb"[A-Za-z]{1,10}: ?[!-~]{0,20}", fullmatch=True), max_size=5),
    early=st.integers(0, MAX_INFORMATIONAL),
    first=st.binary(max_size=50),
    cuts=st.lists(st.integers(1, 600)).map(sorted),
)
def test_any_lawful_yes_is_understood_however_it_is_cut(
    reason: bytes, fields: list[bytes], early: int, first: bytes, cuts: list[int]
) -> None:
    header = b"".join(b"X-%b\r\n" % field for field in fields)
    answer = b"HTTP/1.1 103 Early\r\n\r\n" * early + b"HTTP/1.1 200 %b\r\n%b\r\n" % (reason, header)
    machine = client()
    machine.bytes_to_send()
    parts = list(pieces(answer + first, cuts))
    taken = 0
    for part in itertools.takewhile(lambda _: not machine.is_done, parts):
        machine.receive_data(part)
        taken += 1
    assert machine.is_done
    assert machine.leftover + b"".join(parts[taken:]) == first
