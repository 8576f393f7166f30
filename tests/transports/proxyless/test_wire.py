"""Every trick on the wire: real segments through a censor that reads packets, on every loop and both kinds of IP."""

from __future__ import annotations

import pytest

from benchmarks._wire import ADDRESS, ADDRESS_V6, CENSORS, DOT, NETWORKS, SYSTEM, Wire
from tests.racer.lab.packets.worlds import needs_packets
from tests.transports.proxyless.hellos import client_hello

pytestmark = [needs_packets, pytest.mark.timeout(120)]

BY_NAME = {censor.name: censor for censor in (*CENSORS, *NETWORKS)}
HELLO = client_hello("news.example")
AT = HELLO.index(b"news.example")
CUT = (AT + 2, 6, len(HELLO) - AT - 8)

# Who passes whom; what is measured in docs/proxyless.md.
PASSES = {
    "free": {"", "split:1", "split:sni", "tlsfrag:1", "tlsfrag:sni", "disorder:0|split:1"},
    "segment": {"split:1", "split:sni", "disorder:0|split:1"},
    "scan-segment": {"split:sni", "tlsfrag:sni"},
    "first-record": {"tlsfrag:1", "tlsfrag:sni"},
    "scan-stream": {"tlsfrag:sni"},
    "in-order": {"disorder:0|split:1"},
    "full": set(),
}
STRATEGIES = sorted(PASSES["free"])


async def test_on_the_wire(anyio_backend_name: str) -> None:
    """One network for all of it: starting one takes longer than what is looked at there."""
    async with Wire.of(near=0.001, far=0.003) as wire:
        await tricks_pass_whom_they_should(wire, anyio_backend_name)
        await segments_and_records_are_as_planned(wire, anyio_backend_name)
        await a_search_finds_what_gets_through(wire, anyio_backend_name)


async def tricks_pass_whom_they_should(wire: Wire, anyio_backend_name: str) -> None:
    address = ADDRESS if anyio_backend_name == "asyncio" else ADDRESS_V6
    for name, passing in PASSES.items():
        if anyio_backend_name == "trio" and name not in {"segment", "first-record"}:
            continue  # the censor is the same, and the client's loop has shown what it does
        results = await wire.use(
            BY_NAME[name],
            strategies=STRATEGIES,
            addresses=[address],
            backend=anyio_backend_name,
        )
        untouched = {each["strategy"] for each in results if wire.is_untouched(each["port"])}
        assert {each["strategy"] for each in results if each["ok"]} == passing, name
        assert untouched == passing
        errors = {each["error"] for each in results if not each["ok"]}
        assert errors <= {"connection_reset"}


async def segments_and_records_are_as_planned(wire: Wire, anyio_backend_name: str) -> None:
    """At the hundredth connection too."""
    for strategy, segments, records in (
        ("split:sni", CUT, (len(HELLO) - 5,)),
        ("split:2,20*5", (2, *[5] * 20, len(HELLO) - 102), (len(HELLO) - 5,)),
        ("tlsfrag:1", (len(HELLO) + 5,), (1, len(HELLO) - 6)),
    ):
        results = await wire.use(
            BY_NAME["free"],
            strategies=[strategy],
            times=100 if (anyio_backend_name, strategy) == ("asyncio", "split:sni") else 3,
            backend=anyio_backend_name,
        )
        flights = [wire.first_flight(each["port"]) for each in results]
        assert {(each.segments, each.records) for each in flights} == {(segments, records)}
    (result,) = await wire.use(
        BY_NAME["free"], strategies=["disorder:0|split:sni"], backend=anyio_backend_name
    )
    flight = wire.first_flight(result["port"])
    assert (flight.segments, flight.expired) == (CUT, 1)
    assert flight.sent_again >= 1


# Whoever is ahead may be overtaken on a machine that is busy: by another that passes as well.
SPLIT = {"split:sni|tlsfrag:sni", "split:sni"}
DISORDER = {f"disorder:0|{text}" for text in SPLIT}
FOUND = {
    "free": (SYSTEM, {"direct", *SPLIT, *DISORDER}),
    "segment-silent": (SYSTEM, SPLIT | DISORDER),
    "in-order": (SYSTEM, DISORDER),
    "dns-and-segment": (DOT, SPLIT | DISORDER),
    "full": None,
}


async def a_search_finds_what_gets_through(wire: Wire, anyio_backend_name: str) -> None:
    for network, found in FOUND.items():
        if anyio_backend_name == "trio" and network != "in-order":
            continue
        results = await wire.use(
            BY_NAME[network],
            resolvers=[SYSTEM, DOT],
            times=2,
            timeout=30.0,
            backend=anyio_backend_name,
        )
        if found is None:
            assert [each["error"] for each in results] == ["connection_reset"] * 2
            continue
        first, second = [each["chosen"] for each in results]
        assert all(each["ok"] for each in results), network
        assert (first["resolver"], first["remembered"]) == (found[0], False)
        assert first["strategy"] in found[1]
        assert second == first | {"remembered": True}


async def test_what_waits_for_a_window_is_not_joined(anyio_backend_name: str) -> None:
    """Ten segments may be under way at first; the eleventh and those behind it wait for a round trip."""
    async with Wire.of(far=0.1) as wire:
        (result,) = await wire.use(
            BY_NAME["free"], strategies=["split:2,20*5"], backend=anyio_backend_name
        )
        flight = wire.first_flight(result["port"])
    assert flight.segments == (2, *[5] * 20, len(HELLO) - 102)
