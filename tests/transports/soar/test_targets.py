"""How a target is looked up once, judged, and connected to (S26, SPEC 18.5)."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer.errors import TransportBusy
from racer.testing import MemoryStream, stream_pair
from transports._net.addresses import Family
from transports._net.resolve import Answer, SystemResolver
from transports.soar._policy import TargetPolicy
from transports.soar._targets import (
    CONNECT_TIMEOUT,
    MAX_CONNECTING,
    Refused,
    TargetConnector,
    leads_here,
)
from transports.soar.core.streams.frames import RefusalReason
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PUBLIC, OTHER, PRIVATE = "93.184.216.34", "93.184.216.35", "10.0.0.1"
NAME = Target("target.example", 443)


class Names:
    """A resolver that says one thing after another."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        self.asked.append(name)
        await anyio.lowlevel.checkpoint()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for family in families:
            found = tuple(a for a in answer if (":" in a) == (family is Family.IPV6))
            report(Answer(families=(family,), addresses=found))


class Net:
    """Connects in memory, and remembers what to."""

    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.dialed: list[tuple[str, int]] = []
        self.peers: list[MemoryStream] = []

    async def __call__(self, address: str, port: int) -> MemoryStream:
        self.dialed.append((address, port))
        await anyio.lowlevel.checkpoint()
        code = self.failures.get(address.replace(".", "_"))
        if code == 0:
            await anyio.sleep_forever()
        if code is not None:
            raise OSError(code, os.strerror(code))
        near, far = stream_pair()
        self.peers.append(far)
        return near


def connector(names: Any, net: Net | None = None, **options: Any) -> TargetConnector:
    policy = options.pop("policy", TargetPolicy())
    return TargetConnector(
        policy, names, dial_tcp=net or Net(), is_own=lambda address: False, **options
    )


async def reason(made: TargetConnector, target: Target = NAME) -> RefusalReason:
    with pytest.raises(Refused) as caught:
        await made.connect(target)
    assert not made._connecting
    return caught.value.reason


async def test_a_name_is_looked_up_once_and_the_address_that_was_judged_is_connected_to() -> None:
    """A name that changes its mind (DNS rebinding) gets nowhere: nobody asks it a second time."""
    names, net = Names([PUBLIC], [PRIVATE]), Net()
    stream = await connector(names, net).connect(Target("Target.Example.", 443))
    assert names.asked == ["target.example"]
    assert net.dialed == [(PUBLIC, 443)]
    await stream.aclose()
    await net.peers[0].aclose()


@pytest.mark.parametrize("address", [PRIVATE, "127.0.0.1", "169.254.169.254", "::1", "fd00::1"])
async def test_a_public_name_of_a_private_address_gets_nowhere(address: str) -> None:
    net = Net()
    assert await reason(connector(Names([address]), net)) is RefusalReason.POLICY
    assert net.dialed == []


async def test_among_a_names_addresses_the_public_ones_are_tried() -> None:
    net = Net()
    stream = await connector(Names([PRIVATE, PUBLIC]), net).connect(NAME)
    assert net.dialed == [(PUBLIC, 443)]
    await stream.aclose()
    await net.peers[0].aclose()


@pytest.mark.parametrize(
    ("answer", "failures", "expected"),
    [
        ([PUBLIC], {PUBLIC: errno.ECONNREFUSED}, RefusalReason.CONNECTION_REFUSED),
        ([PUBLIC], {PUBLIC: errno.ENETUNREACH}, RefusalReason.UNREACHABLE),
        ([PUBLIC], {PUBLIC: errno.EACCES}, RefusalReason.UNREACHABLE),
        ([PUBLIC], {PUBLIC: errno.ETIMEDOUT}, RefusalReason.TIMED_OUT),
        ([PUBLIC], {PUBLIC: errno.EMFILE}, RefusalReason.TOO_MANY_STREAMS),
        ([PRIVATE, PUBLIC], {PUBLIC: errno.ECONNREFUSED}, RefusalReason.CONNECTION_REFUSED),
        (
            [PUBLIC, OTHER],
            {PUBLIC: errno.EHOSTUNREACH, OTHER: errno.ECONNREFUSED},
            RefusalReason.CONNECTION_REFUSED,
        ),
        ([], {}, RefusalReason.NAME_NOT_FOUND),
        (socket.gaierror(socket.EAI_NONAME, "none"), {}, RefusalReason.NAME_NOT_FOUND),
        (TransportBusy("lookups are stuck"), {}, RefusalReason.TOO_MANY_STREAMS),
    ],
)
async def test_a_failure_comes_to_the_reason_that_the_client_is_told(
    answer: Any, failures: dict[str, int], expected: RefusalReason
) -> None:
    net = Net(**{address.replace(".", "_"): code for address, code in failures.items()})
    assert await reason(connector(Names(answer), net)) is expected


async def test_a_name_is_judged_before_it_is_looked_up() -> None:
    names = Names([PUBLIC])
    made = connector(names, policy=TargetPolicy(allow=["other.example"]))
    assert await reason(made) is RefusalReason.POLICY
    assert names.asked == []


@pytest.mark.parametrize("text", ["127.1", "0x7f.1", "2130706433", "localhost", "127.0.0.1"])
async def test_an_address_in_a_names_clothes_is_judged_as_what_it_is(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reads them as addresses of its own (inet_aton); what it reads is judged."""

    def getaddrinfo(*args: Any, **options: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await reason(connector(SystemResolver()), Target(text, 443)) is RefusalReason.POLICY


async def test_this_machines_own_addresses_are_refused_without_being_listed() -> None:
    net = Net()
    made = TargetConnector(
        TargetPolicy(), Names(), dial_tcp=net, is_own=lambda address: address == PUBLIC
    )
    assert await reason(made, Target(ip_address(PUBLIC), 443)) is RefusalReason.POLICY
    assert net.dialed == []
    stream = await made.connect(Target(ip_address(OTHER), 443))
    await stream.aclose()
    await net.peers[0].aclose()


def test_an_own_address_is_known_by_what_the_machine_would_speak_from() -> None:
    assert leads_here("127.0.0.1")
    assert leads_here("::1")
    assert not leads_here("127.8.9.1")  # spoken to from 127.0.0.1: no matter, no loopback is public


@pytest.mark.virtual_time
async def test_a_connection_has_ten_seconds() -> None:
    made = connector(Names(), Net(**{PUBLIC.replace(".", "_"): 0}))
    began = anyio.current_time()
    assert await reason(made, Target(ip_address(PUBLIC), 443)) is RefusalReason.TIMED_OUT
    assert anyio.current_time() - began == CONNECT_TIMEOUT == 10


@pytest.mark.virtual_time
async def test_whoever_has_hundreds_hang_leaves_room_for_the_rest() -> None:
    made = connector(Names(), Net(**{PUBLIC.replace(".", "_"): 0}))
    hung, told = Target(ip_address(PUBLIC), 443), []

    async def hang(owner: bytes) -> None:
        try:
            await made.connect(hung, owner=owner)
        except Refused as exc:
            told.append((owner, exc.reason))

    async with anyio.create_task_group() as tasks:
        for owner in (b"a", b"b", b"c"):
            for _ in range(MAX_CONNECTING):
                tasks.start_soon(hang, owner)
        await anyio.sleep(1)
        counts = dict(made._connecting)
        assert max(counts.values()) <= MAX_CONNECTING // 2
        assert sum(counts.values()) <= MAX_CONNECTING
        assert {reason for _, reason in told} == {RefusalReason.TOO_MANY_STREAMS}
        stream = await made.connect(Target(ip_address(OTHER), 443), owner=b"d")
        await stream.aclose()
        tasks.cancel_scope.cancel()
    assert not made._connecting


async def test_a_real_connection_is_made_and_a_reset_one_is_a_refusal() -> None:
    made = TargetConnector(TargetPolicy(allow=["127.0.0.1:*"]), Names())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        stream = await made.connect(Target(ip_address("127.0.0.1"), port))
        await stream.aclose()
    assert (
        await reason(made, Target(ip_address("127.0.0.1"), port))
        is RefusalReason.CONNECTION_REFUSED
    )
