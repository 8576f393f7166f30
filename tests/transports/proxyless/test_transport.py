"""Stories of a censored network: what is found, what is remembered, and what makes it search again."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import racer
from racer import lab
from racer.abc import Attempt, Outcome, Progress, Stage, Target
from racer.errors import (
    AttemptTimeout,
    ConfigError,
    ErrorType,
    NetworkError,
    TransportError,
    error_type_of,
)
from racer.testing import ScriptedTransport, hangs
from tests.transports.proxyless.worlds import (
    ADDRESS,
    CONTEXT,
    DELAY,
    DOT,
    FORGED,
    HONEST,
    HOST,
    PROXY,
    UDP,
    Told,
    World,
    exchange,
    target,
    use,
)
from transports.proxyless import Proxyless
from transports.proxyless._memory import ADDRESS_TTL

if TYPE_CHECKING:
    from anyio.abc import ByteStream

pytestmark = pytest.mark.virtual_time

RTT = 2 * DELAY
SHORT_SIGHTED = lab.ResetOnName(names=(HOST,), joins_segments=False)
FIRST_RECORD = lab.ResetOnName(names=(HOST,), joins_records=False)
BOTH_EYES = lab.ResetOnName(names=(HOST,))
LIE = lab.Forge(name=HOST, addresses=(FORGED,))


def verdict(
    outcome: Outcome, why: ErrorType | None = None, peer: str = f"{ADDRESS}:443"
) -> Attempt:
    stage = None if why is None else Stage.TLS
    return Attempt(transport="proxyless", outcome=outcome, error_type=why, peer=peer, stage=stage)


# --- what is found --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "lies", "found"),
    [
        ((), (), (UDP, "direct")),
        ((SHORT_SIGHTED,), (), (UDP, "split:1")),
        ((FIRST_RECORD,), (), (UDP, "tlsfrag:1")),
        ((SHORT_SIGHTED, FIRST_RECORD), (), (UDP, "split:1|tlsfrag:1")),
        ((), (LIE,), (DOT, "direct")),
        ((), (lab.Forge(addresses=("10.10.34.36",)),), (DOT, "direct")),
        ((), (lab.Forge(addresses=("0.0.0.0",), truth_after=0.1),), (DOT, "direct")),
        ((), (lab.Fail(rcode="NXDOMAIN"),), (DOT, "direct")),
        ((), (lab.Drop(),), (DOT, "direct")),
        ((SHORT_SIGHTED,), (LIE,), (DOT, "split:1")),
        ((lab.Blackhole(address=FORGED), SHORT_SIGHTED), (LIE,), (DOT, "split:1")),
    ],
)
async def test_what_gets_through_is_found_and_used_at_once_from_then_on(
    rules: tuple[lab.Rule, ...], lies: tuple[lab.NameRule, ...], found: tuple[str, str]
) -> None:
    async with World.of(*rules) as world:
        world.zone.rules += lies
        transport = await world.started()
        assert await use(transport) == (*found, False)
        dialed, began = world.dialed, anyio.current_time()
        hits = len(world.net.hits)
        assert await use(transport) == (*found, True)
        # Connect, TLS 1.3, a request: nothing was searched, asked or reset any more.
        assert world.dialed == dialed + 1
        assert len(world.net.hits) == hits
        assert anyio.current_time() - began == pytest.approx(3 * RTT, rel=0.1)


async def test_a_free_network_costs_one_lookup_and_one_probe() -> None:
    async with World.of() as world:
        transport = await world.started()
        told = Told()
        async with await transport.connect(target(), told) as stream:
            # The lookup; the probe's connection, TLS and request; the connection itself.
            assert anyio.current_time() == pytest.approx((1 + 3 + 1) * RTT)
            await exchange(stream, target())
        assert told.stages == ["resolve", "resolve", "connect"]
        assert told.peers == [f"{ADDRESS}:443"]
        assert told.chosen == (UDP, "direct", False)
        assert world.dialed == 2


async def test_a_handshake_alone_is_no_proof() -> None:
    """A censor that lets TLS through and nothing after it (outline-sdk#496)."""

    async def only_handshakes(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    async with World.of() as world:
        mute = await lab_context(HOST)
        await world.net.add_site(
            "mute.example", "203.0.113.7", context=mute, handler=only_handshakes
        )
        world.zone.rules.append(lab.Forge(name=HOST, addresses=("203.0.113.7",)))
        transport = await world.started()
        assert await use(transport) == (DOT, "direct", False)


async def lab_context(name: str) -> Any:
    from tests.transports.proxyless.worlds import TRUSTED

    return await TRUSTED.make_server_context(name)


async def test_an_address_needs_no_resolver() -> None:
    async with World.of(SHORT_SIGHTED) as world:
        await world.net.add_site(
            "203.0.113.7",
            "203.0.113.7",
            context=await lab_context("203.0.113.7"),
            handler=lab.hello,
        )
        transport = await world.started()
        assert await use(transport, target("203.0.113.7")) == ("", "direct", False)
        assert await use(transport, target("203.0.113.7")) == ("", "direct", True)
        assert world.zone.asked == []


async def test_without_tls_there_are_resolvers_and_no_tricks() -> None:
    async with World.of() as world:
        await world.net.add_site("plain.example", "203.0.113.8", port=80)
        world.zone.rules.append(lab.Fail(name="plain.example"))
        transport = await world.started(strategies=["split:1"])
        told = Told()
        wanted = Target("plain.example", 80, tls=False)
        async with await transport.connect(wanted, told) as stream:
            await stream.send(b"ping")
            assert await stream.receive() == b"ping"
        assert told.chosen == (DOT, "direct", False)
        await (await transport.connect(wanted, told)).aclose()
        assert told.chosen == (DOT, "direct", True)


async def test_the_users_own_table_goes_before_all_resolvers() -> None:
    async with World.of() as world:
        world.zone.rules.append(LIE)
        transport = await world.started(hosts={HOST: [ADDRESS]})
        await use(transport)
        assert world.zone.asked == []


async def test_a_resolver_behind_another_address_proves_its_own_name() -> None:
    text = f"""
dns:
  - tls: {{ name: other.example, address: {HONEST} }}
  - tls: {{ name: honest.example, address: {HONEST} }}
"""
    async with World.of() as world:
        transport = Proxyless.from_outline(
            text,
            resolver_tls=CONTEXT,
            dial_tcp=world.net.dial_tcp,
            dial_udp=world.net.dial_udp,
            network=lambda: "home",
        )
        await transport.start(world.host)
        found = (f"tls://honest.example at {HONEST}:853", "direct", False)
        assert await use(transport) == found


async def test_an_override_leads_elsewhere() -> None:
    async with World.of(lab.Blackhole(address=ADDRESS, port=443)) as world:
        context = await lab_context(HOST)
        await world.net.add_site(
            "front.example", "203.0.113.7", port=8443, context=context, handler=lab.hello
        )
        transport = await world.started(strategies=["", "override:host=front.example&port=8443"])
        found = (UDP, "override:host=front.example&port=8443")
        assert await use(transport) == (*found, False)
        assert await use(transport) == (*found, True)


# --- who waits ------------------------------------------------------------------------------


async def test_eight_who_come_at_once_share_one_search() -> None:
    async with World.of() as world:
        transport = await world.started()
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(use, transport)
        assert world.dialed == 1 + 8
        assert len(world.zone.asked) == 2  # A and AAAA


async def test_who_gives_up_leaves_the_search_to_the_next() -> None:
    async with World.of(SHORT_SIGHTED) as world:
        transport = await world.started()
        with pytest.raises(TimeoutError):
            with anyio.fail_after(1.5 * RTT):
                await use(transport)
        assert anyio.current_time() == 1.5 * RTT
        assert transport.status().health == "searching"
        await use(transport)
        assert len(world.zone.asked) == 2
        assert transport.status().health == "ok"
        assert transport.status().details["winners"] == 1


async def test_a_host_that_is_blocked_does_not_hold_up_another() -> None:
    """kindling#48: a search for both would fail for both."""
    async with World.of(lab.Blackhole(address="203.0.113.7")) as world:
        context = await lab_context("other.example")
        await world.net.add_site("other.example", "203.0.113.7", context=context)
        transport = await world.started()
        async with anyio.create_task_group() as group:

            async def blocked() -> None:
                with pytest.raises(NetworkError, match="nothing came back within 5 s") as caught:
                    await transport.connect(target("other.example"), Progress())
                assert caught.value.error_type is ErrorType.TIMEOUT

            group.start_soon(blocked)
            await use(transport)
            assert anyio.current_time() < 1.0


async def test_a_new_host_begins_with_what_works_in_this_network() -> None:
    async with World.of(lab.ResetOnName(names=("*",), joins_records=False)) as world:
        context = await lab_context("other.example")
        await world.net.add_site("other.example", "203.0.113.7", context=context, handler=lab.hello)
        transport = await world.started()
        await use(transport)
        hits = len(world.net.hits)
        assert await use(transport, target("other.example")) == (UDP, "tlsfrag:1", False)
        assert len(world.net.hits) == hits


# --- when it stops working ------------------------------------------------------------------


async def test_it_searches_again_when_what_worked_is_filtered_later() -> None:
    async with World.of(SHORT_SIGHTED) as world:
        transport = await world.started()
        assert await use(transport) == (UDP, "split:1", False)
        world.net.rules[:] = [FIRST_RECORD]
        with pytest.raises(anyio.BrokenResourceError):
            await use(transport)  # TLS fails after connect() has returned,
        transport.observe(verdict(Outcome.CONNECT_FAILED, ErrorType.CONNECTION_RESET))
        assert await use(transport) == (UDP, "tlsfrag:1", False)
        assert await use(transport) == (UDP, "tlsfrag:1", True)


async def test_it_searches_again_within_the_dial_when_the_address_fails() -> None:
    async with World.of() as world:
        transport = await world.started()
        await use(transport)
        world.net.rules.append(lab.Refuse(address=ADDRESS))
        world.zone.hosts = {HOST: ["203.0.113.7"]}
        await world.net.add_site(
            HOST, "203.0.113.7", context=await lab_context(HOST), handler=lab.hello
        )
        assert await use(transport) == (UDP, "direct", False)


async def test_it_searches_again_within_the_dial_when_the_address_is_silent() -> None:
    async with World.of() as world:
        transport = await world.started()
        await use(transport)
        world.net.rules.append(lab.Blackhole(address=ADDRESS))
        world.zone.hosts = {HOST: ["203.0.113.7"]}
        context = await lab_context(HOST)
        await world.net.add_site("new.example", "203.0.113.7", context=context, handler=lab.hello)
        began = anyio.current_time()
        assert await use(transport) == (UDP, "direct", False)
        assert anyio.current_time() - began == pytest.approx(5.0 + 7 * RTT)


@pytest.mark.parametrize(
    ("outcome", "why", "again"),
    [
        (Outcome.CONNECT_FAILED, ErrorType.CERTIFICATE_INVALID, True),
        (Outcome.TIMED_OUT, ErrorType.TIMEOUT, True),
        (Outcome.CONNECTED, None, False),
        (Outcome.CONNECT_FAILED, ErrorType.NOT_USABLE, False),
    ],
)
async def test_which_verdicts_make_it_search_again(
    outcome: Outcome, why: ErrorType | None, again: bool
) -> None:
    async with World.of() as world:
        transport = await world.started()
        await use(transport)
        transport.observe(verdict(outcome, why, peer="192.0.2.99:443"))  # somebody else's
        await use(transport)
        assert len(world.zone.asked) == 2
        transport.observe(verdict(outcome, why))
        _, _, remembered = await use(transport)
        assert remembered is not again


async def test_offline_teaches_nothing() -> None:
    async with World.of(SHORT_SIGHTED) as world:
        is_offline = False

        async def dial_tcp(address: str, port: int) -> ByteStream:
            if is_offline:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")
            return await world.net.dial_tcp(address, port)

        async def dial_udp(address: str, port: int) -> Any:
            if is_offline:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")
            return await world.net.dial_udp(address, port)

        transport = await world.started(dial_tcp=dial_tcp, dial_udp=dial_udp)
        assert await use(transport) == (UDP, "split:1", False)
        is_offline = True
        for wait in (0.0, ADDRESS_TTL):
            await anyio.sleep(wait)
            with pytest.raises((OSError, TransportError)):
                await use(transport)
        is_offline = False
        assert await use(transport) == (UDP, "split:1", True)


async def test_every_network_has_its_own_winner() -> None:
    async with World.of(SHORT_SIGHTED) as world:
        transport = await world.started()
        assert await use(transport) == (UDP, "split:1", False)
        world.network = "café"
        world.net.rules[:] = [FIRST_RECORD]
        assert await use(transport) == (UDP, "tlsfrag:1", False)
        world.network = "home"
        world.net.rules[:] = [SHORT_SIGHTED]
        assert await use(transport) == (UDP, "split:1", True)


async def test_a_winner_is_forgotten_in_the_end() -> None:
    async with World.of() as world:
        transport = await world.started(ttl=100.0)
        await use(transport)
        await anyio.sleep(99.0)
        assert (await use(transport))[2]
        await anyio.sleep(1.0)
        assert not (await use(transport))[2]


async def test_addresses_are_asked_for_again_after_a_minute() -> None:
    async with World.of() as world:
        transport = await world.started()
        await use(transport)
        await anyio.sleep(ADDRESS_TTL / 2)
        await use(transport)
        assert len(world.zone.asked) == 2
        await anyio.sleep(ADDRESS_TTL / 2)
        assert await use(transport) == (UDP, "direct", True)
        assert len(world.zone.asked) == 4
        await use(transport)
        assert len(world.zone.asked) == 4


# --- when nothing works ---------------------------------------------------------------------


async def test_all_causes_are_told() -> None:
    async with World.of(BOTH_EYES) as world:
        world.zone.rules.append(lab.Fail(rcode="SERVFAIL"))
        transport = await world.started(strategies=["", "split:1"])
        with pytest.raises(NetworkError) as caught:
            await use(transport)
    text = str(caught.value)
    assert text.startswith(f"nothing that was tried reaches {HOST}:443: {UDP}: ")
    for words in ("SERVFAIL", f"{DOT} + direct: the connection was cut off", f"{DOT} + split:1: "):
        assert words in text
    group = caught.value.__cause__
    assert isinstance(group, ExceptionGroup)
    kinds = [error_type_of(each) for each in group.exceptions]
    assert kinds == [ErrorType.DNS_FAILURE, *[ErrorType.CONNECTION_RESET] * 2]
    assert all(each.__cause__ is not None for each in group.exceptions)


async def test_the_next_dial_searches_again_when_nothing_worked() -> None:
    async with World.of(BOTH_EYES) as world:
        transport = await world.started()
        for _ in range(2):
            with pytest.raises(NetworkError):
                await use(transport)
        world.net.rules.clear()
        assert await use(transport) == (UDP, "direct", False)


async def test_a_search_ends_in_time() -> None:
    async with World.of(lab.Blackhole()) as world:
        world.zone.rules.append(lab.Drop())
        transport = await world.started(search_timeout=4.0)
        with pytest.raises(AttemptTimeout, match=r"no end of .* in time"):
            await use(transport)
        assert anyio.current_time() == 4.0


async def test_a_proxy_is_what_is_left() -> None:
    async with World.of(BOTH_EYES) as world:
        url = f"socks5://{PROXY[0]}:{PROXY[1]}"
        transport = await world.started(fallbacks=[url], strategies=["", "split:1"])
        assert await use(transport) == ("", url, False)
        hits = len(world.net.hits)
        assert await use(transport) == ("", url, True)
        assert len(world.net.hits) == hits  # nothing but the proxy was tried
        transport.observe(
            verdict(Outcome.CONNECT_FAILED, ErrorType.TIMEOUT, f"{PROXY[0]}:{PROXY[1]}")
        )
        world.net.rules.clear()
        assert await use(transport) == (UDP, "direct", False)


async def test_a_resolver_that_crashes_is_told_as_a_bug() -> None:
    class Buggy:
        async def resolve(self, *_: Any) -> None:
            raise ZeroDivisionError

    async with World.of() as world:
        transport = await world.started(resolvers=[Buggy()])
        with pytest.raises(ZeroDivisionError):
            await use(transport)


# --- in a race ------------------------------------------------------------------------------


async def test_in_a_race_it_wins_where_direct_is_reset_and_learns_from_the_verdict() -> None:
    async with World.of(SHORT_SIGHTED) as world:
        stuck = ScriptedTransport("stuck", hangs())
        entrants = [racer.Entrant(stuck), racer.Entrant(world.make())]
        async with racer.Dialer(entrants) as dialer:
            async with await dialer.dial(HOST, tls=CONTEXT) as conn:
                assert conn.transport_name == "proxyless"
                began = conn.report["proxyless"].started_at
                assert began == 0.3
            world.net.rules[:] = [FIRST_RECORD]
            with pytest.raises(racer.errors.AllAttemptsFailed):
                await dialer.dial(HOST, tls=CONTEXT, exclude="stuck")
            async with await dialer.dial(HOST, tls=CONTEXT) as conn:
                assert conn.transport_name == "proxyless"


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("news.example", 443, None),
        ("news.example", 80, None),
        ("192.0.2.7", 443, None),
        ("192.0.2.7", 80, "has no name to hide"),
        ("localhost", 443, "only this machine or its own network"),
        ("printer.local", 443, "only this machine or its own network"),
        ("intranet", 80, "only this machine or its own network"),
    ],
)
def test_what_it_serves(host: str, port: int, reason: str | None) -> None:
    said = Proxyless().serves(Target(host, port))
    assert said is None if reason is None else reason in (said or "")


async def test_strangers_never_hear_names_of_this_network() -> None:
    async with World.of() as world:
        transport = await world.started()
        with pytest.raises(NetworkError, match="no resolver that may be asked"):
            await transport.connect(target("printer.local"), Progress())
        assert world.zone.asked == []


# --- beginning and end ----------------------------------------------------------------------


async def test_before_its_start_and_after_its_end_it_connects_nothing() -> None:
    async with World.of() as world:
        transport = world.make()
        with pytest.raises(TransportError, match="was not started"):
            await use(transport)
        await transport.start(world.host)
        await use(transport)
        await transport.aclose()
        with pytest.raises(TransportError, match="was closed"):
            await use(transport)


async def test_its_end_ends_what_is_searched() -> None:
    async with World.of(lab.Blackhole()) as world:
        transport = await world.started()
        caught: list[str] = []

        async def want() -> None:
            try:
                await use(transport)
            except TransportError as exc:
                caught.append(str(exc))

        async with anyio.create_task_group() as group:
            group.start_soon(want)
            await anyio.sleep(1.0)
            await transport.aclose()
        assert len(caught) == 1
        assert anyio.current_time() == 1.0


async def test_two_users_share_it() -> None:
    async with World.of() as world:
        transport = await world.started()
        await transport.start(world.host)
        await transport.aclose()
        await use(transport)
        await transport.aclose()
        with pytest.raises(TransportError, match="was closed"):
            await use(transport)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resolvers": []}, "resolvers: a list of 0; 1 to 64 are taken"),
        ({"resolvers": "system"}, "resolvers must be a list, not str"),
        ({"resolvers": ["system", "system"]}, r"resolvers\[1\]: system stands in the list already"),
        ({"resolvers": ["htps://a/"]}, r"resolvers\[0\]: scheme 'htps' is not known"),
        ({"resolvers": [7]}, r"resolvers\[0\] must be 'system', a URL"),
        ({"strategies": []}, "strategies: a list of 0; 1 to 32"),
        ({"strategies": ["splitt:1"]}, r"strategies\[0\]: .*splitt"),
        ({"fallbacks": ["http://a"]}, r"fallbacks\[0\]: not a URL such as socks5"),
        ({"fallbacks": [7]}, r"fallbacks\[0\] must be a socks5:// URL"),
        ({"fallbacks": ["socks5://a", "socks5://a"]}, "two of the same name"),
        ({"hosts": []}, "hosts must be a table"),
        ({"resolver_tls": 7}, "resolver_tls must be an ssl.SSLContext"),
        ({"dial_tcp": 7}, "dial_tcp must be an async function"),
        ({"ttl": 0}, "ttl must be a finite, positive"),
        ({"probe_timeout": -1.0}, "probe_timeout must be"),
        ({"search_timeout": float("inf")}, "search_timeout must be"),
        ({"max_probes": 0}, "max_probes must be a whole number"),
        ({"max_probes": True}, "max_probes must be a whole number"),
        ({"network": "home"}, "network must be a function"),
        ({"memory": 7}, "memory must be the path of a file"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Proxyless(**options)


def test_it_shows_what_it_tries_and_no_secret() -> None:
    made = Proxyless(
        resolvers=["system", "https://192.0.2.1/secret"], fallbacks=["socks5://me:secret@a"]
    )
    assert repr(made) == (
        "<Proxyless: system, https://192.0.2.1; direct, split:sni|tlsfrag:sni, split:sni, "
        "disorder:0|split:sni|tlsfrag:sni, disorder:0|split:sni>"
    )
    assert "secret" not in f"{made.status()}"


async def test_it_is_raw_until_the_race_wraps_it() -> None:
    async with World.of() as world:
        transport = await world.started()
        async with await transport.connect(target(), Progress()) as stream:
            await exchange(stream, target())
