"""What the doctor says in broken worlds, word for word."""

from __future__ import annotations

import functools
import importlib
import random
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest
import trustme

from racer import Dialer, Entrant, lab
from racer.abc import Target
from racer.doctor import Diagnosis, Finding, Verdict, Ways, check_configuration, examine
from racer.testing import ScriptedTransport, fails, wins
from tests.transports.soar.memory_world import ADDRESS, MemoryWorld
from transports.direct import Direct
from transports.proxy import Socks5
from transports.soar import generate_key
from transports.soar.core.crypto.grants import Grant
from transports.soar.core.server.credentials import IssuedGrant

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from anyio.abc import ByteStream

pytestmark = pytest.mark.virtual_time

HALF = lab.Profile(delay=0.01)
HOST, SITE, PLAIN, ENCRYPTED = "news.example", "192.0.2.7", "192.0.2.53", "192.0.2.54"
LIE = "198.51.100.66"
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@functools.cache
def authority() -> lab.Authority:
    made = lab.Authority()
    made.server_context(HOST)  # made once, and not in a loop: it writes a file
    made.server_context("dns.example", ENCRYPTED)
    return made


@pytest.fixture(autouse=True, scope="module")
def certificates() -> None:
    authority()
    # A resolver's first question loads this in a thread, whose time is real, and the clock's here is not.
    importlib.import_module("transports._net.dns_carriers")


async def dated(stream: ByteStream) -> None:
    """Answer with the hour that it is."""
    await stream.receive()
    await stream.send(f"HTTP/1.1 200 OK\r\nDate: {NOW:%a, %d %b %Y %H:%M:%S} GMT\r\n\r\n".encode())


class World:
    """A network in memory with a site, a plain resolver and perhaps an encrypted one, and `direct` in it."""

    def __init__(self, **options: Any) -> None:
        self.net = lab.Network(up=HALF, down=HALF, in_memory=True, **options)
        self.rules = self.net.rules
        self.resolvers = [f"udp://{PLAIN}"]
        self.at = NOW.timestamp()

    async def __aenter__(self) -> Self:
        await self.net.__aenter__()
        await self.net.add_site(HOST, SITE, authority=authority(), handler=dated)
        self.plain = await self.net.add_name_server("plain.example", PLAIN)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        return await self.net.__aexit__(exc_type, exc, tb)

    async def add_encrypted(self) -> lab.Zone:
        self.resolvers.append("tls://dns.example")
        return await self.net.add_name_server("dns.example", ENCRYPTED, authority=authority())

    async def dial_tcp(self, address: str, port: int) -> ByteStream:
        return await self.net.dial_tcp(ENCRYPTED if address == "dns.example" else address, port)

    @property
    def trust(self) -> ssl.SSLContext:
        return authority().client_context()

    def direct(self) -> Direct:
        return Direct(
            resolver=f"udp://{PLAIN}",
            dial_tcp=self.net.dial_tcp,
            dial_udp=self.net.dial_udp,
        )

    async def examine(self, *entrants: Any, **options: Any) -> Diagnosis:
        ways = Ways(dial_tcp=self.dial_tcp, dial_udp=self.net.dial_udp, resolver_tls=self.trust)
        began = anyio.current_time()
        async with Dialer(entrants or [self.direct()]) as dialer:
            return await examine(
                dialer,
                Target(HOST, tls=self.trust),
                resolvers=self.resolvers,
                ways=ways,
                export=False,
                clock=lambda: self.at + anyio.current_time() - began,
                **options,
            )


def by_check(diagnosis: Diagnosis) -> dict[str, Finding]:
    return {one.check: one for one in diagnosis.findings}


# --- resolvers ------------------------------------------------------------------------------------


async def test_all_is_well() -> None:
    async with World() as world:
        await world.add_encrypted()
        diagnosis = await world.examine()
    assert str(diagnosis) == (
        "OK       udp://192.0.2.53 answers in 20 ms.\n"
        "OK       tls://dns.example answers in 60 ms.\n"
        "OK       direct connected 3 times of 3, in 60 ms.\n"
        "OK       The clock agrees with news.example, within 1 s.\n"
        "\n"
        "Verdict: all is well; news.example:443 is reached."
    )
    assert diagnosis.verdict is Verdict.OK


async def test_somebody_on_the_way_is_faster_than_the_resolver() -> None:
    async with World() as world:
        world.plain.rules.append(lab.Forge(name=HOST, addresses=(LIE,), truth_after=0.05))
        diagnosis = await world.examine()
    found = by_check(diagnosis)["resolver udp://192.0.2.53"]
    assert found.verdict is Verdict.FAIL
    assert found.words == (
        "Somebody answers in the place of udp://192.0.2.53: to one question about news.example there came "
        "198.51.100.66 first, and then 192.0.2.7."
    )
    assert found.advice[0] == (
        'Use an encrypted resolver: resolver = "https://…" or "tls://…" in the options of `direct`.'
    )
    assert found.data["answers_to_one_question"] == 2


async def test_a_resolver_that_lies_is_told_from_one_that_cannot() -> None:
    async with World() as world:
        await world.add_encrypted()
        world.plain.rules.append(lab.Forge(name=HOST, addresses=(LIE,), over="udp"))
        diagnosis = await world.examine()
    found = by_check(diagnosis)
    assert found["resolver udp://192.0.2.53"].words == (
        "udp://192.0.2.53 lies, or somebody does in its place: it says that news.example is at 198.51.100.66, and "
        "tls://dns.example, in whose place nobody can answer, says 192.0.2.7."
    )
    assert found["resolver tls://dns.example"].verdict is Verdict.OK
    assert diagnosis.summary.startswith("Verdict: news.example:443 is not reached; wrong: ")


async def test_two_that_disagree_where_nobody_can_settle_it() -> None:
    async with World() as world:
        other = await world.net.add_name_server("other.example", "192.0.2.55")
        other.rules.append(lab.Forge(name=HOST, addresses=(LIE,)))
        world.resolvers.append("udp://192.0.2.55")
        diagnosis = await world.examine()
    together = by_check(diagnosis)["resolvers"]
    assert together.verdict is Verdict.WARN
    assert together.words == (
        "udp://192.0.2.53 and udp://192.0.2.55 disagree about news.example, and no encrypted resolver answered that "
        "could settle it: one of them may lie."
    )


async def test_a_resolver_that_is_silent() -> None:
    async with World() as world:
        world.plain.rules.append(lab.Drop())
        diagnosis = await world.examine(limit=2.0)
    found = by_check(diagnosis)
    assert found["resolver udp://192.0.2.53"].words == (
        "udp://192.0.2.53 does not answer: no answer within 5 s."
    )
    assert found["transport direct"].words == (
        "direct did not connect, tried once. The name's look-up got no answer in time (after 2 s). Most likely: name servers do not "
        "answer, or say what is not so."
    )


async def test_a_resolver_that_knows_no_such_name() -> None:
    async with World() as world:
        world.plain.rules.append(lab.Fail(name=HOST, rcode="NXDOMAIN"))
        diagnosis = await world.examine()
    assert by_check(diagnosis)["resolvers"].words == "No resolver knows an address of news.example."


async def test_a_resolver_that_finds_an_address_for_everything() -> None:
    async with World() as world:
        world.plain.rules.append(lab.Forge(name="*.com", addresses=("203.0.113.9",)))
        diagnosis = await world.examine()
    found = by_check(diagnosis)["resolver udp://192.0.2.53"]
    assert found.verdict is Verdict.WARN
    assert found.words == (
        "udp://192.0.2.53 gives an address, 203.0.113.9, for a name that does not exist: it leads you somewhere in "
        "place of an error."
    )
    assert diagnosis.summary == (
        "Verdict: news.example:443 is reached, by direct; odd: resolver udp://192.0.2.53."
    )


async def test_a_resolver_without_tcp() -> None:
    async with World() as world:
        world.rules.append(lab.Refuse(address=PLAIN, port=53, over="tcp"))
        diagnosis = await world.examine()
    assert by_check(diagnosis)["resolver udp://192.0.2.53"].words == (
        "udp://192.0.2.53 answers in datagrams, and not over TCP (it refuses connections): long answers get lost."
    )


# --- the way --------------------------------------------------------------------------------------


async def test_a_filter_reads_the_name() -> None:
    async with World() as world:
        world.rules.append(lab.ResetOnName(names=(HOST,)))
        proxy = ScriptedTransport("proxy", fails(0.5, PermissionError("no")))
        diagnosis = await world.examine(world.direct(), Entrant(proxy))
    found = by_check(diagnosis)
    assert found["transport direct"].words == (
        "direct did not connect, tried 3 times. The connection stood, and was cut when TLS began (after 60 ms). "
        "Under another name the same address answers: a filter on the way reads the host's name."
    )
    assert found["transport direct"].advice == (
        "Add the transport `proxyless`, which hides the name from such filters.",
        "Add `fronting`, a proxy, or `soar`, for which the filter sees another name or none.",
    )
    assert found["transport direct"].data["failures"][0] == {
        "error_type": "connection_reset",
        "stage": "tls",
        "outcome": "connect_failed",
        "peer": "192.0.2.7:443",
    }
    assert found["transport proxy"].words.endswith(
        "Most likely: a firewall or sandbox on this machine does not let the program connect."
    )
    assert found["clock"].verdict is Verdict.SKIPPED
    assert diagnosis.summary == (
        "Verdict: news.example:443 is not reached; wrong: transport direct, transport proxy."
    )


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            lab.HangOnName(names=(HOST,)),
            "Under another name the same address answers: a filter on the way reads the host's name.",
        ),
        (
            lab.AcceptAndHang(address=SITE),
            "Under another name it is no better: the address is blocked on the way, or the host is down.",
        ),
    ],
)
async def test_a_filter_of_names_is_told_from_a_blocked_address(rule: lab.Rule, words: str) -> None:
    async with World() as world:
        world.rules.append(rule)
        diagnosis = await world.examine(limit=4.0)
    found = by_check(diagnosis)["transport direct"]
    assert found.words == (
        "direct did not connect, tried once. The connection stood, and went silent when TLS began (after 4 s). "
        + words
    )


async def test_everything_but_names_is_swallowed() -> None:
    async with World() as world:
        world.rules.append(lab.Blackhole(over="tcp"))
        diagnosis = await world.examine(limit=4.0)
    found = by_check(diagnosis)["transport direct"]
    assert found.words == (
        "direct did not connect, tried once. Nothing answered at the address (after 4 s). Most likely: nothing comes through from "
        "the host's address: it is blocked on the way, or the host is down."
    )


async def test_a_transport_that_works_now_and_then() -> None:
    async with World() as world:
        moody = ScriptedTransport("moody", wins(0.25).then(fails(0.5)).then(wins(0.75)))
        async with Dialer([moody]) as dialer:
            diagnosis = await examine(dialer, Target(HOST, 80), export=False)
        del world
    (found,) = [one for one in diagnosis.findings if one.check == "transport moody"]
    assert found.verdict is Verdict.WARN
    assert found.words == (
        "moody connected only 2 times of 3, in 500 ms (250 ms to 750 ms). Else: The connection was refused (after 500 "
        "ms). Most likely: the address refuses connections: nothing listens on that port, or a filter answers in its place."
    )


async def test_a_proxy_with_another_password() -> None:
    async with World() as world:
        proxy = lab.Socks5Proxy(connect=world.net.connector(), credential=("me", "right"))
        await world.net.add_site(
            "proxy.example", "198.51.100.9", port=1080, handler=proxy.serve_stream
        )
        guest = Socks5(
            "198.51.100.9:1080", base=world.direct(), username="me", password="wrong-secret"
        )
        diagnosis = await world.examine(Entrant(guest, name="proxy"))
    found = by_check(diagnosis)["transport proxy"]
    assert found.words == (
        "proxy did not connect, tried 3 times. The credential was rejected (after 60 ms). Most likely: the proxy does not accept the "
        "user or password it was given, or wants one and was given none."
    )
    assert found.advice == (
        "Check user and password in the proxy's options; ask whoever runs the proxy.",
    )
    assert "wrong-secret" not in str(diagnosis) + diagnosis.to_json(redacted=False)


# --- the clock ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off", "verdict", "words"),
    [
        (timedelta(seconds=5), Verdict.OK, "The clock agrees with news.example, within 5 s."),
        (
            timedelta(minutes=-7),
            Verdict.WARN,
            "The clock of this machine is 7 minutes behind news.example.",
        ),
        (
            timedelta(days=-400),
            Verdict.FAIL,
            "The clock of this machine is wrong: it says 2025-10-27 12:00 UTC, 400 days behind news.example, which says 2026-12-01 12:00 UTC. No certificate can be verified with it.",
        ),
        (
            timedelta(hours=3),
            Verdict.FAIL,
            "The clock of this machine is wrong: it says 2026-12-01 15:00 UTC, 3 hours ahead of news.example, which says 2026-12-01 12:00 UTC. No certificate can be verified with it.",
        ),
    ],
)
async def test_a_clock_that_is_off(off: timedelta, verdict: Verdict, words: str) -> None:
    async with World() as world:
        world.at += off.total_seconds()
        diagnosis = await world.examine()
    found = by_check(diagnosis)["clock"]
    assert (found.verdict, found.words) == (verdict, words)


@functools.cache
def early_context() -> ssl.SSLContext:
    """A certificate that is valid only from the year 2100, of an authority of its own."""
    begins = datetime(2100, 1, 1, tzinfo=UTC)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf = trustme.CA().issue_cert(HOST, not_before=begins, not_after=begins + timedelta(days=9))
    leaf.configure_cert(context)
    return context


@pytest.fixture(scope="module", autouse=True)
def early() -> None:
    early_context()


async def test_a_clock_that_is_before_the_certificate_s_time() -> None:
    async def serve(stream: ByteStream) -> None:
        from anyio.streams.tls import TLSStream

        tls = await TLSStream.wrap(stream, server_side=True, ssl_context=early_context())
        await lab.mute(tls)

    async with World() as world:
        await world.net.add_site("early.example", "192.0.2.8", handler=serve)
        world.net.hosts[HOST] = ["192.0.2.8"]
        diagnosis = await world.examine(repeats=1)
    found = by_check(diagnosis)
    assert found["clock"].words == (
        "The clock of this machine is behind: it says 2026-12-01 12:00 UTC, and the certificate of news.example is "
        "valid only from 2100-01-01 00:00 UTC."
    )
    assert found["transport direct"].verdict is Verdict.FAIL


async def test_a_clock_that_jumps_meanwhile() -> None:
    async with World() as world, anyio.create_task_group() as group:

        async def jump() -> None:
            await anyio.sleep(0.05)
            world.at += 3600

        group.start_soon(jump)
        diagnosis = await world.examine()
    found = by_check(diagnosis)["clock jump"]
    assert found.words == (
        "The clock of this machine jumped by +3600 s while the doctor looked: it was set, or the machine slept."
    )


# --- Soar -----------------------------------------------------------------------------------------


async def of_soar(world: MemoryWorld, host: str = "echo.example", **options: Any) -> Diagnosis:
    async with Dialer([world.soar(**options)]) as dialer:
        return await examine(
            dialer, Target(host, 80, tls=False), export=False, repeats=1, limit=60.0
        )


async def test_soar_in_order() -> None:
    async with MemoryWorld() as world:
        found = by_check(await of_soar(world))
    assert [one.words for one in found.values()][1:4] == [
        "t.example.com is delegated, and answered for, as udp://192.0.2.53 sees it.".replace(
            "192.0.2.53", ADDRESS
        ),
        "The server of soar answers, with the key that is configured.",
        "soar has 1 session with its server, and 0 open streams.",
    ]


async def test_soar_with_the_server_down() -> None:
    async with MemoryWorld() as world:
        world.kill_server()
        diagnosis = await of_soar(world)
    found = by_check(diagnosis)
    assert found["transport soar"].verdict is Verdict.FAIL
    assert found["server of soar"].words == "The server of soar was not reached."
    assert found["zone of soar"].words.startswith(f"udp://{ADDRESS} does not answer about ")


async def test_soar_with_another_server_s_key() -> None:
    async with MemoryWorld() as world:
        found = by_check(await of_soar(world, server_key=generate_key().public))
    assert found["zone of soar"].verdict is Verdict.OK
    assert found["server of soar"].words == (
        "Something answers for the zone of soar, and nothing that it says is sealed with the server's key: the key is "
        "another's, or resolvers do not let the questions through."
    )
    assert found["server of soar"].advice[0] == (
        "Compare `server_key` with what the server's operator gave out."
    )


async def test_soar_with_a_server_that_may_not_reach_the_host() -> None:
    async with MemoryWorld() as world:
        found = by_check(await of_soar(world, host="forbidden.example"))
    assert found["server of soar"].words == (
        "The server of soar answers, with the key that is configured; it may not, or could not, reach the host."
    )


@pytest.mark.parametrize(
    ("is_known", "words"),
    [
        (True, "The grant has expired."),
        (False, "The server does not know the grant: it is another server's, or mistyped."),
    ],
)
async def test_soar_with_a_grant_that_does_not_do(is_known: bool, words: str) -> None:
    grant = Grant.generate(random.Random(1).randbytes)
    known = [IssuedGrant(grant=grant, expires=1.0)] if is_known else []
    async with MemoryWorld(grants=tuple(known), needs_grant=True) as world:
        diagnosis = await of_soar(world, credential=grant.to_text())
    found = by_check(diagnosis)
    assert found["server of soar"].words == words
    assert found["server of soar"].advice == (
        "Ask whoever runs the server for a new grant, and put it into the entrant's option `credential`.",
    )
    assert found["transport soar"].words.endswith(
        "Most likely: the Soar server does not accept the grant: it is missing, expired, revoked, or another server's."
    )
    assert grant.to_text() not in str(diagnosis) + diagnosis.to_json(redacted=False)


async def test_soar_with_no_grant_where_one_is_demanded() -> None:
    async with MemoryWorld(needs_grant=True) as world:
        found = by_check(await of_soar(world))
    assert found["server of soar"].words == ("The server demands a grant, and none is configured.")


# --- the configuration ----------------------------------------------------------------------------


def test_a_configuration_with_two_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "racer.toml"
    path.write_text('timout = 5\n[[entrant]]\ntransport = "direct"\nstart_delay = "soon"\n')
    configuration, findings = check_configuration(path)
    assert configuration is None
    assert [(one.check, one.verdict) for one in findings] == [("configuration", Verdict.FAIL)] * 2
    first, second = (one.words for one in findings)
    told = f"The configuration cannot be used: {path}"
    assert first == f"{told}:1: unknown key 'timout'; did you mean 'timeout'?"
    assert second.startswith(f"{told}:4: entrant 1 'direct': start_delay: ")


async def test_without_a_configuration_the_rest_is_looked_at(tmp_path: Path) -> None:
    async with World() as world:
        ways = Ways(dial_tcp=world.dial_tcp, dial_udp=world.net.dial_udp)
        broken = Finding(check="configuration", verdict=Verdict.FAIL, words="It is broken.")
        diagnosis = await examine(
            None, HOST, resolvers=world.resolvers, ways=ways, findings=[broken], export=False
        )
    assert [one.check for one in diagnosis.ranked] == [
        "configuration",
        "resolver udp://192.0.2.53",
    ]
    assert diagnosis.summary == "Verdict: wrong: configuration."
