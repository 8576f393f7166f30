"""What Soar's codecs cost, operation by operation: `python -m benchmarks.soar_codec [--group NAME] [--json FILE]`.

Each figure is the best of many short blocks, and the blocks of all operations take turns, so that a busy moment of the
machine falls on all alike. Beside it stand the figure once measured for a bare sketch of the same work (on this kind of
machine, alone on it), and a rival in the same run: what does the same by other means (the standard library's base32,
dnspython), or, of crypto, the bare cipher, hash or curve operations that cannot be spared.

To add operations, write a function that returns a list of `Operation` and name it in `GROUPS`.
"""

from __future__ import annotations

import argparse
import base64
import gc
import hashlib
import itertools
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import dns.message
import dns.name
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from benchmarks._loops import count
from benchmarks._operations import Operation
from benchmarks._soar_streams import stream_operations
from transports.soar.core.crypto import (
    EndCode,
    First,
    FirstMessage,
    Fragment,
    Info,
    Kind,
    Notice,
    PublicKey,
    ServerKey,
    SizeClass,
    Status,
    Terms,
    build_notice,
    open_first,
    read_fragment,
    read_header,
    read_notice,
)
from transports.soar.core.dns import base32
from transports.soar.core.dns.answers import (
    Form,
    build_answer,
    nodata,
    nxdomain,
    read_answer,
    room,
)
from transports.soar.core.dns.questions import QType, build_question, read_copy
from transports.soar.core.dns.zone import Whole, Zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from transports.soar.core.dns.questions import Copy

__all__ = ("GROUPS", "Cost", "Operation", "main", "measure")

_BLOCK_SECONDS: Final = 0.002  # long beside the clock's grain, short beside what disturbs


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an operation costs, in microseconds.

    Attributes:
        group: its place in `GROUPS`.
        name: the operation's.
        own: the best block's average.
        reference: as in `Operation`.
        rival: the best block's average of the rival.
    """

    group: str
    name: str
    own: float
    reference: float | None
    rival: float | None


# --- operations -----------------------------------------------------------------------------


def dns_operations() -> list[Operation]:
    """Return those of names, questions and answers (SPEC 4 and 5)."""
    zone = Zone.parse("t.example.com")
    octets = bytes(place * 37 % 256 for place in range(140))
    text, padded = base32.encode(octets), base64.b32encode(octets)
    return [
        Operation(
            "base32 encode, 140 octets",
            lambda: base32.encode(octets),
            2.04,
            lambda: base64.b32encode(octets),
        ),
        Operation(
            "base32 decode, 140 octets",
            lambda: base32.decode(text),
            1.01,
            lambda: base64.b32decode(padded),
        ),
        *_names(zone),
        *_questions(zone),
        *_answers(zone),
        *_exchanges(zone),
    ]


def _names(zone: Zone) -> list[Operation]:
    operations = []
    for number, what in ((1, "1 label"), (4, "4 labels")):
        packet = _packet(zone, number)
        name = _name(zone, number)
        encode = partial(zone.encode, packet, number=number, selector=7, flag=12, fill=85)
        operations += [
            Operation(f"name from packet, {what}", encode),
            Operation(f"packet from name, {what}", partial(zone.read, name)),
        ]
    cut = _name(zone, 4)[64:]  # as a resolver cuts labels off
    return [*operations, Operation("partial name, 3 labels", partial(zone.read, cut))]


def _questions(zone: Zone) -> list[Operation]:
    name = _name(zone, 4)
    owner = dns.name.from_wire(name, 0)[0]
    question = build_question(7, name, QType.TXT, edns=True)
    return [
        Operation(
            "build question",
            lambda: build_question(7, name, QType.TXT, edns=True),
            0.23,
            lambda: dns.message.make_query(owner, "TXT", use_edns=0, payload=1232, id=7).to_wire(),
        ),
        Operation(
            "read copy of question",
            lambda: read_copy(question),
            1.1,
            lambda: dns.message.from_wire(question),
        ),
    ]


def _answers(zone: Zone) -> list[Operation]:
    operations = []
    for form, size, written, read in (
        (Form.DS, 1000, None, None),
        (Form.TXT, 900, 0.69, 1.25),
        (Form.SOA, 300, None, None),
    ):
        copy = _copy(zone, form)
        payload = bytes(place % 251 for place in range(size))
        answer = build_answer(copy, form, payload, zone)
        message = dns.message.from_wire(answer)
        what = f"{form.name} answer, {size} octets"
        operations += [
            Operation(
                f"build {what}",
                partial(build_answer, copy, form, payload, zone),
                written,
                partial(message.to_wire, max_size=4096),
            ),
            Operation(
                f"read {what}",
                partial(read_answer, answer),
                read,
                partial(dns.message.from_wire, answer),
            ),
        ]
    copy = _copy(zone, Form.DS)
    notice = bytes(23)
    return [
        *operations,
        Operation("build NODATA", lambda: nodata(copy, zone)),
        Operation("build notice", lambda: nxdomain(copy, zone, notice)),
        Operation("room in an answer", lambda: room(Form.TXT, 83, 1232, edns=True)),
    ]


def _exchanges(zone: Zone) -> list[Operation]:
    """Return what each side does for one poll and 1,000 octets that answer it."""
    packet = _packet(zone, 1)
    question = build_question(7, _name(zone, 1), QType.DS, edns=True)
    payload = bytes(1000)
    answer = build_answer(_copy(zone, Form.DS), Form.DS, payload, zone)

    def client() -> None:
        name = zone.encode(packet, number=1, selector=7, flag=0, fill=85)
        build_question(7, name, QType.DS, edns=True)
        read_answer(answer)

    def server() -> None:
        copy = read_copy(question)
        assert copy is not None
        zone.read(copy.name)
        build_answer(copy, Form.DS, payload, zone)

    return [
        Operation("client, poll and answer", client),
        Operation("server, poll and answer", server),
    ]


def _packet(zone: Zone, number: int) -> bytes:
    return bytes(place * 91 % 256 for place in range(zone.classes[number].capacity))


def _name(zone: Zone, number: int) -> bytes:
    return zone.encode(_packet(zone, number), number=number, selector=7, flag=12, fill=85)


def _copy(zone: Zone, form: Form) -> Copy:
    copy = read_copy(build_question(7, _name(zone, 1), form.qtype, edns=True))
    assert copy is not None
    return copy


def crypto_operations() -> list[Operation]:
    """Return those of the handshake, of sealed packets and answers, and of notices (SPEC 6, 7, 8 and 15.4)."""
    zone = Zone.parse("t.example.com")
    key = ServerKey(bytes(range(32)))
    client = _first_message(key.public, zone)
    server = _opened(key, zone, client)
    client.receive(_welcome(key, server))
    return [
        *_handshakes(key, zone),
        *_gates(key, client),
        *_packets(key, client, server),
        *_sealed_answers(client, server),
        *_notices(key),
    ]


def _first_message(public: PublicKey, zone: Zone) -> FirstMessage:
    return FirstMessage(
        public=public, zone=zone.wire, wall=1.8e9, frames=bytes(20), capacity=38, entropy=bytes
    )


def _opened(key: ServerKey, zone: Zone, client: FirstMessage) -> First:
    first = open_first(key, zone.wire, client.message)
    assert first is not None
    return first


def _welcome(key: ServerKey, first: First) -> bytes:
    terms = Terms(
        status=Status.WELCOME,
        time=1_800_000_000,
        idle_timeout=120.0,
        status_key=key.status_key(first.sid),
    )
    return first.answer(terms, entropy=bytes)


def _handshakes(key: ServerKey, zone: Zone) -> list[Operation]:
    """Return both sides; beside them stand their operations on the curve alone."""
    private = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = key.public.raw
    made = _first_message(key.public, zone)
    answer = _welcome(key, _opened(key, zone, made))

    def curve(exchanges: int) -> None:
        X25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
        for _ in range(exchanges):
            private.exchange(X25519PublicKey.from_public_bytes(public))

    def whole_client() -> None:
        assert _first_message(key.public, zone).receive(answer) is not None

    return [
        Operation(
            "msg1, client",
            lambda: _first_message(key.public, zone),
            rival=lambda: curve(1),
        ),
        Operation("msg1 and msg2, client", whole_client, rival=lambda: curve(2)),
        Operation(
            "msg1 and msg2, server",
            lambda: _welcome(key, _opened(key, zone, made)),
            125,
            lambda: curve(2),
        ),
        Operation(
            "msg1 that is forged, server",
            lambda: open_first(key, zone.wire, made.message[:-1] + b"x"),
        ),
    ]


def _gates(key: ServerKey, client: FirstMessage) -> list[Operation]:
    header_key = key.public.header_key
    packet = client.fragments(38, form=0, entropy=bytes)[0]
    secret = bytes(32)

    def gate() -> Fragment | None:
        header = read_header(header_key, packet)
        assert header is not None
        return read_fragment(header_key, header, packet)

    return [
        Operation(
            "mask of a header",
            lambda: header_key.mask(packet[-16:]),
            0.55,
            lambda: hashlib.blake2s(packet[-16:], digest_size=7, key=secret).digest(),
        ),
        Operation("read header", lambda: read_header(header_key, packet)),
        Operation("read header and gate", gate),
    ]


def _packets(key: ServerKey, client: FirstMessage, server: First) -> list[Operation]:
    """Return those of packets; beside them stands the bare cipher."""
    operations = []
    header_key = key.public.header_key
    cipher, nonce, additional = ChaCha20Poly1305(bytes(32)), bytes(12), bytes(8)
    info = Info(0, SizeClass.OCTETS_1232, may_park=True)
    for capacity in (38, 146):
        frames = bytes(capacity - 24)
        plain = b"\0" + frames
        sealed = cipher.encrypt(nonce, plain, additional)
        number = client.seals.next_number

        def seal(frames: bytes = frames, capacity: int = capacity) -> bytes:
            seals = client.seals
            return seals.seal_packet(
                Kind.DATA, 0, seals.next_number, info, frames, capacity=capacity
            )

        packet = seal()

        def unseal(packet: bytes = packet, number: int = number) -> tuple[Info, bytes] | None:
            header = read_header(header_key, packet)
            return None if header is None else server.seals.open_packet(header, packet, number)

        assert unseal() is not None
        operations += [
            Operation(
                f"seal packet, {capacity} octets",
                seal,
                rival=partial(cipher.encrypt, nonce, plain, additional),
            ),
            Operation(
                f"open packet, {capacity} octets",
                unseal,
                rival=partial(cipher.decrypt, nonce, sealed, additional),
            ),
        ]
    return operations


def _sealed_answers(client: FirstMessage, server: First) -> list[Operation]:
    operations = []
    cipher, nonce = ChaCha20Poly1305(bytes(32)), bytes(12)
    numbers = itertools.count()
    for size, sealing, opening in ((0, None, None), (1200, 1.61, 1.45)):
        frames = bytes(size)
        sealed = cipher.encrypt(nonce, frames, None)
        number = next(numbers)
        payload = server.seals.seal_answer(number, 3, 0.1, frames)

        def seal(frames: bytes = frames) -> bytes:
            return server.seals.seal_answer(next(numbers), 3, 0.1, frames)

        operations += [
            Operation(
                f"seal answer, {size} octets",
                seal,
                sealing,
                partial(cipher.encrypt, nonce, frames, None),
            ),
            Operation(
                f"open answer, {size} octets",
                partial(client.seals.open_answer, number, payload),
                opening,
                partial(cipher.decrypt, nonce, sealed, None),
            ),
        ]
    return operations


def _notices(key: ServerKey) -> list[Operation]:
    sid, name = b"abcd", bytes(79)
    notice = Notice(EndCode.UNKNOWN, 120.0, None)
    status_key = key.status_key(sid)
    octets = build_notice(status_key, notice, name)
    return [
        Operation(
            "make notice, server",
            lambda: build_notice(key.status_key(sid), notice, name),
            1.3,
        ),
        Operation("check notice, client", lambda: read_notice(octets, status_key, name)),
    ]


def whole_operations() -> list[Operation]:
    """Return what each side does, in DNS and crypto together, for one poll and 1,000 octets that answer it."""
    zone = Zone.parse("t.example.com")
    key = ServerKey(bytes(range(32)))
    header_key = key.public.header_key
    first_message = _first_message(key.public, zone)
    first = _opened(key, zone, first_message)
    first_message.receive(_welcome(key, first))
    seals, numbers, frames = first_message.seals, itertools.count(), bytes(1000)
    info = Info(0, SizeClass.OCTETS_1232, may_park=True)

    def ask() -> bytes:
        packet = seals.seal_packet(Kind.DATA, 0, seals.next_number, info, b"\x01", capacity=38)
        name = zone.encode(packet, number=1, selector=7, flag=0, fill=85)
        return build_question(7, name, QType.DS, edns=True)

    question = ask()

    def answer() -> bytes:
        copy = read_copy(question)
        assert copy is not None
        found = zone.read(copy.name)
        assert isinstance(found, Whole)
        header = read_header(header_key, found.packet)
        assert header is not None
        assert first.seals.open_packet(header, found.packet, 0) is not None
        payload = first.seals.seal_answer(next(numbers), 3, 0.1, frames)
        return build_answer(copy, Form.DS, payload, zone)

    answered = answer()
    asked = question[12:-11]  # as a client remembers it

    def client() -> None:
        ask()
        payload = read_answer(answered, Form.DS, asked=asked).payload
        assert payload is not None
        assert seals.open_answer(0, payload) is not None

    return [
        Operation("client, sealed poll and answer", client, 6.6),
        Operation("server, sealed poll and answer", answer, 7.2),
    ]


GROUPS: Final[Mapping[str, Callable[[], list[Operation]]]] = {
    "crypto": crypto_operations,
    "dns": dns_operations,
    "streams": stream_operations,
    "whole": whole_operations,
}
"""What can be measured, by name; each function makes its operations anew."""


# --- measuring ------------------------------------------------------------------------------


def measure(groups: Sequence[str], rounds: int) -> list[Cost]:
    """Return what the operations of `groups` cost, each the best of `rounds` blocks."""
    rows = [(group, operation) for group in groups for operation in GROUPS[group]()]
    works = [work for _, each in rows for work in (each.work, each.rival) if work is not None]
    sizes = [_block(work) for work in works]
    best = [float("inf")] * len(works)
    gc.collect()
    gc.disable()  # its pauses would fall on whom they will
    try:
        for _ in range(rounds):
            for place, (work, size) in enumerate(zip(works, sizes, strict=True)):
                best[place] = min(best[place], _seconds(work, size) / size)
    finally:
        gc.enable()
    figures = iter(best)
    return [
        Cost(
            group=group,
            name=each.name,
            own=next(figures) * 1e6,
            reference=each.reference,
            rival=None if each.rival is None else next(figures) * 1e6,
        )
        for group, each in rows
    ]


def _block(work: Callable[[], object]) -> int:
    """Return how often `work` is done in one block; the doing warms it up."""
    size = 1
    while (seconds := _seconds(work, size)) < _BLOCK_SECONDS / 4:
        size *= 4
    return max(1, round(size * _BLOCK_SECONDS / seconds))


def _seconds(work: Callable[[], object], times: int) -> float:
    turns = repeat(None, times)
    began = time.perf_counter()
    for _ in turns:
        work()
    return time.perf_counter() - began


# --- telling --------------------------------------------------------------------------------


def _print(costs: Sequence[Cost]) -> None:
    print(f"{'microseconds':<34}{'ours':>9}{'reference':>11}{'rival':>10}{'rival/ours':>12}")
    for group in dict.fromkeys(cost.group for cost in costs):
        print(f"\n{group}")
        for cost in costs:
            if cost.group == group:
                reference = f"{cost.reference:.2f}" if cost.reference is not None else ""
                rival = f"{cost.rival:.1f}" if cost.rival is not None else ""
                ratio = f"{cost.rival / cost.own:.1f}" if cost.rival is not None else ""
                print(f"  {cost.name:<32}{cost.own:>9.2f}{reference:>11}{rival:>10}{ratio:>12}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soar_codec", description=__doc__)
    parser.add_argument("--group", action="append", choices=sorted(GROUPS), help="default: all")
    parser.add_argument("--rounds", type=count, default=200, help="blocks for each operation")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args(argv)
    costs = measure(options.group or list(GROUPS), options.rounds)
    _print(costs)
    if options.json is not None:
        told = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "versions": {name: version(name) for name in ("cryptography", "dnspython")},
            "rounds": options.rounds,
            "costs": [asdict(cost) for cost in costs],
        }
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
