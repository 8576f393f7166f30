"""The packet lab for real: two hosts in namespaces, and programs that know nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from racer.errors import ConfigError
from racer.lab import Blackhole, Profile, Refuse
from racer.lab.packets import (
    Flags,
    InjectDNS,
    NameService,
    PacketNetwork,
    Point,
    Reassembly,
    Service,
    Side,
    SNIFilter,
    _namespaces,
    why_unavailable,
)
from tests.racer.lab.packets.worlds import GET, LOOK_UP, needs_packets

V4, V6, DNS, FORGED = "192.0.2.7", "2001:db8:7::7", "192.0.2.53", "192.0.2.66"
NEWS = ("news.example",)
SITE = Service(names=NEWS, addresses=(V4, V6))
FORGERY = Service(names=NEWS, addresses=(FORGED,), forged=True)
RESOLVER = NameService(addresses=(DNS,), hosts={"news.example": (V4,)})


def namespaces() -> set[str]:
    """The network namespaces of processes that can be seen."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(process.readlink()))
        except OSError:  # it has ended meanwhile
            continue
    return found


async def get(net: PacketNetwork, address: str, authority: bytes) -> str:
    done = await net.run(Side.CLIENT, sys.executable, "-c", GET, address, given=authority)
    assert done.status == 0, done.errors
    return done.output.decode().strip()


@needs_packets
async def test_a_censored_network() -> None:
    async with PacketNetwork(
        servers=[V4, V6, DNS, FORGED],
        near=Profile(delay=0.001),
        far=Profile(delay=0.002),
        resolver=DNS,
    ) as net:
        authority = await net.serve(SITE, FORGERY, RESOLVER)

        assert await get(net, V4, authority) == "HTTP/1.1 200 OK"
        assert await get(net, V6, authority) == "HTTP/1.1 200 OK"
        hello = next(each for each in net.captured if each.packet.data.startswith(b"\x16\x03"))
        assert (hello.point, hello.side, hello.packet.ttl) == (Point.SENT, Side.CLIENT, 64)
        assert b"news.example" in hello.packet.data
        seen = [each.packet for each in net.captured if each.point is Point.SEEN]
        assert {each.ttl for each in seen if each.over == "tcp" and each.source != V4} >= {63}

        net.rules[:] = [SNIFilter(names=NEWS, reassembly=Reassembly.NONE)]
        for address in (V4, V6):
            assert await get(net, address, authority) == "ConnectionResetError"
        resets = [each for each in net.captured if each.packet.flags & Flags.RST]
        both = {
            (each.side, each.packet.destination) for each in resets if each.point is Point.INJECTED
        }
        assert {(Side.CLIENT, V4), (Side.CLIENT, V6)} < both
        assert len({side for side, _ in both}) == 2
        assert [hit.name for hit in net.hits] == ["news.example"] * 2

        net.rules[:] = [Refuse(address=V4)]
        assert await get(net, V4, authority) == "ConnectionRefusedError"
        assert await get(net, FORGED, authority) == "SSLCertVerificationError"

        net.rules[:] = [InjectDNS(names=NEWS, addresses=("198.51.100.66",))]
        done = await net.run(Side.CLIENT, sys.executable, "-c", LOOK_UP, "news.example")
        assert done.output == b"['198.51.100.66']\n"
        net.rules.clear()
        done = await net.run(Side.CLIENT, sys.executable, "-c", LOOK_UP, "news.example")
        assert done.output == b"['192.0.2.7']\n"


@needs_packets
async def test_nothing_is_left_whatever_happens() -> None:
    before = namespaces()
    with pytest.raises(RuntimeError, match="in the middle"):
        async with PacketNetwork(servers=[V4, V6]) as net:
            await net.serve(SITE)
            assert len(namespaces() - before) == 2
            raise RuntimeError("in the middle of it")
    assert namespaces() <= before

    with anyio.CancelScope() as scope:
        async with PacketNetwork(servers=[V4], rules=[Blackhole()]):
            scope.cancel()
            await anyio.sleep_forever()
    assert namespaces() <= before


@needs_packets
async def test_a_program_that_is_not_waited_for_is_killed() -> None:
    async with PacketNetwork(servers=[V4]) as net:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(net.run, Side.CLIENT, "sh", "-c", "echo $$; exec sleep 600")
                group.start_soon(net.run, Side.SERVER, "sleep", "600")
                await net.run(Side.CLIENT, "true")
                scope.cancel()
        assert (await net.run(Side.CLIENT, "sh", "-c", "exit 3")).status == 3


@needs_packets
def test_nothing_is_left_of_a_process_that_is_killed() -> None:
    program = """
import anyio, sys
from racer.lab.packets import PacketNetwork
async def main():
    async with PacketNetwork(servers=["192.0.2.7"]) as net:
        done = await net.run(next(iter(net._hosts)), "readlink", "/proc/self/ns/net")
        print(done.output.decode().strip(), flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        namespace = child.stdout.readline().strip()
        assert namespace in namespaces()
        child.kill()
    for _ in range(
        1000
    ):  # its namespace ends when the one who waits inside has seen the end of its input
        if namespace not in namespaces():
            break
        subprocess.run(["true"], check=True)
    else:
        pytest.fail("the namespace is still there")


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("sys.platform", "darwin", "are Linux's"),
        ("os.geteuid", lambda: 1000, "needs root"),
        ("_DEVICE", Path("/dev/net/none"), "has no /dev/net/none"),
        ("_TOOLS", ("no-such-tool",), "missing: no-such-tool"),
        ("_DEVICE", Path("/"), "/ cannot be opened: Is a directory"),
        ("_UNSHARE", ("sh", "-c", "echo not here >&2; exit 1"), "no namespaces here: not here"),
    ],
)
async def test_where_it_cannot_be_had_it_says_why(
    attribute: str, value: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(_namespaces, "_DEVICE", Path("/dev/null"))
    monkeypatch.setattr(_namespaces, "_TOOLS", ())
    where = attribute if "." in attribute else f"{_namespaces.__name__}.{attribute}"
    monkeypatch.setattr(where, value)
    assert words in (await anyio.to_thread.run_sync(why_unavailable) or "")
    with pytest.raises(ConfigError, match=words):
        async with PacketNetwork(servers=[V4]):
            pass


def test_services_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="handler must be one of echo, hello"):
        Service(names=NEWS, addresses=(V4,), handler="nothing")
    with pytest.raises(ConfigError, match="is not an IP address"):
        Service(names=NEWS, addresses=("news",))
    with pytest.raises(ConfigError, match="is not an IP address"):
        NameService(addresses=("ns",), hosts={})


@needs_packets
async def test_services_that_cannot_be_started_say_why() -> None:
    async with PacketNetwork(servers=[V4]) as net:
        with pytest.raises(ConfigError, match=r"could not be started: .*OSError.*address"):
            await net.serve(Service(names=NEWS, addresses=("192.0.2.99",)))


@needs_packets
async def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="news"):
        async with PacketNetwork(servers=["news"]):
            pass
