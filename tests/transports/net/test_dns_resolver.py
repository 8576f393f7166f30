"""One resolver with a URL, on a virtual clock: when questions go out, what counts as an answer, and what is left."""

from __future__ import annotations

import errno
import gc
import socket
import ssl
import weakref
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from racer import lab
from racer.abc import Stage
from racer.errors import ErrorType, NetworkError, TransportBusy, error_type_of
from racer.testing import cancel_everywhere, stream_pair
from tests.transports.net.dns_world import (
    DELAY,
    SERVER,
    authority,
    dns_world,
    look_up,
    says,
)
from tests.transports.net.world import BOTH, V4, V6, Oracle, answer4, answers
from transports._net import dns_carriers
from transports._net.connector import Connector
from transports._net.dns_messages import Question, Reply, encode_question
from transports._net.dns_resolver import DNSResolver, ResolverTLS
from transports._net.resolver_urls import ResolverURL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

    from racer.testing import MemoryStream

pytestmark = pytest.mark.virtual_time

UDP, TCP = f"udp://{SERVER}", f"tcp://{SERVER}"
TLS, HTTPS = f"tls://{SERVER}", f"https://{SERVER}/dns-query"
URLS = [UDP, TCP, TLS, HTTPS]
ROUND_TRIP = 2 * DELAY

TRUE6, TRUE4 = ("2001:db8::1",), ("192.0.2.1",)


def both(at: float) -> list[tuple[float, Any, tuple[str, ...]]]:
    return [(at, V6, TRUE6), (at, V4, TRUE4)]


# --- each way of asking ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "alpn", "round_trips", "over", "opened"),
    [
        (UDP, (), 1, "udp", [("udp", 53)] * 2),
        (TCP, (), 2, "tcp", [("tcp", 53)]),
        (TLS, (), 3, "tls", [("tcp", 853)]),
        (HTTPS, (), 3, "https", [("tcp", 443)] * 2),
        (HTTPS, ("http/1.1",), 3, "https", [("tcp", 443)] * 2),
        (HTTPS, ("h2", "http/1.1"), 3, "https", [("tcp", 443)] * 2),
    ],
    ids=["udp", "tcp", "tls", "https", "https with h1", "https with h2"],
)
async def test_both_families_are_asked_for_side_by_side(
    url: str, alpn: tuple[str, ...], round_trips: int, over: str, opened: list[tuple[str, int]]
) -> None:
    async with dns_world(tls=True) as world:
        said, errors = await look_up(world.resolver(url, alpn=alpn))
        assert (said, errors) == (both(round_trips * ROUND_TRIP), [])
        assert sorted(world.asked()) == [("A", over), ("AAAA", over)]
        assert [(kind, port) for kind, _, port, _ in world.opened] == opened


@pytest.mark.parametrize("url", URLS)
async def test_one_family_may_be_asked_for_alone(url: str) -> None:
    async with dns_world(tls=True) as world:
        said, errors = await look_up(world.resolver(url), families=(V4,))
        assert [each[1:] for each in said] == [(V4, TRUE4)]
        assert (errors, len(world.asked()), len(world.opened)) == ([], 1, 1)


@pytest.mark.parametrize("url", URLS)
async def test_an_answer_is_reported_as_it_comes_however_long_the_other_takes(url: str) -> None:
    async with dns_world(lab.Delay(kind="AAAA", seconds=3), tls=True) as world:
        said, errors = await look_up(world.resolver(url))
        assert [family for _, family, _ in said] == [V4, V6]
        assert said[1][0] - said[0][0] == 3
        assert errors == []


@pytest.mark.parametrize("url", URLS)
async def test_a_family_that_a_name_does_not_have_is_an_empty_answer(url: str) -> None:
    async with dns_world(tls=True) as world:
        said, errors = await look_up(world.resolver(url), "four.example")
        assert [each[1:] for each in said] == [(V6, ()), (V4, ("192.0.2.4",))]
        assert errors == []


@pytest.mark.parametrize("url", URLS)
async def test_a_name_that_does_not_exist_is_what_the_system_would_say(url: str) -> None:
    async with dns_world(tls=True) as world:
        said, errors = await look_up(world.resolver(url), "nowhere.example")
        assert said == []
        assert len(errors) == 2
        shown = str(ResolverURL.parse(url))
        assert says(errors) == [f"there is no such name, says {shown} (NXDOMAIN)"]
        assert all(isinstance(exc, socket.gaierror) for exc in errors)
        assert {exc.errno for exc in errors if isinstance(exc, OSError)} == {socket.EAI_NONAME}


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED", "NOTAUTH"])
@pytest.mark.parametrize("url", URLS)
async def test_an_error_is_told_with_the_servers_word_for_it(url: str, rcode: str) -> None:
    async with dns_world(lab.Fail(rcode=rcode, kind="A"), tls=True) as world:
        said, (error,) = await look_up(world.resolver(url))
        assert [each[1:] for each in said] == [(V6, TRUE6)]
        assert isinstance(error, NetworkError)
        assert str(error) == f"{ResolverURL.parse(url)} answered {rcode}"
        assert (error.stage, error.error_type) == (Stage.RESOLVE, ErrorType.DNS_FAILURE)


@pytest.mark.parametrize("url", URLS)
async def test_silence_ends_after_eight_seconds(url: str) -> None:
    async with dns_world(lab.Drop(kind="AAAA"), tls=True) as world:
        begun = anyio.current_time()
        said, (error,) = await look_up(world.resolver(url))
        assert anyio.current_time() - begun == 8
        assert [each[1:] for each in said] == [(V4, TRUE4)]
        assert str(error) == f"{ResolverURL.parse(url)} did not answer within 8 s"
        assert error_type_of(error) is ErrorType.DNS_FAILURE


async def test_names_that_are_not_to_be_asked_for_are_not() -> None:
    async with dns_world() as world:
        for name in ("localhost", "x.onion"):
            said, errors = await look_up(world.resolver(UDP), name)
            assert bool(said) is not bool(errors)
        assert (world.asked(), world.opened) == ([], [])


@pytest.mark.parametrize("url", URLS)
async def test_a_name_that_no_message_can_carry_is_an_error_like_others(url: str) -> None:
    async with dns_world(tls=True) as world:
        _, (error,) = await look_up(world.resolver(url), "a" * 64 + ".example")
        assert isinstance(error, NetworkError)
        assert "no question can be asked" in str(error)


# --- datagrams ------------------------------------------------------------------------------


async def test_a_question_goes_out_four_times() -> None:
    async with dns_world(lab.Drop()) as world:
        times: list[float] = []
        handled = world.zone.matching

        def matching(asked: lab.Asked) -> Any:
            times.append(round(anyio.current_time() - DELAY, 6))
            return handled(asked)

        world.zone.matching = matching  # type: ignore[method-assign]
        _, errors = await look_up(world.resolver(UDP), families=(V6,))
        assert times == [0, 0.5, 1.5, 3.5]
        assert says(errors) == [f"{UDP} did not answer within 8 s"]
        assert [kind for kind, *_ in world.opened] == ["udp"]


@pytest.mark.parametrize(("lost", "at"), [(1, 0.52), (2, 1.52), (3, 3.52)])
async def test_what_was_lost_is_asked_again(lost: int, at: float) -> None:
    async with dns_world(lab.Drop()) as world:
        handled = world.zone.matching

        def matching(asked: lab.Asked) -> Any:
            return handled(asked) if len(world.zone.asked) <= lost else ()

        world.zone.matching = matching  # type: ignore[method-assign]
        said, errors = await look_up(world.resolver(UDP), families=(V4,))
        assert (said, errors) == ([(at, V4, TRUE4)], [])


async def test_a_late_answer_to_the_first_copy_counts() -> None:
    async with dns_world(lab.Delay(seconds=1)) as world:
        said, errors = await look_up(world.resolver(UDP))
        assert (said, errors) == (both(1.02), [])
        assert len(world.asked()) == 4


@pytest.mark.parametrize("flaw", [lab.Flaw.ID, lab.Flaw.QUESTION, lab.Flaw.PORT])
async def test_who_has_not_seen_the_question_is_not_believed(flaw: lab.Flaw) -> None:
    """RFC 5452 §9.1: what does not match is ignored, and the wait goes on."""
    forged = lab.Forge(addresses=("198.51.100.1", "2001:db8:bad::1"), flaw=flaw, truth_after=0.1)
    async with dns_world(forged) as world:
        said, errors = await look_up(world.resolver(UDP))
        assert (said, errors) == (both(0.12), [])


async def test_garbage_is_ignored_until_the_time_is_over() -> None:
    async with dns_world(lab.Garbage(kind="AAAA")) as world:
        said, errors = await look_up(world.resolver(UDP))
        assert said == [(0.02, V4, TRUE4)]
        assert says(errors) == [f"{UDP} did not answer within 8 s"]


async def test_a_perfect_forgery_that_comes_first_is_believed() -> None:
    """Nobody could tell: `second_opinion` is for that."""
    forged = lab.Forge(addresses=("198.51.100.1", "2001:db8:bad::1"), truth_after=0.1)
    async with dns_world(forged) as world:
        said, _ = await look_up(world.resolver(UDP))
        assert said == [(0.02, V6, ("2001:db8:bad::1",)), (0.02, V4, ("198.51.100.1",))]


@pytest.mark.parametrize(("after", "found"), [(0.25, 2), (0.3, 1)])
async def test_holding_on_hears_who_is_slower(after: float, found: int) -> None:
    forged = lab.Forge(addresses=("198.51.100.1",), truth_after=after)
    async with dns_world(forged) as world:
        said, errors = await look_up(world.resolver(UDP, hold_on=0.26), families=(V4,))
        expected = [(0.02, V4, ("198.51.100.1",)), (round(0.02 + after, 6), V4, TRUE4)]
        assert (said, errors) == (expected[:found], [])


async def test_holding_on_hears_nothing_twice() -> None:
    async with dns_world() as world:
        begun = anyio.current_time()
        said, errors = await look_up(world.resolver(UDP, hold_on=0.25))
        assert (said, errors) == (both(0.02), [])
        assert anyio.current_time() - begun == pytest.approx(0.27)


async def test_holding_on_hears_eight_and_no_more() -> None:
    pool = [lab.Forge(addresses=(f"198.51.100.{n}",), after=0.01 * n) for n in range(20)]
    async with dns_world(*pool) as world:
        said, _ = await look_up(world.resolver(UDP, hold_on=9), families=(V4,))
        assert [found for _, _, found in said] == [(f"198.51.100.{n}",) for n in range(8)]
        assert anyio.current_time() < 1


class Channel:
    """Says what it is told to, in the place of a socket, and breaks then."""

    def __init__(self, *, answers: int, error: BaseException) -> None:
        self.closed = False
        self._left = answers
        self._error = error
        self._question = b""

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self._question = item

    async def receive(self) -> bytes:
        await anyio.sleep(0.01)
        if not self._left:
            raise self._error
        self._left -= 1
        return answered(self._question)

    async def aclose(self) -> None:
        self.closed = True


async def on_channels(*channels: Channel, **options: Any) -> tuple[list[Any], list[Exception]]:
    """Look up over these channels, one for each family, which all are closed then."""
    left = iter(channels)

    async def dial_udp(address: str, port: int) -> Any:
        return next(left)

    connector = Connector(Oracle([]), dial_udp=dial_udp)
    resolver = DNSResolver(ResolverURL.parse(UDP), connector, tls=ResolverTLS(), **options)
    found = await look_up(resolver)
    assert [each.closed for each in channels] == [True] * len(channels)
    return found


async def test_a_channel_that_breaks_after_the_answer_breaks_nothing() -> None:
    broken = anyio.BrokenResourceError()
    channels = [Channel(answers=1, error=broken) for _ in range(2)]
    said, errors = await on_channels(*channels, hold_on=1)
    assert (said, errors) == (both(0.01), [])


async def test_an_answer_that_was_cut_is_fetched_over_tcp() -> None:
    """RFC 7766 §5. Only the family whose answer was cut."""
    async with dns_world(lab.Truncate(kind="A")) as world:
        said, errors = await look_up(world.resolver(UDP))
        assert (said, errors) == ([(0.02, V6, TRUE6), (0.06, V4, TRUE4)], [])
        assert sorted(world.asked()) == [("A", "tcp"), ("A", "udp"), ("AAAA", "udp")]


async def test_an_answer_that_does_not_fit_into_1232_octets_is_cut_and_fetched() -> None:
    class Roomy(lab.Zone):
        def replies(self, question: bytes, *, over: Any) -> list[lab.Reply]:
            if over == "tcp":  # where the size that EDNS names is no limit
                question = question[:10] + b"\x00\x00" + question[12:-11]
            return super().replies(question, over=over)

    async with dns_world() as world:
        zone = Roomy(world.zone.hosts)
        await world.network.add_name_server("roomy.example", "192.0.2.54", zone=zone)
        said, errors = await look_up(world.resolver("udp://192.0.2.54"), "many.example", (V4,))
        assert errors == []
        assert len(said[0][2]) == 200
        assert [each.over for each in zone.asked] == ["udp", "tcp"]


async def test_a_cut_answer_without_tcp_is_an_error() -> None:
    async with dns_world(lab.Truncate()) as world:
        world.network.rules.append(lab.Refuse(address=SERVER, port=53, over="tcp"))
        said, errors = await look_up(world.resolver(UDP))
        assert said == []
        assert str(errors[0]).startswith(f"{UDP}: Connection refused")
        assert isinstance(errors[0].__cause__, ConnectionRefusedError)


async def test_over_a_stream_nothing_may_be_cut() -> None:
    async with dns_world(lab.Truncate(over=None)) as world:
        _, errors = await look_up(world.resolver(UDP), families=(V4,))
        assert says(errors) == [f"{UDP} cut its answer short, although not by UDP"]


@pytest.mark.parametrize("rcode", ["FORMERR", "NOTIMP"])
async def test_a_server_that_does_not_know_edns_is_asked_without(rcode: str) -> None:
    class Old(lab.Zone):
        def replies(self, question: bytes, *, over: Any) -> list[lab.Reply]:
            if question[11]:  # there is an additional record
                head = question[:2] + bytes([0x81, {"FORMERR": 1, "NOTIMP": 4}[rcode]])
                return [lab.Reply(0, head + question[4:10] + b"\x00\x00" + question[12:-11])]
            return super().replies(question, over=over)

    async with dns_world() as world:
        world.zone = old = Old(world.zone.hosts)
        await world.network.add_name_server("old.example", "192.0.2.54", zone=old)
        said, errors = await look_up(world.resolver("udp://192.0.2.54"))
        assert (said, errors) == (both(0.04), [])


async def test_where_nobody_listens_the_error_says_so() -> None:
    refused = anyio.BrokenResourceError()
    refused.__cause__ = OSError(errno.ECONNREFUSED, "Connection refused")
    channels = [Channel(answers=0, error=refused) for _ in range(2)]
    said, (error,) = await on_channels(*channels)
    assert (said, str(error)) == ([], f"{UDP}: Connection refused")


# --- the resolver's own name ----------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["udp://dns.example", "tcp://dns.example", "tls://dns.example", "https://dns.example/dns-query"]
)  # fmt: skip
async def test_a_resolver_with_a_name_is_found_in_the_hosts(url: str) -> None:
    async with dns_world(tls=True) as world:
        said, errors = await look_up(world.resolver(url, hosts={"dns.example": [SERVER]}))
        assert [each[1:] for each in said] == [(V6, TRUE6), (V4, TRUE4)]
        assert errors == []


async def test_of_the_addresses_of_a_name_datagrams_go_to_the_first_that_can_be_reached() -> None:
    async with dns_world() as world:

        async def dial_udp(address: str, port: int) -> Any:
            if ":" in address:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")
            return await world.dial_udp(address, port)

        names = Oracle([(1, answers("2001:db8::53", SERVER, "192.0.2.99"))])
        url = ResolverURL.parse("udp://dns.example")
        resolver = DNSResolver(url, Connector(names, dial_udp=dial_udp), tls=ResolverTLS())
        said, errors = await look_up(resolver)
        assert (said, errors) == (both(1.02), [])
        assert {address for _, address, _, _ in world.opened} == {SERVER}

        names = Oracle([(0, answers("2001:db8::53"))])
        resolver = DNSResolver(url, Connector(names, dial_udp=dial_udp), tls=ResolverTLS())
        assert says((await look_up(resolver))[1]) == ["udp://dns.example: Network is unreachable"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (Oracle([(0, answers())]), "dns.example has no IP address"),
        (
            Oracle([(0, answer4(error=OSError(5, "broken")))]),
            "could not look up dns.example: [Errno 5] broken",
        ),
        (Oracle([], error=TransportBusy("8 earlier lookups are stuck")), "8 earlier lookups are"),
    ],
)
async def test_a_resolver_whose_name_cannot_be_found_says_so(names: Oracle, words: str) -> None:
    resolver = DNSResolver(
        ResolverURL.parse("udp://dns.example"), Connector(names), tls=ResolverTLS()
    )
    _, errors = await look_up(resolver)
    assert len(errors) == 1
    assert str(errors[0]).startswith(f"udp://dns.example: {words}")


# --- streams --------------------------------------------------------------------------------

Serve = "Callable[[MemoryStream], Awaitable[None]]"


def served_by(
    serve: Callable[[MemoryStream], Awaitable[None]], tasks: Any, url: str = TCP
) -> tuple[DNSResolver, list[MemoryStream]]:
    """Return a resolver whose connections `serve` answers, and these."""
    made: list[MemoryStream] = []

    async def dial_tcp(address: str, port: int) -> ByteStream:
        near, far = stream_pair()
        made.append(near)
        tasks.start_soon(serve, far)
        return near

    connector = Connector(Oracle([]), dial_tcp=dial_tcp)
    return DNSResolver(ResolverURL.parse(url), connector, tls=ResolverTLS()), made


async def messages(stream: MemoryStream, count: int) -> list[bytes]:
    buffered = b""
    found: list[bytes] = []
    while len(found) < count:
        while len(buffered) < 2 or len(buffered) < 2 + int.from_bytes(buffered[:2], "big"):
            buffered += await stream.receive()
        end = 2 + int.from_bytes(buffered[:2], "big")
        found.append(buffered[2:end])
        buffered = buffered[end:]
    return found


def framed(*replies: bytes) -> bytes:
    return b"".join(len(each).to_bytes(2, "big") + each for each in replies)


def answered(question: bytes) -> bytes:
    return (
        lab.Zone({"both.example": ["192.0.2.1", "2001:db8::1"]})
        .replies(question, over="tcp")[0]
        .data
    )


@pytest.mark.parametrize("step", [1, 3])
async def test_answers_may_come_in_any_pieces_and_overtake_each_other(step: int) -> None:
    async def serve(far: MemoryStream) -> None:
        first, second = await messages(far, 2)
        data = framed(answered(second), answered(first))
        for start in range(0, len(data), step):
            await far.send(data[start : start + step])
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        resolver, made = served_by(serve, tasks)
        said, errors = await look_up(resolver)
        assert (said, errors) == (both(0), [])
        assert [each.closed for each in made] == [True]


async def test_a_server_may_end_the_connection_after_each_answer() -> None:
    """RFC 7766 §6.2.4."""

    async def serve(far: MemoryStream) -> None:
        (first,) = await messages(far, 1)
        await far.send(framed(answered(first)))
        await far.aclose()

    async with anyio.create_task_group() as tasks:
        resolver, made = served_by(serve, tasks)
        said, errors = await look_up(resolver)
        assert (said, errors) == (both(0), [])
        assert [each.closed for each in made] == [True, True]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"", "it closed the connection before it had answered"),
        (b"\x00", "it closed the connection before it had answered"),
        (b"\x00\x00", "it sent something that is no answer to what was asked"),
        (framed(b"garbage"), "it sent something that is no answer to what was asked"),
        (framed(bytes(16_384)), "it sent something that is no answer to what was asked"),
        (b"\x40\x01", "it sent an answer of 16385 octets"),
        (b"\xff\xff", "it sent an answer of 65535 octets"),
    ],
)
async def test_a_server_that_speaks_something_else_is_told_apart(reply: bytes, words: str) -> None:
    async def serve(far: MemoryStream) -> None:
        await messages(far, 2)
        if reply:
            await far.send(reply)
        await far.aclose()

    async with anyio.create_task_group() as tasks:
        resolver, made = served_by(serve, tasks)
        _, (error,) = await look_up(resolver)
        assert str(error) == f"{TCP}: {words}"
        assert [each.closed for each in made] == [True]


async def test_a_connection_that_breaks_is_told() -> None:
    async def serve(far: MemoryStream) -> None:
        await messages(far, 2)
        far.abort()

    async with anyio.create_task_group() as tasks:
        resolver, _ = served_by(serve, tasks)
        assert says((await look_up(resolver))[1]) == [f"{TCP}: the connection broke"]


# --- TLS and HTTPS --------------------------------------------------------------------------


@pytest.mark.parametrize("url", [TLS, HTTPS])
async def test_a_certificate_that_nobody_vouches_for_is_refused(url: str) -> None:
    async with dns_world(tls=True) as world:
        context = lab.Authority().client_context()
        resolver = DNSResolver(
            ResolverURL.parse(url),
            Connector(Oracle([]), dial_tcp=world.dial_tcp),
            tls=ResolverTLS(context),
        )
        _, (error, *_) = await look_up(resolver)
        shown = str(ResolverURL.parse(url))
        assert str(error).startswith(f"{shown}: its certificate could not be verified: ")
        assert isinstance(error.__cause__, ssl.SSLCertVerificationError)
        assert world.asked() == []


@pytest.mark.parametrize(
    "url", ["tls://other.example", "https://other.example/dns-query", "tls://192.0.2.54"]
)
async def test_a_certificate_for_somebody_else_is_refused(url: str) -> None:  # fmt: skip
    async with dns_world(tls=True) as world:
        context = authority().server_context("dns.example", SERVER)
        server = lab.DoTServer(world.zone).serve_stream
        for port in (853, 443):
            await world.network.add_site(
                "x.example", "192.0.2.54", port=port, context=context, handler=server
            )
        resolver = world.resolver(url, hosts={"other.example": ["192.0.2.54"]})
        _, (error, *_) = await look_up(resolver)
        assert "its certificate could not be verified" in str(error)
        assert world.asked() == []


async def test_who_does_not_speak_tls_is_told_apart() -> None:
    async with dns_world() as world:
        await world.network.add_site("x.example", "192.0.2.54", port=853, handler=lab.echo)
        _, (error,) = await look_up(world.resolver("tls://192.0.2.54"))
        assert str(error).startswith("tls://192.0.2.54: TLS failed: ")


@pytest.mark.parametrize("alpn", [("http/1.1",), ("h2",)])
@pytest.mark.parametrize(
    ("status", "path", "words"),
    [
        (503, "/dns-query", "it answered with HTTP status 503"),
        (200, "/elsewhere", "it answered with HTTP status 404"),
    ],
)
async def test_an_http_error_is_told(
    alpn: tuple[str, ...], status: int, path: str, words: str
) -> None:
    async with dns_world() as world:
        doh = lab.DoHServer(world.zone, status=status)
        await world.network.add_site(
            "x.example", "192.0.2.54", authority=authority(), alpn=alpn, handler=doh.serve_stream
        )
        _, errors = await look_up(world.resolver(f"https://192.0.2.54{path}", alpn=alpn))
        assert says(errors) == [f"https://192.0.2.54: {words}"]


async def test_over_https_an_answer_to_something_else_is_refused() -> None:
    forged = lab.Forge(addresses=("198.51.100.1",), flaw=lab.Flaw.QUESTION)
    async with dns_world(forged, tls=True) as world:
        _, errors = await look_up(world.resolver(HTTPS))
        assert says(errors) == [
            f"https://{SERVER}: it sent something that is no answer to what was asked"
        ]


async def test_an_http_body_may_end_with_the_connection() -> None:
    async def serve(stream: ByteStream) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive()
        head, _, body = request.partition(b"\r\n\r\n")
        assert b"POST /dns-query HTTP/1.1\r\nHost: 192.0.2.54\r\n" in head
        while len(body) < 128:
            body += await stream.receive()
        await stream.send(
            b"HTTP/1.0 200 OK\r\nContent-Type: application/dns-message\r\n\r\n" + answered(body)
        )

    async with dns_world() as world:
        await world.network.add_site(
            "x.example", "192.0.2.54", authority=authority(), handler=serve
        )
        said, errors = await look_up(world.resolver("https://192.0.2.54/dns-query"))
        assert [each[1:] for each in said] == [(V6, TRUE6), (V4, TRUE4)]
        assert errors == []


async def test_who_hangs_up_when_it_has_answered_has_answered() -> None:
    """It need not have listened to all that HTTP had to say."""

    async def open_stream() -> ByteStream:
        near, far = stream_pair()
        question = encode_question(Question(name="both.example", family=V4, id=0, padded=True))
        reply = answered(question)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n"
        await far.send(head % len(reply) + reply)
        await far.aclose()
        streams.append(near)
        return near

    streams: list[MemoryStream] = []
    told: list[Any] = []
    carrier = dns_carriers.HTTPSCarrier(open_stream, authority="dns.example", path="/q")
    await carrier.ask("both.example", (V4,), lambda family, reply: told.append(reply))
    assert told == [Reply(addresses=TRUE4)]
    assert [each.closed for each in streams] == [True]


@pytest.mark.parametrize("url", URLS)
async def test_preparing_opens_nothing(url: str) -> None:
    async with dns_world(tls=True) as world:
        resolver = world.resolver(url)
        await resolver.prepare()
        assert world.opened == []
        assert (await look_up(resolver))[1] == []


async def test_what_is_asked_in_the_open_is_not_padded_and_what_is_hidden_is() -> None:
    seen: list[int] = []

    class Watched(lab.Zone):
        def replies(self, question: bytes, *, over: Any) -> list[lab.Reply]:
            seen.append(len(question))
            return super().replies(question, over=over)

    async with dns_world() as world:
        zone = Watched(world.zone.hosts)
        await world.network.add_name_server(
            "w.example", "192.0.2.54", zone=zone, authority=authority()
        )
        for scheme, path in (("udp", ""), ("tcp", ""), ("tls", ""), ("https", "/dns-query")):
            await look_up(world.resolver(f"{scheme}://192.0.2.54{path}"), families=(V4,))
    plain = len(encode_question(Question(name="both.example", family=V4, id=1)))
    assert seen == [plain, plain, 128, 128]


# --- what is left ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "rules"),
    [
        (UDP, [lab.Delay(kind="AAAA", seconds=0.6)]),
        (UDP, [lab.Truncate(), lab.Delay(kind="AAAA", seconds=0.1)]),
        (TCP, []),
        (TLS, []),
        (HTTPS, []),
    ],
    ids=["udp", "cut", "tcp", "tls", "https"],
)
async def test_cancelled_anywhere_it_leaves_nothing_open(
    url: str, rules: list[lab.NameRule]
) -> None:
    async with dns_world(*rules, tls=True) as world:

        async def story() -> None:
            said, errors = await look_up(world.resolver(url))
            assert (len(said), errors) == (2, [])

        async def verify() -> None:
            world.assert_all_closed()
            world.ends.clear()

        sweep = await cancel_everywhere(story, verify=verify, passes=2)
        assert sweep.cancelled > 10


async def test_holding_on_cancelled_anywhere_leaves_nothing_open() -> None:
    forged = lab.Forge(addresses=("198.51.100.1",), truth_after=0.1)
    async with dns_world(forged) as world:

        async def story() -> None:
            await look_up(world.resolver(UDP, hold_on=0.25), families=(V4,))

        async def verify() -> None:
            world.assert_all_closed()

        assert (await cancel_everywhere(story, verify=verify, passes=3)).cancelled > 5


class Bug(Exception):
    """Something that no resolver should raise."""


async def test_a_bug_in_a_hook_is_raised_bare_and_at_once() -> None:
    async with dns_world(lab.Drop()) as world:
        count = 0

        async def dial_udp(address: str, port: int) -> Any:
            nonlocal count
            count += 1
            if count == 2:
                raise Bug
            return await world.dial_udp(address, port)

        connector = Connector(Oracle([]), dial_udp=dial_udp)
        resolver = DNSResolver(ResolverURL.parse(UDP), connector, tls=ResolverTLS())
        with pytest.raises(Bug):
            await resolver.resolve("both.example", BOTH, lambda answer: None)
        assert anyio.current_time() < 1


class Refusal(ConnectionRefusedError):
    """One that can be referred to weakly."""


@pytest.mark.parametrize("url", [UDP, TCP])
async def test_nothing_of_a_failed_lookup_waits_for_the_garbage_collector(url: str) -> None:
    async with dns_world(lab.Truncate()) as world:

        async def dial_tcp(address: str, port: int) -> ByteStream:
            raise Refusal(errno.ECONNREFUSED, "refused")

        connector = Connector(Oracle([]), dial_tcp=dial_tcp, dial_udp=world.dial_udp)
        resolver = DNSResolver(ResolverURL.parse(url), connector, tls=ResolverTLS())

        async def fail() -> list[weakref.ref[BaseException]]:
            try:
                await resolver.resolve("both.example", BOTH, lambda answer: None)
            except NetworkError as exc:
                if not isinstance(exc.__cause__, Refusal):
                    raise
                return [weakref.ref(exc), weakref.ref(exc.__cause__)]
            raise AssertionError

        gc.collect()
        gc.disable()
        try:
            found = await fail()
            await anyio.sleep(0.1)
            assert [each() for each in found] == [None, None]
        finally:
            gc.enable()


def test_it_shows_where_it_is_and_no_path() -> None:
    url = ResolverURL.parse("https://dns.example/s3cret")
    resolver = DNSResolver(url, Connector(Oracle([])), tls=ResolverTLS())
    assert (str(resolver), repr(resolver)) == (
        "https://dns.example",
        "DNSResolver('https://dns.example')",
    )
    assert resolver.is_encrypted
