"""Direct with resolvers of the user's choice, in the lab's network on a virtual clock, and its options for them."""

from __future__ import annotations

import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import racer
from racer import lab
from racer.abc import MakeContext, Progress, Stage, Target, TransportStatus
from racer.errors import ConfigError, ErrorType, NetworkError, error_type_of
from racer.testing import cancel_everywhere
from tests.transports.net.dns_world import SERVER, DNSWorld, authority, dns_world
from tests.transports.net.world import Diary, Oracle, answers
from transports.direct import Direct, SystemResolver, make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAME = Target("site.example", 443, tls=False)
SITE4, SITE6 = "192.0.2.80", "2001:db8::80"
FALSE4, FALSE6 = "198.51.100.66", "2001:db8:bad::66"

UDP, TLS = f"udp://{SERVER}", f"tls://{SERVER}"
SECOND = "192.0.2.54"


@asynccontextmanager
async def world(*rules: lab.NameRule) -> AsyncIterator[DNSWorld]:
    """Yield a network with a site that has both families, and a name server, each 20 ms away and back."""
    async with dns_world(*rules, hosts={}, tls=True) as made:
        made.zone.hosts = made.network.hosts
        await made.network.add_site("site.example", SITE6, SITE4)
        yield made


def direct(at: DNSWorld, **options: Any) -> Direct:
    context = authority().client_context()
    return Direct(dial_tcp=at.dial_tcp, dial_udp=at.dial_udp, resolver_tls=context, **options)


async def reached(transport: Direct, target: Target = NAME) -> tuple[str, float]:
    """Return which address a connection went to, and after how many seconds; it echoes, and is closed."""
    diary = Diary()
    begun = anyio.current_time()
    async with await transport.connect(target, diary) as stream:
        took = round(anyio.current_time() - begun, 6)
        await stream.send(b"ping")
        assert await stream.receive() == b"ping"
    assert diary.stages[0] is Stage.RESOLVE
    return diary.peers[-1][0], took


# --- lookups --------------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("resolver", "at"),
    [
        (UDP, 0.04),
        (f"tcp://{SERVER}", 0.06),
        (TLS, 0.08),
        (f"https://{SERVER}/dns-query", 0.08),
        ([UDP], 0.04),
        (["udp://192.0.2.99", UDP], 0.29),
        (["tcp://192.0.2.99", TLS], 0.10),
        (["tcp://192.0.2.99", Oracle([(1, answers(SITE4))])], 1.04),
    ],
)
async def test_the_name_is_looked_up_where_the_user_wants(resolver: Any, at: float) -> None:
    async with world() as made:
        address, took = await reached(direct(made, resolver=resolver))
        assert took == at
        assert address == (SITE4 if at > 1 else SITE6)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("rule", "address", "at"),
    [
        pytest.param(lab.Delay(kind="AAAA", seconds=0.04), SITE6, 0.08, id="AAAA within 50 ms"),
        pytest.param(lab.Delay(kind="AAAA", seconds=3), SITE4, 0.09, id="AAAA after 50 ms"),
        pytest.param(lab.Drop(kind="AAAA"), SITE4, 0.09, id="AAAA swallowed"),
        pytest.param(lab.Fail(kind="AAAA"), SITE4, 0.04, id="AAAA failed: no wait"),
        pytest.param(lab.Delay(kind="A", seconds=3), SITE6, 0.04, id="A late"),
        pytest.param(lab.Drop(kind="A"), SITE6, 0.04, id="A swallowed"),
    ],
)
async def test_one_familys_trouble_costs_no_more_than_the_resolution_delay(
    rule: lab.NameRule, address: str, at: float
) -> None:
    """RFC 8305 §3, §8."""
    async with world(rule) as made:
        assert await reached(direct(made, resolver=UDP)) == (address, at)
        assert sorted(made.asked()[:2]) == [("A", "udp"), ("AAAA", "udp")]


@pytest.mark.virtual_time
async def test_a_forgery_is_reached_without_a_second_opinion_and_not_with_one() -> None:
    forged = lab.Forge(
        name="site.example", addresses=(FALSE4, FALSE6), truth_after=0.01, over="udp"
    )
    async with world(forged) as made:
        await made.network.add_site("trap.example", FALSE4, FALSE6)
        assert await reached(direct(made, resolver=[UDP, TLS])) == (FALSE6, 0.04)
        careful = direct(made, resolver=[UDP, TLS], second_opinion=True)
        assert await reached(careful) == (SITE6, 0.08)


@pytest.mark.virtual_time
async def test_doubt_fails_the_dial_and_says_why() -> None:
    forged = lab.Forge(name="site.example", addresses=(FALSE4,), over="udp")
    async with world(forged) as made:
        made.network.rules.append(lab.Refuse(address=SERVER, port=853))
        careful = direct(made, resolver=[UDP, TLS], second_opinion=True)
        with pytest.raises(NetworkError) as caught:
            await careful.connect(NAME, Progress())
        assert str(caught.value).startswith(
            "could not look up site.example: no two resolvers agree about IPv6: "
            f"{UDP} says there is none; {TLS}: Connection refused"
        )
        assert f"no two resolvers agree about IPv4: {UDP} says {FALSE4}" in str(caught.value)
        assert error_type_of(caught.value) is ErrorType.DNS_FAILURE
        assert caught.value.stage is Stage.RESOLVE


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lab.Fail(rcode="NXDOMAIN"), f"there is no such name, says {UDP} (NXDOMAIN)"),
        (lab.Fail(rcode="SERVFAIL"), f"{UDP} answered SERVFAIL"),
        (lab.Fail(rcode="REFUSED"), f"{UDP} answered REFUSED"),
        (lab.Drop(), f"{UDP} did not answer within 8 s"),
        (lab.Forge(addresses=("0.0.0.0", "::")), "where nothing can be connected to"),
    ],
)
async def test_a_lookup_that_fails_says_why(rule: lab.NameRule, words: str) -> None:
    async with world(rule) as made:
        with pytest.raises(NetworkError, match=r"^could not look up site\.example: ") as caught:
            await direct(made, resolver=UDP).connect(NAME, Progress())
        assert words in str(caught.value)
        assert error_type_of(caught.value) is ErrorType.DNS_FAILURE


@pytest.mark.virtual_time
async def test_a_name_without_addresses_says_so() -> None:
    async with world() as made:
        made.network.hosts["site.example"].clear()
        with pytest.raises(NetworkError, match=r"^site\.example has no IP address"):
            await direct(made, resolver=UDP).connect(NAME, Progress())


@pytest.mark.virtual_time
async def test_hosts_go_before_every_resolver_and_to_the_resolvers_own_name() -> None:
    async with world() as made:
        hosts = {"site.example": [SITE4], "*.cdn.example": [SITE6], "dns.example": [SERVER]}
        made.zone.hosts = {"other.example": [SITE4]}
        transport = direct(made, resolver="tls://dns.example", hosts=hosts)
        assert await reached(transport) == (SITE4, 0.02)
        assert await reached(transport, Target("a.b.cdn.example", 443, tls=False)) == (SITE6, 0.02)
        assert made.asked() == []
        assert await reached(transport, Target("other.example", 443, tls=False)) == (SITE4, 0.08)
        assert len(made.asked()) == 2


@pytest.mark.virtual_time
async def test_hosts_serve_the_lab_without_any_resolver() -> None:
    async with lab.Network(in_memory=True) as network:
        await network.add_site("site.example", SITE4)
        transport = Direct(dial_tcp=network.dial_tcp, hosts=network.hosts)
        assert await reached(transport) == (SITE4, 0)


@pytest.mark.virtual_time
@pytest.mark.parametrize("resolver", [UDP, [f"tcp://{SERVER}", TLS], [UDP, f"https://{SERVER}/q"]])
async def test_cancelled_anywhere_it_leaves_nothing_open(resolver: Any) -> None:
    async with world(lab.Delay(kind="AAAA", seconds=0.1)) as made:
        made.ends.clear()

        async def story() -> None:
            second_opinion = isinstance(resolver, list) and resolver[-1] == TLS
            transport = direct(made, resolver=resolver, second_opinion=second_opinion)
            stream = await transport.connect(NAME, Progress())
            await anyio.aclose_forcefully(stream)

        async def verify() -> None:
            made.assert_all_closed()
            made.ends.clear()

        assert (await cancel_everywhere(story, verify=verify, passes=1)).cancelled > 10


@pytest.mark.virtual_time
async def test_a_dialer_wins_with_it_and_tells_of_its_lookup() -> None:
    async with world(lab.Fail(name="lost.example", rcode="SERVFAIL")) as made:
        entrant = racer.Entrant(direct(made, resolver=UDP))
        async with racer.Dialer([entrant]) as dialer:
            async with await dialer.dial("site.example", 443, tls=False) as conn:
                assert conn.transport_name == "direct"
            with pytest.raises(racer.errors.AllAttemptsFailed) as caught:
                await dialer.dial("lost.example", 443, tls=False)
            attempt = caught.value.report["direct"]
            assert (attempt.error_type, attempt.stage) == (ErrorType.DNS_FAILURE, Stage.RESOLVE)
            assert f"{UDP} answered SERVFAIL" in str(caught.value)


# --- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resolver": []}, "resolver: a list of 0 resolvers; 1 to 8 are taken"),
        ({"resolver": [f"udp://192.0.2.{n}" for n in range(9)]}, "a list of 9 resolvers; 1 to 8"),
        ({"resolver": ["udp://192.0.2.1", "udp://"]}, "resolver[1] (udp://): the host is missing"),
        ({"resolver": ["system", 7]}, "resolver[1] must be 'system', a URL such as"),
        ({"resolver": ["system", ["system"]]}, "resolver[1] must be 'system', a URL such as"),
        ({"resolver": ["system", "system"]}, "resolver[1]: the system's resolver stands in the list"),
        ({"resolver": ["system", SystemResolver()]}, "resolver[1]: the system's resolver stands"),
        (
            {"resolver": ["tls://d.example", "TLS://D.EXAMPLE:853/"]},
            "resolver[1]: tls://d.example stands in the list already",
        ),
        ({"resolver": "udp://me:s3cret@192.0.2.1"}, "resolver (udp://): a user or password in front"),
        ({"resolver": b"udp://192.0.2.1"}, "resolver must be 'system', a URL such as"),
        ({"hosts": {"a.example": []}}, "hosts['a.example']: 0 addresses"),
        ({"hosts": ["a.example"]}, "hosts must be a table"),
        ({"second_opinion": True}, "second_opinion: takes a list of two resolvers or more"),
        (
            {"second_opinion": True, "resolver": ["tls://d.example"]},
            "second_opinion: takes a list of two resolvers or more",
        ),
        ({"second_opinion": "yes"}, "second_opinion must be True or False, not str"),
        ({"resolver_tls": True}, "resolver_tls must be an ssl.SSLContext, not bool"),
        (
            {"resolver_tls": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)},
            "resolver_tls is a server's context",
        ),
        ({"dial_udp": "udp"}, "dial_udp must be an async function, not str"),
        (
            {"dial_udp": print, "local_address": "127.0.0.1"},
            "local_address together with dial_udp",
        ),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_is_named_before_anything_starts(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Direct(**options)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_the_same_oracle_twice_is_refused_and_two_alike_are_not() -> None:
    oracle = Oracle([])
    with pytest.raises(ConfigError, match=r"resolver\[1\]: Oracle stands in the list already"):
        Direct(resolver=[oracle, oracle])
    Direct(resolver=[Oracle([]), Oracle([])])


def test_a_configuration_gives_the_same() -> None:
    options = {
        "resolver": ["udp://192.0.2.53", "https://dns.example/s3cret"],
        "hosts": {"dns.example": ["192.0.2.1"]},
        "second_opinion": True,
    }
    made = make(MakeContext(name="direct", options=options))
    assert repr(made) == repr(Direct(**options))  # type: ignore[arg-type]
    assert (
        "SecondOpinion([DNSResolver('udp://192.0.2.53'), DNSResolver('https://dns.example')])"
        in repr(made)
    )
    assert "s3cret" not in repr(made)


@pytest.mark.parametrize("key", ["dial_udp", "dial_tcp", "resolver_tls"])
def test_what_is_code_is_in_no_configuration(key: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key '{key}'"):
        make(MakeContext(name="direct", options={key: None}))


def test_status_tells_of_the_systems_resolver_where_it_is_asked() -> None:
    assert Direct(resolver=["udp://192.0.2.53", "system"]).status().details == {"lookups.stuck": 0}
    assert Direct(resolver="udp://192.0.2.53").status() == TransportStatus()


# --- what is loaded -------------------------------------------------------------------------

PROGRAM = """
import sys
import anyio
from racer.testing import LocalHost
from transports.direct import Direct

def loaded():
    return sorted({"dns", "h11", "h2", "httpx", "httpcore", "cryptography"} & set(sys.modules))

direct = Direct(resolver=["udp://127.0.0.1", "tls://127.0.0.1", "https://127.0.0.1/q", "system"], hosts={"a.example": ["::1"]})
print(loaded())

async def main():
    async with LocalHost() as host:
        await direct.start(host)
        print("dns" in sys.modules, "h11" in sys.modules)
        await direct.aclose()

anyio.run(main)
"""


def test_what_lookups_take_is_loaded_when_it_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.splitlines() == ["[]", "True True"]


LOOK_UP = """
import anyio
from blockbuster import BlockBuster
from racer.abc import Progress, Target
from transports.direct import Direct

async def main():
    try:
        await Direct(resolver="udp://127.0.0.1:1").connect(Target("a.example", 443), Progress())
    except Exception as exc:
        print(exc)

BlockBuster(["racer", "transports"]).activate()
anyio.run(main)
"""


def test_the_first_lookup_loads_it_and_holds_nobody_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout == "could not look up a.example: udp://127.0.0.1:1: Connection refused\n"
