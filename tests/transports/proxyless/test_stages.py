"""What each trick makes of a first flight, to the octet; the second connection and the hundredth like the first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transports.proxyless.hellos import client_hello
from transports.proxyless._hello import read_hello
from transports.proxyless._stages import Flight, Write
from transports.proxyless._strategies import parse_strategy

HELLO = client_hello("news.example")
AT = HELLO.index(b"news.example")
PLAIN = bytes(range(150))


def flight(text: str) -> Flight:
    begun = parse_strategy(text).begin()
    assert begun is not None
    return begun


def writes(text: str, *sent: bytes) -> list[bytes]:
    """Return what leaves of what is sent, and of what is held back when an answer is awaited."""
    begun = flight(text)
    made = [write for data in sent for write in begun.send(data)]
    return [write.data for write in [*made, *begun.finish()]]


def lengths(text: str, *sent: bytes) -> list[int]:
    return list(map(len, writes(text, *sent)))


def records(data: bytes) -> list[bytes]:
    """Return the contents of TLS records, each of which has to have the first one's version."""
    found, version = [], data[1:3]
    while data:
        assert data[:3] == b"\x16" + version
        length = int.from_bytes(data[3:5], "big")
        found.append(data[5 : 5 + length])
        assert len(found[-1]) == length
        data = data[5 + length :]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("split:1", [1, 149]),
        ("split:2,20*5", [2, *[5] * 20, 48]),  # what Outline's own second connection is not
        ("split:3,5", [3, 5, 142]),
        ("split:149", [149, 1]),
        ("split:150", [150]),
        ("split:200", [150]),
        ("split:100,100,100", [100, 50]),
        ("split:100|split:1", [1, 99, 50]),
        ("split:1|split:100", [1, 99, 50]),
        ("split:50|split:50", [50, 100]),
    ],
)
def test_split_cuts_the_stream(text: str, expected: list[int]) -> None:
    assert lengths(text, PLAIN) == expected
    assert b"".join(writes(text, PLAIN)) == PLAIN


def test_split_counts_over_writes() -> None:
    assert writes("split:4,2", b"abc", b"defgh", b"i") == [b"abc", b"d", b"ef", b"gh", b"i"]


def test_a_cut_at_a_writes_end_is_none_more() -> None:
    assert writes("split:3", b"abc", b"def") == [b"abc", b"def"]


def test_split_at_the_name_leaves_no_label_whole() -> None:
    assert writes("split:sni", HELLO) == [
        HELLO[: AT + 2],
        HELLO[AT + 2 : AT + 8],
        HELLO[AT + 8 :],
    ]
    pieces = writes("split:sni", HELLO)
    assert pieces[0].endswith(b"ne")
    assert pieces[1] == b"ws.exa"
    assert pieces[2].startswith(b"mple")


@pytest.mark.parametrize("name", ["a.b.example", "xn--bcher-kva.example", "localhost"])
def test_any_name_is_cut(name: str) -> None:
    hello = client_hello(name)
    pieces = writes("split:sni", hello)
    assert b"".join(pieces) == hello
    for label in name.encode().split(b"."):
        assert len(label) == 1 or not any(label in piece for piece in pieces)


@pytest.mark.parametrize(
    ("at", "first"), [("1", 1), ("100", 100), ("-1", len(HELLO) - 6), ("-100", len(HELLO) - 105)]
)
def test_tlsfrag_makes_two_records_in_one_write(at: str, first: int) -> None:
    (write,) = writes(f"tlsfrag:{at}", HELLO)
    one, two = records(write)
    assert (len(one), one + two) == (first, HELLO[5:])


@pytest.mark.parametrize("at", ["5000", "-5000", str(len(HELLO) - 5), str(5 - len(HELLO))])
def test_tlsfrag_outside_of_the_record_leaves_it_as_it_is(at: str) -> None:
    assert writes(f"tlsfrag:{at}", HELLO) == [HELLO]


def test_tlsfrag_at_the_name_leaves_no_label_whole() -> None:
    (write,) = writes("tlsfrag:sni", HELLO)
    pieces = records(write)
    assert [piece[-2:] for piece in pieces[:2]] == [b"ne", b"xa"]
    assert b"".join(pieces) == HELLO[5:]
    hello = read_hello(write)
    assert hello is not None
    assert bytes(write[at] for at in hello.name) == b"news.example"


def test_what_follows_the_first_record_stays() -> None:
    rest = b"\x14\x03\x03\x00\x01\x01"
    (write,) = writes("tlsfrag:1", HELLO + rest)
    assert write.endswith(rest)
    assert records(write.removesuffix(rest)) == [HELLO[5:6], HELLO[6:]]


def test_only_the_first_hello_is_cut() -> None:
    assert writes("tlsfrag:1", HELLO, HELLO)[1] == HELLO
    assert writes("split:sni", HELLO, HELLO)[-1] == HELLO


@pytest.mark.parametrize("text", ["split:sni", "tlsfrag:1", "tlsfrag:sni"])
def test_without_a_hello_nothing_is_cut(text: str) -> None:
    assert writes(text, PLAIN) == [PLAIN]
    assert writes(text, b"GET / HTTP/1.1\r\n", b"\r\n") == [b"GET / HTTP/1.1\r\n", b"\r\n"]


@pytest.mark.parametrize("text", ["split:sni", "tlsfrag:sni"])
def test_a_hello_without_a_name_is_not_cut(text: str) -> None:
    hello = client_hello(None)
    assert writes(text, hello) == [hello]


@pytest.mark.parametrize("text", ["split:sni", "tlsfrag:1"])
def test_what_may_become_a_hello_is_held_back_until_it_is_one(text: str) -> None:
    begun = flight(text)
    assert begun.send(HELLO[:100]) == []
    assert begun.is_holding
    late = [write.data for write in begun.send(HELLO[100:])]
    assert not begun.is_holding
    whole = b"".join(writes(text, HELLO))
    assert b"".join(late) == whole


@pytest.mark.parametrize("text", ["split:sni", "tlsfrag:1", "split:1|tlsfrag:sni"])
def test_what_is_held_back_goes_when_an_answer_is_awaited(text: str) -> None:
    begun = flight(text)
    early = [write.data for write in [*begun.send(HELLO[:50]), *begun.finish()]]
    assert b"".join(early) == HELLO[:50]
    assert (begun.is_holding, begun.finish()) == (False, [])
    # The rest is the middle of something, and not judged again.
    assert b"".join(write.data for write in begun.send(HELLO[50:])) == HELLO[50:]


def test_records_first_then_segments() -> None:
    first, second = writes("split:1|tlsfrag:1", HELLO)
    assert (len(first), records(first + second)) == (1, [HELLO[5:6], HELLO[6:]])


def test_the_name_is_cut_twice_when_records_and_segments_are() -> None:
    pieces = writes("split:sni|tlsfrag:sni", HELLO)
    found = records(b"".join(pieces))
    assert [piece[-2:] for piece in found[:2]] == [b"ne", b"xa"]
    assert len(pieces) == len(found) == 3
    for label in (b"news", b"example"):
        assert not any(label in piece for piece in pieces)
        assert not any(label in record for record in found)


def test_a_cut_of_the_programs_own_stays() -> None:
    assert lengths("split:sni", HELLO[:1], HELLO[1:]) == [1, AT + 1, 6, len(HELLO) - AT - 8]
    assert lengths("split:sni|split:1", HELLO) == [1, AT + 1, 6, len(HELLO) - AT - 8]


@pytest.mark.parametrize("text", ["disorder:1|split:2,3", "split:2,3|disorder:1"])
def test_disorder_counts_what_leaves_wherever_it_stands(text: str) -> None:
    assert flight(text).send(b"abcdefgh") == [
        Write(b"ab"),
        Write(b"cde", short_lived=True),
        Write(b"fgh"),
    ]


def test_disorder_counts_over_writes() -> None:
    begun = flight("disorder:2")
    sent = [write for data in (b"a", b"b", b"c", b"d") for write in begun.send(data)]
    assert [write.short_lived for write in sent] == [False, False, True, False]
    assert begun.needs_socket


def test_an_override_cuts_nothing() -> None:
    assert parse_strategy("override:port=8443").begin() is None


STRATEGIES = [
    "split:1",
    "split:2,20*5",
    "split:sni",
    "tlsfrag:1",
    "tlsfrag:sni",
    "disorder:1|split:200",
    "disorder:0|split:sni|tlsfrag:sni",
]


@pytest.mark.parametrize("text", STRATEGIES)
def test_the_second_and_the_hundredth_connection_are_cut_as_the_first(text: str) -> None:
    strategy = parse_strategy(text)
    flights = [strategy.begin() for _ in range(100)]
    made = [each.send(HELLO) for each in flights if each is not None]
    assert len(made) == 100
    assert made[0] != [Write(HELLO)]
    assert made[1] == made[99] == made[0]


@pytest.mark.parametrize("text", STRATEGIES)
def test_connections_at_once_do_not_mix(text: str) -> None:
    strategy = parse_strategy(text)
    one, other = strategy.begin(), strategy.begin()
    assert one is not None
    assert other is not None
    mixed = [one.send(HELLO[:60]), other.send(HELLO[:60]), one.send(HELLO[60:]), one.finish()]
    del mixed[1]
    alone = strategy.begin()
    assert alone is not None
    assert mixed == [alone.send(HELLO[:60]), alone.send(HELLO[60:]), alone.finish()]


@settings(max_examples=50)
@given(st.sampled_from(STRATEGIES), st.data())
def test_what_is_sent_arrives_however_it_is_cut(text: str, data: st.DataObject) -> None:
    sent = data.draw(st.sampled_from([HELLO, PLAIN, HELLO + PLAIN]))
    places = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=5)))
    chunks = [sent[a:b] for a, b in zip([0, *places], [*places, len(sent)], strict=True)]
    pieces = writes(text, *chunks)
    assert all(pieces)
    arrived = b"".join(pieces)
    if "tlsfrag" not in text or sent is PLAIN:
        assert arrived == sent
    else:
        hello = read_hello(arrived)
        assert hello is not None
        assert b"".join(records(arrived[: hello.length])) == HELLO[5:]
        assert arrived[hello.length :] == sent[len(HELLO) :]
