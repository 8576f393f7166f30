"""A network in memory on a virtual clock: every time is exact, whatever the network does."""

from __future__ import annotations

import errno
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from racer import lab
from racer.errors import ConfigError
from racer.testing import (
    MemoryStream,
    StreamLedger,
    cancel_everywhere,
    run_virtual,
    stream_pair,
)
from tests.racer.lab.hellos import client_hello

if TYPE_CHECKING:
    from anyio.abc import ByteStream

pytestmark = pytest.mark.virtual_time

SITE = "192.0.2.7"
NAME = "news.example"
UP = lab.Profile(delay=0.25)
DOWN = lab.Profile(delay=0.5)
ROUND_TRIP = 0.75
network = partial(lab.Network, in_memory=True)
distant = partial(network, up=UP, down=DOWN)
AUTHORITY = lab.Authority()
CLIENT = AUTHORITY.client_context()


async def wrap(stream: ByteStream, name: str = NAME) -> TLSStream:
    return await TLSStream.wrap(
        stream, hostname=name, ssl_context=CLIENT, standard_compatible=False
    )


async def read_all(stream: ByteStream) -> bytes:
    return b"".join([data async for data in stream])


class TestSites:
    async def test_a_connection_takes_a_round_trip_and_bytes_their_way(self) -> None:
        async with distant() as net:
            site = await net.add_site(NAME, SITE)
            async with await net.dial_tcp(SITE, 443) as stream:
                assert anyio.current_time() == ROUND_TRIP
                await stream.send(b"hello")
                assert anyio.current_time() == ROUND_TRIP
                assert await stream.receive() == b"hello"
                assert anyio.current_time() == 2 * ROUND_TRIP
                assert stream.extra(SocketAttribute.remote_address) == (SITE, 443)
                assert stream.extra(SocketAttribute.remote_port) == 443
            assert site.connections == 1
            assert net.connects[SITE, 443] == 1

    async def test_tls_takes_another_round_trip(self) -> None:
        async with distant() as net:
            site = await net.add_site(NAME, SITE, authority=AUTHORITY, alpn=("h2",))
            async with await net.dial_tcp(SITE, 443) as stream:
                tls = await wrap(stream)
                assert anyio.current_time() == 2 * ROUND_TRIP
                await tls.send(b"hello")
                assert await tls.receive() == b"hello"
            assert site.handshakes == 1

    async def test_certificates_name_the_site_and_its_addresses(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE, "2001:db8::7", authority=AUTHORITY)
            for name in (NAME, SITE, "2001:db8::7"):
                async with await net.dial_tcp(SITE, 443) as stream:
                    await wrap(stream, name)
            async with await net.dial_tcp(SITE, 443) as stream:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await wrap(stream, "other.example")

    async def test_an_address_has_one_usual_form(self) -> None:
        async with network() as net:
            await net.add_site(NAME, "2001:DB8:0:0::7")
            assert net.hosts == {NAME: ["2001:db8::7"]}
            await (await net.dial_tcp("2001:db8:0::7", 443)).aclose()
            assert list(net.connects) == [("2001:db8::7", 443)]

    async def test_names_gather_addresses_once_each(self) -> None:
        async with network() as net:
            await net.add_site("News.example", SITE)
            await net.add_site(NAME, SITE, "192.0.2.8", port=80)
            assert net.hosts == {NAME: [SITE, "192.0.2.8"]}

    async def test_tls_is_ended_by_the_site_in_a_way_that_can_be_told_from_a_cut(self) -> None:
        async with distant() as net:
            await net.add_site(NAME, SITE, authority=AUTHORITY, handler=lab.hello)
            stream = await net.dial_tcp(SITE, 443)
            tls = await TLSStream.wrap(stream, hostname=NAME, ssl_context=CLIENT)
            await tls.send(b"GET / HTTP/1.1\r\nHost: news.example\r\n\r\n")
            answer = await read_all(tls)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"\r\n\r\nhello from the lab\n")
            assert anyio.current_time() == 3 * ROUND_TRIP
            await tls.aclose()  # would raise if the site had not said goodbye

    async def test_a_mute_client_does_not_hold_up_a_site_for_more_than_a_second(self) -> None:
        async def leave(stream: ByteStream) -> None:
            pass

        async with network() as net:
            await net.add_site(NAME, SITE, authority=AUTHORITY, handler=leave)
            async with await net.dial_tcp(SITE, 443) as stream:
                tls = await wrap(stream)
                with pytest.raises(anyio.EndOfStream):
                    await tls.receive()
                assert anyio.current_time() == 0
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
                assert anyio.current_time() == 1

    async def test_mute_takes_and_says_nothing(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE, handler=lab.mute)
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(bytes(200_000))
                with anyio.move_on_after(10) as scope:
                    await stream.receive()
                assert scope.cancelled_caught
                await stream.send_eof()
                assert await read_all(stream) == b""

    @pytest.mark.parametrize(
        ("addresses", "port", "word"),
        [
            ((), 443, "at least one address"),
            (("nowhere",), 443, "not an IP address"),
            ((SITE,), 443, "taken already"),
            (("192.0.2.9",), 0, "port"),
        ],
    )
    async def test_a_site_that_cannot_be_is_refused(
        self, addresses: tuple[str, ...], port: int, word: str
    ) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            with pytest.raises(ConfigError, match=word):
                await net.add_site("other.example", *addresses, port=port)
            assert list(net.hosts) == [NAME]

    async def test_of_two_that_want_a_place_one_gets_it(self) -> None:
        refused: list[ConfigError] = []

        async def add(net: lab.Network) -> None:
            try:
                await net.add_site(NAME, SITE, authority=lab.Authority())
            except ConfigError as exc:
                refused.append(exc)

        async with network() as net, anyio.create_task_group() as group:
            group.start_soon(add, net)
            group.start_soon(add, net)
        assert len(refused) == 1

    async def test_making_certificates_takes_no_virtual_time(self) -> None:
        async with network() as net:
            with anyio.fail_after(1):
                await net.add_site(NAME, SITE, authority=lab.Authority())
        assert anyio.current_time() == 0

    async def test_a_network_that_is_not_running_says_so(self) -> None:
        net = network()
        for attempt in (
            net.add_site(NAME, SITE),
            net.dial_tcp(SITE, 443),
            net.dial_udp(SITE, 53),
            net.add_name_server(NAME, SITE),
        ):
            with pytest.raises(ConfigError, match="not running"):
                await attempt

    async def test_no_door_leads_into_memory(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            with pytest.raises(ConfigError, match="no door"):
                net.door(SITE, 443)


class TestEnds:
    async def test_each_direction_ends_for_itself(self) -> None:
        async def late(stream: ByteStream) -> None:
            asked = await read_all(stream)
            await anyio.sleep(1)
            await stream.send(b"you said " + asked)

        async with distant() as net:
            await net.add_site(NAME, SITE, handler=late)
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(b"this")
                await stream.send_eof()
                assert await read_all(stream) == b"you said this"
                assert anyio.current_time() == ROUND_TRIP + 0.25 + 1 + 0.5

    async def test_a_reset_by_the_site_arrives(self) -> None:
        async def reset(stream: ByteStream) -> None:
            assert isinstance(stream, MemoryStream)
            await stream.receive()
            stream.abort()

        async with distant() as net:
            await net.add_site(NAME, SITE, handler=reset)
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(b"x")
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.receive()
                assert anyio.current_time() == 2 * ROUND_TRIP

    async def test_a_reset_by_the_client_arrives(self) -> None:
        seen: list[tuple[type[Exception], float]] = []

        async def watch(stream: ByteStream) -> None:
            try:
                await read_all(stream)
            except Exception as exc:
                seen.append((type(exc), anyio.current_time()))
                raise

        async with distant() as net:
            await net.add_site(NAME, SITE, handler=watch)
            stream = await net.dial_tcp(SITE, 443)
            await anyio.aclose_forcefully(stream)
            await anyio.sleep(1)
        assert seen == [(anyio.BrokenResourceError, 1.0)]

    async def test_bytes_for_a_site_that_has_gone_are_answered_with_a_reset(self) -> None:
        async def leave(stream: ByteStream) -> None:
            pass

        async with distant() as net:
            await net.add_site(NAME, SITE, handler=leave)
            async with await net.dial_tcp(SITE, 443) as stream:
                assert await read_all(stream) == b""
                await stream.send(b"too late")
                sent = anyio.current_time()
                with pytest.raises(anyio.BrokenResourceError):
                    while True:
                        await stream.send(b"and again")
                        await anyio.sleep(0.25)
                assert anyio.current_time() == sent + ROUND_TRIP

    async def test_bytes_for_a_client_that_has_gone_reach_the_site_as_a_reset(self) -> None:
        seen: list[float] = []

        async def talk(stream: ByteStream) -> None:
            try:
                while True:
                    await anyio.sleep(1)
                    await stream.send(b"are you there")
            except anyio.BrokenResourceError:
                seen.append(anyio.current_time())

        async with distant() as net:
            await net.add_site(NAME, SITE, handler=talk)
            await (await net.dial_tcp(SITE, 443)).aclose()
            await anyio.sleep(10)
        # It stands at 0.75; what is said a second later has its answer a round trip later, which the next word meets.
        assert seen == [0.75 + 2]

    async def test_a_handler_that_fails_ends_the_block(self) -> None:
        async def fail(stream: ByteStream) -> None:
            raise AssertionError("not what I expected")

        with pytest.raises(ExceptionGroup) as caught:
            async with network() as net:
                await net.add_site(NAME, SITE, handler=fail)
                async with await net.dial_tcp(SITE, 443) as stream:
                    await stream.receive()
                    await anyio.sleep_forever()
        assert caught.group_contains(AssertionError, match="not what I expected")

    async def test_a_handler_whose_tasks_lose_their_client_does_not(self) -> None:
        async def both(stream: ByteStream) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(stream.receive)
                group.start_soon(anyio.sleep_forever)

        async with network() as net:
            await net.add_site(NAME, SITE, handler=both)
            await (await net.dial_tcp(SITE, 443)).aclose()
            await anyio.sleep(1)

    async def test_leaving_takes_no_time_and_resets_what_is_under_way(self) -> None:
        slow = lab.Profile(delay=1000.0, rate=10.0)
        async with network(up=slow, down=slow) as net:
            await net.add_site(NAME, SITE)
            stream = await net.dial_tcp(SITE, 443)
            before = anyio.current_time()
            with anyio.move_on_after(1):
                await stream.send(bytes(1_000_000))
        assert anyio.current_time() == before + 1
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
        await stream.aclose()

    @pytest.mark.parametrize("rules", [[], [lab.Blackhole()]])
    async def test_who_dials_from_outside_is_told_when_it_is_left(
        self, rules: list[lab.Rule]
    ) -> None:
        failed: list[float] = []

        async def dial() -> None:
            with pytest.raises(OSError, match="the lab was left") as caught:
                await net.dial_tcp(SITE, 443)
            assert caught.value.errno == errno.ENETDOWN
            failed.append(anyio.current_time())

        async with anyio.create_task_group() as group, distant() as net:
            await net.add_site(NAME, SITE)
            net.rules += rules
            group.start_soon(dial)
            await anyio.sleep(0.5)
        assert failed == [0.5]

    async def test_what_the_block_raises_leaves_it_as_it_was_raised(self) -> None:
        with pytest.raises(ZeroDivisionError):
            async with distant() as net:
                await net.add_site(NAME, SITE)
                async with await net.dial_tcp(SITE, 443) as stream:
                    await stream.send(b"x")
                    raise ZeroDivisionError

    async def test_a_second_block_has_the_same_sites(self) -> None:
        net = network()
        async with net:
            await net.add_site(NAME, SITE)
        async with net, await net.dial_tcp(SITE, 443) as stream:
            await stream.send(b"x")
            assert await stream.receive() == b"x"

    async def test_connections_under_way_can_be_cut(self) -> None:
        async with distant() as net:
            await net.add_site(NAME, SITE)
            await net.add_site("other.example", "192.0.2.8", port=80)
            async with (
                await net.dial_tcp(SITE, 443) as one,
                await net.dial_tcp("192.0.2.8", 80) as other,
            ):
                await anyio.lowlevel.checkpoint()
                assert net.cut(port=443) == 1
                with pytest.raises(anyio.BrokenResourceError):
                    await one.receive()
                assert net.cut(address="192.0.2.*", silently=True) == 1
                await other.send(b"x")
                with anyio.move_on_after(100) as scope:
                    await other.receive()
                assert scope.cancelled_caught
                assert net.cut("198.51.100.1") == 0


class TestCensor:
    async def test_nobody_is_there(self) -> None:
        async with distant() as net:
            await net.add_site(NAME, SITE)
            for address, number in (("192.0.2.8", errno.EHOSTUNREACH), (SITE, errno.ECONNREFUSED)):
                before = anyio.current_time()
                with pytest.raises(OSError, match=address) as caught:
                    await net.dial_tcp(address, 80)
                assert caught.value.errno == number
                assert anyio.current_time() == before + ROUND_TRIP
            with pytest.raises(OSError, match="not an IP address"):
                await net.dial_tcp(NAME, 443)

    async def test_a_blackhole_says_nothing(self) -> None:
        async with distant() as net:
            site = await net.add_site(NAME, SITE)
            net.rules.append(lab.Blackhole(address=SITE))
            with anyio.move_on_after(1000) as scope:
                await net.dial_tcp(SITE, 443)
            assert scope.cancelled_caught
            assert site.connections == 0
            assert [(hit.at, hit.rule) for hit in net.hits] == [(0, net.rules[0])]

    async def test_a_refusal_takes_a_round_trip(self) -> None:
        async with distant() as net:
            site = await net.add_site(NAME, SITE)
            net.rules.append(lab.Refuse())
            with pytest.raises(ConnectionRefusedError):
                await net.dial_tcp(SITE, 443)
            assert anyio.current_time() == ROUND_TRIP
            assert site.connections == 0

    async def test_it_accepts_and_hangs_also_where_nothing_is(self) -> None:
        async with distant() as net:
            net.rules.append(lab.AcceptAndHang())
            async with await net.dial_tcp("192.0.2.99", 443) as stream:
                assert anyio.current_time() == ROUND_TRIP
                await stream.send(bytes(200_000))
                with anyio.move_on_after(1000) as scope:
                    await stream.receive()
                assert scope.cancelled_caught

    async def test_it_hangs_on_whoever_would_speak_first(self) -> None:
        async def banner(stream: ByteStream) -> None:
            raise AssertionError

        async with network() as net:
            site = await net.add_site(NAME, SITE, handler=banner)
            net.rules.append(lab.AcceptAndHang())
            async with await net.dial_tcp(SITE, 443) as stream:
                with anyio.move_on_after(10) as scope:
                    await stream.receive()
                assert scope.cancelled_caught
            assert site.connections == 0

    async def test_what_hangs_is_given_up_a_minute_after_the_client_has(self) -> None:
        async with network() as net:
            net.rules.append(lab.AcceptAndHang())
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send_eof()
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.receive()
                assert anyio.current_time() == 60

    async def test_it_resets_on_a_name(self) -> None:
        async with distant() as net:
            site = await net.add_site(NAME, SITE, authority=AUTHORITY)
            rule = lab.ResetOnName(names=("news.*",))
            net.rules.append(rule)
            async with await net.dial_tcp(SITE, 443) as stream:
                with pytest.raises(anyio.BrokenResourceError):
                    await wrap(stream)
            assert anyio.current_time() == 2 * ROUND_TRIP
            assert (site.connections, site.handshakes) == (1, 0)
            assert net.hits == [
                lab.Hit(at=1.0, rule=rule, address=SITE, port=443, over="tcp", name=NAME)
            ]

    async def test_it_lets_other_names_pass(self) -> None:
        async with distant() as net:
            site = await net.add_site(NAME, SITE, authority=AUTHORITY)
            net.rules.append(lab.ResetOnName(names=("other.example",)))
            async with await net.dial_tcp(SITE, 443) as stream:
                await wrap(stream)
                assert anyio.current_time() == 2 * ROUND_TRIP
                await anyio.sleep(0.5)
            assert site.handshakes == 1

    async def test_it_hangs_on_a_name(self) -> None:
        async with distant() as net:
            await net.add_site(NAME, SITE, authority=AUTHORITY)
            net.rules.append(lab.HangOnName(names=(NAME,)))
            async with await net.dial_tcp(SITE, 443) as stream:
                with anyio.move_on_after(1000) as scope:
                    await wrap(stream)
            assert scope.cancelled_caught
            assert [hit.name for hit in net.hits] == [NAME]

    @pytest.mark.parametrize(
        ("joins", "cut", "passes"),
        [(True, False, False), (True, True, False), (False, False, False), (False, True, True)],
    )
    async def test_who_joins_no_segments_is_blind_to_a_cut_name(
        self, joins: bool, cut: bool, passes: bool
    ) -> None:
        """Two sends are two segments, however soon one follows the other."""
        hello = client_hello(NAME)
        got: list[bytes] = []

        async def keep(stream: ByteStream) -> None:
            got.extend([data async for data in stream])

        async with distant() as net:
            await net.add_site(NAME, SITE, handler=keep)
            net.rules.append(lab.ResetOnName(joins_segments=joins))
            async with await net.dial_tcp(SITE, 443) as stream:
                place = hello.index(NAME.encode()) + 4 if cut else len(hello)
                await stream.send(hello[:place])
                if cut:
                    await stream.send(hello[place:])
                await stream.send_eof()
                await anyio.sleep(2)
            assert (b"".join(got) == hello) is passes
            assert len(net.hits) == (not passes)

    async def test_what_it_holds_back_is_let_through_in_the_end(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            net.rules.append(lab.ResetOnName())
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(client_hello(NAME)[:20])
                with anyio.move_on_after(1) as scope:
                    await stream.receive()
                assert scope.cancelled_caught
                await stream.send_eof()
                assert await read_all(stream) == client_hello(NAME)[:20]

    async def test_a_throttle_is_exact_each_way(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            net.rules.append(lab.Throttle(rate=1000.0))
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(bytes(500))
                assert await stream.receive() == bytes(500)
                assert anyio.current_time() == 1.0

    async def test_a_throttle_is_for_each_connection_a_rate_for_all(self) -> None:
        async def upload(net: lab.Network, times: list[float]) -> None:
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(bytes(1000))
                await stream.send_eof()
                await read_all(stream)
                times.append(anyio.current_time())

        for rules, up, expected in (
            ([lab.Throttle(rate=1000.0)], lab.CLEAN, [1.0, 1.0]),
            # The end of the first comes behind the bytes of the second.
            ([], lab.Profile(rate=1000.0), [2.0, 2.0]),
        ):
            before = anyio.current_time()
            times: list[float] = []
            async with network(up=up) as net:
                net.rules += rules
                await net.add_site(NAME, SITE, handler=lab.mute)
                async with anyio.create_task_group() as group:
                    group.start_soon(upload, net, times)
                    group.start_soon(upload, net, times)
            assert [at - before for at in times] == expected

    async def test_who_sends_faster_than_a_throttle_has_to_wait(self) -> None:
        """64 KiB wait at the client's end, 64 KiB that were read once, and what is queued; the rest pushes back."""
        async with network() as net:
            await net.add_site(NAME, SITE, handler=lab.mute)
            net.rules.append(lab.Throttle(rate=16_384.0))
            async with await net.dial_tcp(SITE, 443) as stream:
                sent = 0
                with anyio.move_on_after(10):
                    while True:
                        await stream.send(bytes(8192))
                        sent += 8192
            assert 10 * 16_384 <= sent <= 10 * 16_384 + 2 * 65_536 + 16_384 + 8192

    async def test_who_is_not_read_by_the_site_has_to_wait(self) -> None:
        async def deaf(stream: ByteStream) -> None:
            await anyio.sleep_forever()

        async with network() as net:
            await net.add_site(NAME, SITE, handler=deaf)
            async with await net.dial_tcp(SITE, 443) as stream:
                sent = 0
                with anyio.move_on_after(10):
                    while True:
                        await stream.send(bytes(8192))
                        sent += 8192
            assert 2**20 <= sent <= 2**20 + 4 * 65_536

    async def test_connections_keep_the_rules_under_which_they_began(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            async with await net.dial_tcp(SITE, 443) as stream:
                net.rules.append(lab.Blackhole())
                await stream.send(b"x")
                assert await stream.receive() == b"x"

    async def test_the_allowed_are_spared(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            net.rules += [lab.Allow(address=SITE), lab.Refuse()]
            await (await net.dial_tcp(SITE, 443)).aclose()
            with pytest.raises(ConnectionRefusedError):
                await net.dial_tcp("192.0.2.8", 443)


class TestConnector:
    async def test_it_knows_names_and_addresses(self) -> None:
        async with network() as net:
            await net.add_site(NAME, SITE)
            connect = net.connector()
            for host in (NAME, "NEWS.example.", SITE):
                async with await connect(host, 443) as stream:
                    await stream.send(b"x")
                    assert await stream.receive() == b"x"
            with pytest.raises(socket.gaierror, match="nobody"):
                await connect("nobody.example", 443)

    async def test_it_tries_one_address_after_the_other(self) -> None:
        async with network() as net:
            await net.add_site(NAME, "192.0.2.8", SITE)
            net.rules.append(lab.Refuse(address="192.0.2.8"))
            await (await net.connector()(NAME, 443)).aclose()
            net.rules.append(lab.Refuse(address=SITE))
            with pytest.raises(ConnectionRefusedError, match=SITE):
                await net.connector()(NAME, 443)

    async def test_it_may_be_exempt_from_the_rules_but_not_from_the_link(self) -> None:
        async with distant() as net:
            await net.add_site(NAME, SITE)
            net.rules.append(lab.Refuse())
            await (await net.connector(censored=False)(NAME, 443)).aclose()
            assert anyio.current_time() == ROUND_TRIP
            assert net.hits == []


ROUGH = lab.Profile(delay=0.125, jitter=0.25, loss=0.2, corrupt=0.05, rate=100_000.0)


def tell(seed: int, backend: str) -> list[list[tuple[float, bytes]]]:
    """What several connections, begun in the same instant, get back over a rough link, and when."""
    told: list[list[tuple[float, bytes]]] = [[] for _ in range(4)]

    async def talk(net: lab.Network, number: int) -> None:
        async with await net.dial_tcp(f"192.0.2.{number}", 443) as stream:
            told[number].append((anyio.current_time(), b""))
            await stream.send(bytes([number]) * 4000)
            await stream.send_eof()
            async for data in stream:
                told[number].append((anyio.current_time(), data))

    async def main() -> None:
        async with network(seed=seed, up=ROUGH, down=ROUGH) as net:
            for number in range(4):
                await net.add_site(NAME, f"192.0.2.{number}")
            for number in range(
                4
            ):  # the link's rate is shared: who is first is not for the loop to say
                await talk(net, number)

    run_virtual(main, backend=backend)  # type: ignore[arg-type]
    return told


class TestSeeds:
    def test_the_same_seed_gives_the_same_network_on_either_loop(self) -> None:
        told = tell(7, "asyncio")
        assert told == tell(7, "asyncio") == tell(7, "trio")
        assert told != tell(8, "asyncio")
        assert len({times[0][0] for times in told}) == 4  # each connection has dice of its own

    def test_dice_do_not_depend_on_what_happens_first(self) -> None:
        """Four connections to four places at once: each finds what it finds alone."""

        def stands(*numbers: int) -> dict[int, float]:
            times: dict[int, float] = {}

            async def dial(net: lab.Network, number: int) -> None:
                await (await net.dial_tcp(f"192.0.2.{number}", 443)).aclose()
                times[number] = anyio.current_time()

            async def main() -> None:
                async with network(up=ROUGH, down=ROUGH) as net, anyio.create_task_group() as group:
                    for number in numbers:
                        await net.add_site(NAME, f"192.0.2.{number}")
                        group.start_soon(dial, net, number)

            run_virtual(main, backend="trio")
            return times

        together = stands(0, 1, 2, 3)
        assert together == stands(3, 2, 1, 0)
        assert all(stands(number) == {number: together[number]} for number in range(4))

    async def test_a_lossy_link_delays_by_whole_timeouts(self) -> None:
        async with network(up=lab.Profile(delay=0.25, loss=0.5), seed=4) as net:
            await net.add_site(NAME, SITE)
            waits = []
            for _ in range(30):
                before = anyio.current_time()
                async with await net.dial_tcp(SITE, 443) as stream:
                    waits.append(anyio.current_time() - before)
                    before = anyio.current_time()
                    await stream.send(b"x")
                    await stream.receive()
                    waits.append(anyio.current_time() - before)
        standing = {round(wait, 6) for wait in waits[::2]}
        sending = {round(wait, 6) for wait in waits[1::2]}
        assert {0.25, 1.25, 3.25} <= standing <= {0.25 + 2**n - 1 for n in range(8)}
        assert {0.25, 0.75, 1.75} <= sending <= {0.25 + 0.5 * (2**n - 1) for n in range(10)}


async def test_cancelled_anywhere_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = StreamLedger()
    monkeypatch.setattr("racer.lab._network.stream_pair", partial(stream_pair, ledger=ledger))

    async def story() -> None:
        async with distant() as net:
            await net.add_site(NAME, SITE)
            async with await net.dial_tcp(SITE, 443) as stream:
                await stream.send(b"hello")
                await stream.receive()
                await stream.send_eof()
                await read_all(stream)

    async def verify() -> None:
        ledger.assert_all_closed()

    sweep = await cancel_everywhere(story, verify=verify, passes=4)
    assert sweep.cancelled > 50
    assert len(ledger.streams) > 200
