from __future__ import annotations

import copy
import dataclasses
import pickle
import socket
import ssl
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from racer._target import Target
from racer.errors import ConfigError, InvalidTarget

LABEL_63 = "a" * 63
NAME_253 = ".".join([LABEL_63] * 3 + ["b" * 61])


# --- what is accepted -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.com", "example.com", 443),
        ("EXAMPLE.Com", "example.com", 443),
        ("example.com:8443", "example.com", 8443),
        ("example.com:00080", "example.com", 80),
        ("example.com:1", "example.com", 1),
        ("example.com:65535", "example.com", 65535),
        ("localhost", "localhost", 443),
        ("example.com.", "example.com.", 443),
        ("example.com.:80", "example.com.", 80),
        ("a", "a", 443),
        ("1a.b", "1a.b", 443),
        ("4.example", "4.example", 443),
        ("a-b.c--d", "a-b.c--d", 443),
        ("r3---sn-4g5e.example", "r3---sn-4g5e.example", 443),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", 443),
        ("0xg.0xyz", "0xg.0xyz", 443),
        (LABEL_63, LABEL_63, 443),
        (NAME_253, NAME_253, 443),
        (NAME_253 + ".", NAME_253 + ".", 443),
        # addresses
        ("192.0.2.1", "192.0.2.1", 443),
        ("192.0.2.1:80", "192.0.2.1", 80),
        ("0.0.0.0", "0.0.0.0", 443),
        ("::1", "::1", 443),
        ("2001:DB8:0:0::1", "2001:db8::1", 443),
        ("[2001:db8::1]", "2001:db8::1", 443),
        ("[2001:db8::1]:8443", "2001:db8::1", 8443),
        ("fe80::1%eth0", "fe80::1%eth0", 443),
        ("[fe80::1%3]:22", "fe80::1%3", 22),
        ("[FE80::1%Eth0.1]", "fe80::1%Eth0.1", 443),
        # other scripts
        ("bücher.example", "xn--bcher-kva.example", 443),
        ("BÜCHER.example:80", "xn--bcher-kva.example", 80),
        ("faß.example", "xn--fa-hia.example", 443),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah", 443),
        ("\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45\uff0e\uff43\uff4f\uff4d", "example.com", 443),
        ("exam\u00adple.com", "example.com", 443),
        ("пример.испытание.", "xn--e1afmkfd.xn--80akhbyknj4f.", 443),
        ("r3---sn.bücher.example", "r3---sn.xn--bcher-kva.example", 443),
    ],
)
def test_a_host_is_read_and_put_into_one_form(text: str, host: str, port: int) -> None:
    target = Target.parse(text)
    assert (target.host, target.port) == (host, port)
    assert target.tls is (port == 443)
    assert Target.parse(str(target)) == target
    assert Target(target.host, target.port) == target


def test_the_constructor_takes_a_host_without_port() -> None:
    assert Target("[::1]", 80) == Target("::1", 80) == Target.parse("[::1]:80")
    assert Target("192.0.2.1").port == 443
    with pytest.raises(InvalidTarget, match=r"has a port in it.*port="):
        Target("example.com:80")
    with pytest.raises(InvalidTarget, match=r"has a port in it.*Target\.parse"):
        Target("192.0.2.1:80", 80)


def test_a_port_may_come_from_either_side_but_only_one() -> None:
    assert Target.parse("example.com", 80).port == 80
    assert Target.parse("example.com:80", 80).port == 80
    with pytest.raises(InvalidTarget, match=r"port 80 in it, and port=81"):
        Target.parse("example.com:80", 81)
    with pytest.raises(InvalidTarget, match="must be an int, not bool"):
        Target.parse("example.com:1", True)
    with pytest.raises(InvalidTarget, match="must be an int, not float"):
        Target.parse("example.com:80", 80.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("port", "wish", "tls"),
    [
        (443, None, True),
        (444, None, False),
        (80, None, False),
        (443, False, False),
        (80, True, True),
    ],
)
def test_tls_follows_the_port_unless_asked_for(port: int, wish: bool | None, tls: bool) -> None:
    assert Target("example.com", port, tls=wish).tls is tls
    assert Target.parse(f"example.com:{port}", tls=wish).tls is tls


@pytest.mark.parametrize(
    ("text", "name", "is_address"),
    [
        ("example.com.", "example.com", False),
        ("example.com", "example.com", False),
        ("192.0.2.1", "192.0.2.1", True),
        ("[fe80::1%eth0]", "fe80::1", True),
        ("::1", "::1", True),
        ("bücher.example", "xn--bcher-kva.example", False),
    ],
)
def test_the_name_for_sni_has_no_dot_and_no_scope(text: str, name: str, is_address: bool) -> None:
    target = Target.parse(text)
    assert target.server_hostname == name
    assert target.is_address is is_address


def test_protocols_are_kept_in_order() -> None:
    assert Target("example.com", alpn=["h2", "http/1.1"]).alpn == ("h2", "http/1.1")
    assert Target.parse("example.com", alpn=iter(["x"])).alpn == ("x",)
    assert Target("example.com", alpn=["a" * 255]).alpn == ("a" * 255,)


def test_a_context_of_the_callers_own_is_kept() -> None:
    context = ssl.create_default_context()
    assert Target("example.com", tls=context).tls is context


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "host is empty"),
        (":80", "host is empty"),
        (".", "empty label"),
        ("..", "empty label"),
        ("example..com", "empty label"),
        (".example.com", "empty label"),
        ("example.com..", "empty label"),
        ("bücher..example", "empty label"),
        ("\u00ad", "empty label"),
        ("a" * 64, "64 characters; at most 63"),
        ("a" * 64 + ".example", "64 characters; at most 63"),
        (NAME_253 + "c", "254 characters; a name has at most 253"),
        ("a." * 500, "at most 253"),
        ("ü" * 64, "too long"),
        ("-a.example", "begins and ends with a letter or digit"),
        ("a-.example", "begins and ends with a letter or digit"),
        ("-", "begins and ends with a letter or digit"),
        (" example.com", "' ' cannot be in a host name"),
        ("example.com\n", r"'\\n' cannot be in a host name"),
        ("exam\tple.com", r"'\\t' cannot be in a host name"),
        ("example.com\0", r"'\\x00' cannot be in a host name"),
        ("\x1b[31mred", r"'\\x1b'.* cannot be in a host name"),
        ("_dmarc.example.com", r"'_' cannot be in a host name \(RFC 1123"),
        ("a*b", r"'\*' cannot be in a host name"),
        ("a,b;c", "',', ';' cannot be in a host name"),
        # what the C library would read as an address
        ("127.1", "looks like an IPv4 address"),
        ("0x7f.1", "looks like an IPv4 address"),
        ("0x7f000001", "looks like an IPv4 address"),
        ("0X7F000001", "looks like an IPv4 address"),
        ("2130706433", "looks like an IPv4 address"),
        ("1.2.3.4.5", "looks like an IPv4 address"),
        ("1.2.3.4.", "looks like an IPv4 address"),
        ("256.1.1.1", "looks like an IPv4 address"),
        ("01.2.3.4", "looks like an IPv4 address"),
        ("example.0x", "looks like an IPv4 address"),
        ("\uff11\uff12\uff17\uff0e\uff10\uff0e\uff10\uff0e\uff11", "looks like an IPv4 address"),
        # IPv6
        ("[]", "brackets are for IPv6"),
        ("[example.com]", "brackets are for IPv6"),
        ("[192.0.2.1]:80", "brackets are for IPv6"),
        ("[::1", "does not close it"),
        ("[", "does not close it"),
        ("[::1]80", "where only ':port' can stand"),
        ("[[::1]]", "where only ':port' can stand"),
        (":::", "is not an IPv6 address"),
        ("1:2:3", "is not an IPv6 address"),
        ("g::1", "is not an IPv6 address"),
        ("example.com:80:80", "is not an IPv6 address"),
        ("fe80::1%", "is not the name or number of a network interface"),
        ("fe80::1%a b", "is not the name or number of a network interface"),
        ("fe80::1%a%b", "is not the name or number of a network interface"),
        ("fe80::1%" + "x" * 33, "is not the name or number of a network interface"),
        # ports
        ("example.com:", "'' where a port from 1 to 65535 belongs"),
        ("[::1]:", "'' where a port from 1 to 65535 belongs"),
        ("example.com:http", "'http' where a port"),
        ("example.com:-1", "'-1' where a port"),
        ("example.com:+80", r"'\+80' where a port"),
        ("example.com:8_0", "'8_0' where a port"),
        ("example.com: 80", "' 80' where a port"),
        ("example.com:80\n", "where a port"),
        ("example.com:٤٤٣", "where a port"),
        ("example.com:\uff14\uff14\uff13", "where a port"),
        ("example.com:0", "port 0 is not in 1 to 65535"),
        ("example.com:65536", "port 65536 is not in 1 to 65535"),
        ("example.com:100000", "where a port"),
        ("example.com:" + "9" * 5000, "where a port"),
        # URLs and what comes with them
        ("https://example.com", "'https://example.com' is a URL; dial takes a host, such as 'ex"),
        ("http://", "is a URL; dial takes a host"),
        ("//example.com", "came with a path"),
        ("example.com/", "'example.com' came with a path"),
        ("example.com:80/x", "'example.com:80' came with a path"),
        ("example.com?x", "came with a path"),
        ("example.com#x", "came with a path"),
        ("example.com\\x", "came with a path"),
        ("user@example.com", "'example.com' came with a user"),
        # names IDNA refuses
        ("i❤.example", "not a name under IDNA 2008"),
        ("👩‍💻.example", "not a name under IDNA 2008"),
        ("exam\u202eple.com", "not a name under IDNA 2008"),
        ("a\ud800", "not a name under IDNA 2008"),
        ("a℀b.example", "not a name under IDNA 2008"),
        ("example.com\uff1a80", "not a name under IDNA 2008"),
        ("bü_cher.example", "not a name under IDNA 2008"),
        ("אa1.example", "not a name under IDNA 2008"),
        # size
        ("x" * 10_000_000, "a host of 10000000 characters"),
        ("é" * 10_000_000, "a host of 10000000 characters"),
        ("." * 10_000_000, "a host of 10000000 characters"),
        (":" * 10_000_000, "a host of 10000000 characters"),
        ("[" * 10_000_000, "does not close it"),
        ("a:" + "8" * 10_000_000, "where a port"),
        ("https://" + "x" * 10_000_000, "is a URL"),
    ],
    ids=lambda value: ascii(value[:40])[:40],
)
def test_a_host_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(InvalidTarget, match=words) as caught:
        Target.parse(text)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    "text",
    [
        "user:hunter2@example.com",
        "hunter2@example.com:80",
        "https://user:hunter2@example.com/",
        "https://example.com/hunter2",
        "https://example.com?key=hunter2@x",
        "example.com/hunter2",
        "example.com?token=hunter2",
        "user:hun/hunter2@example.com",
        "user:hunter2/x@example.com",
        "user:hunter2://x@example.com",
        "hunter2:x@y://example.com",
        "user:hunter2@[::1]:80",
        "user:hunter2@" + "x" * 2000,
    ],
)
def test_no_error_repeats_what_may_be_a_secret(text: str) -> None:
    for attempt in (Target.parse, Target):
        with pytest.raises(InvalidTarget, match=r"URL") as caught:
            attempt(text)
        exc: BaseException | None = caught.value
        while exc is not None:
            assert "hunter2" not in str(exc)
            exc = exc.__cause__


@pytest.mark.parametrize(
    "port", [0, -1, 65536, 10**5000, -(10**5000)], ids=["0", "-1", "65536", "huge", "-huge"]
)
def test_a_port_out_of_range_is_refused(port: int) -> None:
    for attempt in (Target.parse, Target):
        with pytest.raises(InvalidTarget, match=r"^port .* is not in 1 to 65535"):
            attempt("example.com", port)
    with pytest.raises(InvalidTarget, match=r"^port .* is not in 1 to 65535"):
        Target.parse("example.com:80", port)


@pytest.mark.parametrize("port", [True, "80", b"80", 80.0, [80], object()])
def test_a_port_of_another_type_is_refused(port: Any) -> None:
    for attempt in (Target.parse, Target):
        with pytest.raises(InvalidTarget, match=f"must be an int, not {type(port).__name__}"):
            attempt("example.com", port)


@pytest.mark.parametrize("host", [b"example.com", None, 1, ["example.com"], ("example.com", 80)])
def test_a_host_of_another_type_is_refused(host: Any) -> None:
    for attempt in (Target.parse, Target):
        with pytest.raises(InvalidTarget, match=f"must be a str, not {type(host).__name__}"):
            attempt(host)


@pytest.mark.parametrize("tls", [1, 0, "yes", object(), ssl.SSLContext])
def test_a_tls_wish_of_another_type_is_refused(tls: Any) -> None:
    with pytest.raises(InvalidTarget, match=r"tls must be True, False, None or an ssl\.SSLContext"):
        Target("example.com", tls=tls)


def test_a_servers_context_is_refused() -> None:
    with pytest.raises(InvalidTarget, match="server's context"):
        Target("example.com", tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@pytest.mark.parametrize(
    ("alpn", "words"),
    [
        ("h2", r"sequence of protocol names, such as \['h2'\], not str"),
        (b"h2", "not bytes"),
        (5, "not int"),
        (None, "not NoneType"),
        ([b"h2"], "bytes is not a protocol name"),
        ([""], "'' is not a protocol name"),
        (["é"], "is not a protocol name"),
        (["a" * 256], "is not a protocol name"),
        ([f"{n:03}".ljust(255, "x") for n in range(300)], "do not fit"),
    ],
)
def test_protocols_that_cannot_be_offered_are_refused(alpn: Any, words: str) -> None:
    with pytest.raises(InvalidTarget, match=words) as caught:
        Target("example.com", alpn=alpn)
    assert len(str(caught.value)) < 200


def test_protocols_beside_a_context_are_refused() -> None:
    with pytest.raises(InvalidTarget, match="set the protocols on the context"):
        Target("example.com", tls=ssl.create_default_context(), alpn=["h2"])


# --- a value --------------------------------------------------------------------------------


def test_a_target_is_a_value() -> None:
    target = Target("EXAMPLE.com", alpn=["h2"])
    same = Target.parse("example.com:443", alpn=("h2",))
    assert target == same
    assert hash(target) == hash(same)
    assert {target: 1}[same] == 1
    others = [
        Target("example.com.", alpn=["h2"]),
        Target("example.com", 444, tls=True, alpn=["h2"]),
        Target("example.com", tls=False, alpn=["h2"]),
        Target("example.com"),
        Target("example.com", tls=ssl.create_default_context()),
    ]
    assert target not in others
    assert len({target, *others}) == 6
    assert repr(target) == "Target(host='example.com', port=443, tls=True, alpn=('h2',))"


def test_a_target_cannot_be_changed() -> None:
    target = Target("example.com")
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.port = 0  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        target.extra = 0  # type: ignore[attr-defined]


def test_a_target_can_be_copied_pickled_and_replaced_in_part() -> None:
    target = Target.parse("[fe80::1%eth0]:8443", tls=True, alpn=["h2"])
    assert copy.copy(target) == target
    assert copy.deepcopy(target) == target
    assert pickle.loads(pickle.dumps(target)) == target
    assert dataclasses.replace(target, port=80) == Target("fe80::1%eth0", 80, tls=True, alpn=["h2"])
    assert dataclasses.replace(target, host="Example.COM").host == "example.com"
    with pytest.raises(InvalidTarget, match="port 0"):
        dataclasses.replace(target, port=0)


# --- any text -------------------------------------------------------------------------------

PIECES = ". \u3002 \uff0e : :: [ ] % @ / - xn-- :// 0x ß \u200d 1 255 443 a example ٤ \u00ad \u0300 א \ud800 \0 _"
pieces = st.text(max_size=12) | st.sampled_from([" ", *PIECES.split(" ")])


@given(st.lists(pieces, max_size=12).map("".join))
@example("xn--a.xn--.é")
@example("xn--\u00ad")
@example("é.xn--" + "9" * 50)
@example("1.2.3.\uff14")
@example("::1%\u0661")
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        target = Target.parse(text)
    except InvalidTarget as exc:
        assert len(str(exc)) < 500  # noqa: PT017
        assert str(exc).isprintable()  # noqa: PT017
        return
    assert Target.parse(str(target)) == target
    assert Target(target.host, target.port) == target
    assert target.host.isascii()
    assert target.server_hostname
    assert len(target.server_hostname) <= 253
    if target.is_address:
        family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
        socket.inet_pton(family, target.server_hostname)


@given(
    st.text(max_size=20) | st.binary(max_size=5) | st.none(),
    st.integers() | st.booleans() | st.none() | st.floats() | st.text(max_size=5),
    st.booleans() | st.none() | st.integers(),
    st.lists(st.text(max_size=3) | st.integers(), max_size=3) | st.none() | st.text(max_size=3),
)
def test_any_arguments_are_a_target_or_refused(host: Any, port: Any, tls: Any, alpn: Any) -> None:
    for attempt in (Target.parse, Target):
        try:
            target = attempt(host, port, tls=tls, alpn=alpn)
        except InvalidTarget:
            continue
        assert 1 <= target.port <= 65535
        assert isinstance(target.tls, bool)
