"""Writes Soar's test vectors, of fixed randomness: `python -m tests.transports.soar.vectors.make`.

Each file holds what one part of the protocol makes of given keys and values, octets in hexadecimal. The decoder beside
this folder, which shares no code with the implementation, reads all of it (SPEC 23).
"""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.transports.soar.crypto.parties import FixedEntropy
from transports.soar.core.crypto import (
    EndCode,
    First,
    FirstMessage,
    Grant,
    Info,
    Kind,
    Notice,
    Retry,
    RetryCode,
    RetryCookie,
    ServerKey,
    Status,
    Terms,
    build_notice,
    build_retry,
    open_first,
)
from transports.soar.core.crypto.hashes import digest
from transports.soar.core.crypto.headers import mask_header, pack_header
from transports.soar.core.dns import answers, questions
from transports.soar.core.dns.messages import Rcode
from transports.soar.core.dns.zone import Partial, Zone
from transports.soar.core.streams import frames as frame
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.crypto.noise import Split

__all__ = ("FOLDER", "build", "render")

FOLDER: Final = Path(__file__).parent

ZONE: Final = Zone.parse("t.example.com")
ZONES: Final = {
    8: Zone.parse("ab.org"),
    15: ZONE,
    30: Zone.parse("a-zone-of-thirty.example.net"),
    64: Zone.parse("a-zone-as-long-as-they-may-be.of-one-department.example.org.uk"),
}
SERVER_KEY: Final = ServerKey.generate(FixedEntropy("vectors: server"))
GRANT: Final = Grant.generate(FixedEntropy("vectors: grant"))
NOW: Final = 1_800_000_000
OPENING: Final = frame.stream_header(0, 0) + Target.of("www.example.com", 443).to_wire() + b"hello"

Vector = dict[str, Any]


# --- keys -----------------------------------------------------------------------------------


def keys() -> Vector:
    public = SERVER_KEY.public
    sids = [b"\x00\x00\x00\x00", b"\x01\x23\x45\x67"]
    return {
        "server": {
            "private": SERVER_KEY._raw,
            "public": public.raw,
            "public_text": public.to_text(),
            "k_hp": digest(32, b"soar1 header", public.raw),
            "k_reset": digest(32, SERVER_KEY._raw, b"soar1 status"),
            "k_st": [{"sid": sid, "key": SERVER_KEY.status_key(sid)} for sid in sids],
        },
        "grant": {"id": GRANT.id, "secret": GRANT.secret, "text": GRANT.to_text()},
        "hashes": [
            {"size": size, "key": key, "data": data, "digest": digest(size, key, data)}
            for size, key, data in (
                (32, b"", b"abc"),
                (4, b"", b"abc"),
                (7, b"key", b"abc"),
                (16, b"key", b"abc"),
                (1, b"key", b""),
            )
        ],
    }


# --- names ----------------------------------------------------------------------------------


def names() -> Vector:
    entropy = FixedEntropy("vectors: names")
    return {"zones": [_zone(zone, entropy) for zone in ZONES.values()]}


def _zone(zone: Zone, entropy: FixedEntropy) -> Vector:
    whole, partial = [], []
    for number, each in zone.classes.items():
        selector, flag, fill = (octet % 32 for octet in entropy(3))
        packet = entropy(each.capacity)
        name = zone.encode(packet, number=number, selector=selector, flag=flag, fill=fill)
        vector: Vector = {"class": number, "selector": selector, "packet": packet, "name": name}
        if number > 1:
            vector["flag"] = flag
        whole.append(vector)
        rest = name
        while len(rest := rest[1 + rest[0] :]) > len(zone.wire):
            found = zone.read(rest)
            assert isinstance(found, Partial)
            partial.append({"flag": flag, "name": rest, "answer": found.answer.name})
    return {
        "text": zone.text,
        "wire": zone.wire,
        "classes": [
            {"class": c.number, "length": c.length, "labels": c.labels, "capacity": c.capacity}
            for c in zone.classes.values()
        ],
        "whole": whole,
        "partial": partial,
    }


# --- handshake ------------------------------------------------------------------------------


class _Session:
    """One handshake of fixed randomness, with the keys that both ends keep to themselves."""

    def __init__(
        self,
        seed: str,
        *,
        frames: bytes = OPENING,
        capacity: int = 38,
        cookie: RetryCookie | None = None,
        grant: Grant | None = None,
        zone: Zone = ZONE,
    ) -> None:
        self.client_private = FixedEntropy(f"vectors: {seed}, client")(32)
        self.server_private = FixedEntropy(f"vectors: {seed}, server")(32)
        self.zone = zone
        self.client = FirstMessage(
            public=SERVER_KEY.public,
            zone=zone.wire,
            wall=NOW,
            frames=frames,
            capacity=capacity,
            cookie=cookie,
            grant=grant,
            entropy=lambda _: self.client_private,
        )
        opened = open_first(SERVER_KEY, zone.wire, self.client.message)
        assert opened is not None
        self.server: First = opened

    def answer(self, terms: Terms) -> bytes:
        payload = self.server.answer(terms, entropy=lambda _: self.server_private)
        assert self.client.receive(payload) == terms
        return payload

    def keys(self) -> Vector:
        """Return the keys of the established session."""
        _, split = self._split()
        return {
            "k_early": _early(self.client),
            "k_c2s": split.to_responder,
            "k_s2c": split.to_initiator,
        }

    def _split(self) -> tuple[bytes, Split]:
        return self.client._noise.open(self.client._welcomed_by)


def _early(client: FirstMessage) -> bytes:
    return hmac.digest(client._noise.chaining_key, b"soar1 early", "sha256")


def _terms(session: _Session, **changes: Any) -> Terms:
    told: dict[str, Any] = {
        "status": Status.WELCOME,
        "time": NOW + 1,
        "idle_timeout": 120.0,
        "max_streams": 128,
        "stream_window": 256 * 1024,
        "session_window": 1024 * 1024,
        "status_key": SERVER_KEY.status_key(session.client.sid),
    }
    return Terms(**told | changes)


def handshakes() -> Vector:
    plain = _Session("plain")
    granted = _Session("granted", grant=GRANT, frames=OPENING[:-5])
    again = _Session(
        "again", cookie=RetryCookie(b"\x01\x02\x03\x04\x05\x06\x07\x08", plain.client.sid)
    )
    long = _Session("long", capacity=ZONE.classes[4].capacity, frames=OPENING * 2)
    bare = _Session("bare", frames=b"", zone=ZONES[30])
    refused = {"status_key": bytes(16), "idle_timeout": 0.0, "max_streams": 0}
    refused |= {"stream_window": 0, "session_window": 0}
    zones = frame.encode_frame(frame.Zones(((1, ZONES[8].wire), (2, ZONES[30].wire))))
    return {
        "server_private": SERVER_KEY._raw,
        "server_public": SERVER_KEY.public.raw,
        "grant_secret": GRANT.secret,
        "handshakes": [
            _handshake("plain", plain, _terms(plain)),
            _handshake("with a grant", granted, _terms(granted, lease=3600, shards=4)),
            _handshake("after a RETRY", again, _terms(again, early_refused=True, known_for=12.25)),
            _handshake("in one long name", long, _terms(long, frames=zones)),
            _handshake("without frames", bare, _terms(bare, idle_timeout=0.5)),
            *(
                _handshake(
                    f"refused, status {status}",
                    session,
                    _terms(session, status=status, **refused),
                )
                for status in (Status.GRANT_NEEDED, Status.CAPACITY, Status.VERSION)
                for session in [_Session(f"refused {status}")]
            ),
        ],
        "retries": [
            {
                "sid": sid,
                "code": retry.code,
                "cookie": retry.cookie,
                "time": retry.time,
                "payload": build_retry(SERVER_KEY.public.header_key, sid, retry),
            }
            for sid, retry in (
                (plain.client.sid, Retry(RetryCode.BUSY, bytes(range(1, 9)), NOW + 1)),
                (granted.client.sid, Retry(RetryCode.CLOCK, bytes(8), NOW + 3600)),
            )
        ],
    }


def _handshake(what: str, session: _Session, terms: Terms) -> Vector:
    client, claims = session.client, session.server.claims
    capacities = {
        form: session.zone.classes[number].capacity for form, number in ((0, 1), (1, 2), (2, 4))
    }
    fragments = []
    for form, capacity in capacities.items():
        if len(client.message) > 4 * (capacity - 11):
            continue
        filling = FixedEntropy(f"vectors: {what}, form {form}")
        packets = client.fragments(capacity, form=form, entropy=filling)
        fragments.append({"form": form, "capacity": capacity, "packets": packets})
    payload = session.answer(terms)
    said: Vector = {
        "status": terms.status,
        "version": terms.version,
        "early_refused": terms.early_refused,
        "time": terms.time,
        "known_for": terms.known_for,
        "idle_timeout": terms.idle_timeout,
        "lease": terms.lease,
        "max_streams": terms.max_streams,
        "stream_window": terms.stream_window,
        "session_window": terms.session_window,
        "shards": terms.shards,
        "status_key": terms.status_key,
        "frames": terms.frames,
    }
    vector: Vector = {
        "what": what,
        "zone": session.zone.wire,
        "client_ephemeral_private": session.client_private,
        "server_ephemeral_private": session.server_private,
        "msg1": client.message,
        "sid": client.sid,
        "time": claims.time,
        "max_version": claims.max_version,
        "frames": claims.frames,
        "fragments": fragments,
        "answer": payload,
        "msg2": payload[1:],
        "terms": said,
        "keys": session.keys(),
    }
    if claims.cookie is not None:
        vector["cookie"], vector["cookie_sid"] = claims.cookie
    if claims.grant is not None:
        vector["grant_id"], vector["proof"] = claims.grant
    return vector


# --- packets --------------------------------------------------------------------------------


def packets() -> Vector:
    session = _Session("packets")
    made = [
        _packet(session, Kind.EARLY, 0, Info(0, 0, True), b""),
        _packet(session, Kind.EARLY, 1, Info(1, 1, False), OPENING, capacity=51),
    ]
    session.answer(_terms(session))
    ping = frame.encode_frame(frame.Ping())
    floor = frame.encode_frame(frame.Floor(3))
    made += [
        _packet(session, Kind.DATA, 0, Info(0, 0, True), ping),
        _packet(session, Kind.DATA, 1, Info(15, 2, False), floor, zone_index=1),
        _packet(session, Kind.DATA, 2, Info(3, 1, True), OPENING, capacity=146, zone_index=7),
    ]
    session.client.seals.next_number = 0x1_2345_FFFF
    made += [_packet(session, Kind.DATA, 0, Info(2, 1, False), b"") for _ in range(2)]
    return {
        "server_public": SERVER_KEY.public.raw,
        "sid": session.client.sid,
        "keys": session.keys(),
        "packets": made,
        "junk": _junk(),
    }


def _packet(
    session: _Session,
    kind: Kind,
    form: int,
    info: Info,
    frames: bytes,
    *,
    capacity: int = 38,
    zone_index: int = 0,
) -> Vector:
    seals = session.client.seals
    number = seals.next_number
    packet = seals.seal_packet(
        kind, form, number, info, frames, capacity=capacity, zone_index=zone_index
    )
    return {
        "kind": kind,
        "form": form,
        "number": number,
        "path": info.path,
        "size_class": info.size_class,
        "may_park": info.may_park,
        "frames": frames.ljust(capacity - 24, b"\0"),
        "zone_index": zone_index,
        "packet": packet,
    }


def _junk() -> list[Vector]:
    """Return packets with a good mask, each of which a server takes as junk."""
    first = pack_header(Kind.DATA, 0, b"abcd", 0)
    flipped = {
        "kind 3": 0x40,
        "form 3": 0x30,
        "phase": 0x08,
        "version 1": 0x02,
        "version 2": 0x04,
        "zero bit": 0x01,
    }
    rest = FixedEntropy("vectors: junk")(31)
    key = SERVER_KEY.public.header_key
    junk = [
        {"why": why, "packet": mask_header(key, bytes([first[0] ^ bits]) + first[1:], rest)}
        for why, bits in flipped.items()
    ]
    short = mask_header(key, first, rest[:16])[:22]
    return [*junk, {"why": "22 octets", "packet": short}]


# --- answers --------------------------------------------------------------------------------


def dns_answers() -> Vector:
    session = _Session("answers")
    session.answer(_terms(session))
    entropy = FixedEntropy("vectors: answers")
    made = []
    for form in answers.Form:
        for number, edns, fill in ((1, True, 1.0), (1, False, 1.0), (4, True, 0.4), (2, True, 0.0)):
            made.append(_answer(session, form, number, entropy, edns=edns, share=fill))
    return {
        "server_public": SERVER_KEY.public.raw,
        "zone": ZONE.wire,
        "k_c2s": session.keys()["k_c2s"],
        "k_s2c": session.keys()["k_s2c"],
        "answers": made,
    }


def _answer(
    session: _Session,
    form: answers.Form,
    number: int,
    entropy: FixedEntropy,
    *,
    edns: bool,
    share: float,
) -> Vector:
    """Return a question, the copy of it that a resolver might send, and all that can be said to it.

    `share` is how much of the room the answer fills.
    """
    capacity = ZONE.classes[number].capacity
    pn = session.client.seals.next_number
    packet = session.client.seals.seal_packet(
        Kind.DATA, form, pn, Info(0, int(edns), True), b"", capacity=capacity
    )
    selector, flag, fill = (octet % 32 for octet in entropy(3))
    name = ZONE.encode(packet, number=number, selector=selector, flag=flag, fill=fill)
    ids = [int.from_bytes(entropy(2)) for _ in range(2)]
    question = questions.build_question(ids[0], name, form.qtype, edns=edns)
    spelled = questions.build_question(ids[1], _mixed_case(name), form.qtype, edns=edns)
    copy = questions.read_copy(spelled)
    assert copy is not None
    limit = 1232 if edns else 512
    room = answers.room(form, len(copy.question), limit, edns=edns) - 18
    data = entropy(max(0, int(room * share) - 2)) if share else b""
    frames = frame.stream_header(0, 0) + data if data else b""
    backlog, held = 100 * pn, 0.032 * pn
    payload = session.server.seals.seal_answer(pn, backlog, held, frames)
    opened = session.client.seals.open_answer(pn, payload)
    assert opened is not None
    return {
        "form": form,
        "class": number,
        "number": pn,
        "edns": edns,
        "name": name,
        "question": question,
        "copy": spelled,
        "backlog": opened.backlog,
        "held": round(opened.held, 3),
        "frames": frames,
        "payload": payload,
        "answer": answers.build_answer(copy, form, payload, ZONE),
        "nodata": answers.nodata(copy, ZONE),
        "nxdomain": answers.nxdomain(copy, ZONE),
        "refused": answers.failure(copy, Rcode.REFUSED),
        "truncated": answers.truncated(copy),
    }


def _mixed_case(name: bytes) -> bytes:
    """Return `name` as resolvers spell it that mix its case; their length octets are below any letter."""
    return bytes(
        octet ^ 0x20 if at % 3 == 0 and 0x61 <= octet <= 0x7A else octet
        for at, octet in enumerate(name)
    )


# --- notices --------------------------------------------------------------------------------


def notices() -> Vector:
    entropy = FixedEntropy("vectors: notices")
    said = [
        Notice(EndCode.UNKNOWN, 120.0, None),
        Notice(EndCode.CLOSED, 0.0, 0),
        Notice(EndCode.OPERATOR, 6553.5, 2**32 - 2),
        Notice(EndCode.SHUTDOWN, 0.1, 7),
        Notice(EndCode.REVOKED, 119.9, 128),
        Notice(EndCode.EXPIRED, 60.0, None),
        Notice(EndCode.CAPACITY, 3.3, 1),
        Notice(EndCode.PROTOCOL, 12.5, 3),
    ]
    return {
        "server_private": SERVER_KEY._raw,
        "zone": ZONE.wire,
        "notices": [_notice(notice, 1 + 3 * (at % 2), entropy) for at, notice in enumerate(said)],
    }


def _notice(notice: Notice, number: int, entropy: FixedEntropy) -> Vector:
    sid, packet = entropy(4), entropy(ZONE.classes[number].capacity)
    selector, flag, fill = (octet % 32 for octet in entropy(3))
    name = ZONE.encode(packet, number=number, selector=selector, flag=flag, fill=fill)
    form = answers.Form(notice.code % 3)
    question = questions.build_question(
        int.from_bytes(entropy(2)), _mixed_case(name), form.qtype, edns=number > 1
    )
    copy = questions.read_copy(question)
    assert copy is not None
    key = SERVER_KEY.status_key(sid)
    octets = build_notice(key, notice, name)
    return {
        "sid": sid,
        "status_key": key,
        "code": notice.code,
        "known_for": notice.known_for,
        "last_stream": notice.last_stream,
        "name": name,
        "notice": octets,
        "copy": question,
        "answer": answers.nxdomain(copy, ZONE, octets),
    }


# --- frames ---------------------------------------------------------------------------------

_NAMES: Final = {
    frame.LostMap: "LOST_MAP",
    frame.StreamData: "STREAM",
    frame.MaxData: "MAX_DATA",
    frame.MaxStreamData: "MAX_STREAM_DATA",
    frame.MaxStreams: "MAX_STREAMS",
}


def frames() -> Vector:
    client: list[frame.Frame] = [
        frame.Ping(),
        frame.Floor(0),
        frame.Floor(16_384),
        frame.Lost((1,)),
        frame.Lost(tuple(range(1, 33))),
        frame.LostMap(300, b"\x80\x01"),
        frame.LostMap(16_384, bytes(63) + b"\x10"),
        frame.Response(b"\x01\x02\x03\x04"),
    ]
    server: list[frame.Frame] = [
        frame.Opened(0),
        frame.Refused(63, 1),
        frame.MaxStreams(256),
        frame.Challenge(b"\xff\xfe\xfd\xfc"),
        frame.Zones(((1, ZONES[8].wire), (2, ZONES[30].wire))),
        frame.Lease(0),
        frame.Lease(2**32 - 1),
    ]
    both: list[frame.Frame] = [
        frame.StreamData(0, 0, b"", False),
        frame.StreamData(64, 0, b"data", True),
        frame.StreamData(2**30 - 1, 2**30, b"x" * 70, False),
        frame.Reset(5, 1, 1_048_576),
        frame.Stop(5, 2),
        frame.MaxData(2**62 - 1),
        frame.MaxStreamData(3, 262_144),
        frame.End(4, -1),
        frame.End(1, 41),
    ]
    alone = [([each], True) for each in client + both] + [([each], False) for each in server + both]
    made = [
        _frames(b"".join(map(frame.encode_frame, said)), said, from_client=from_client)
        for said, from_client in (*alone, (client, True), (server, False), (both, True))
    ]
    targets = [
        Target.of("www.example.com", 443),
        Target.of("a", 1),
        Target.of("192.0.2.1", 80),
        Target.of("2001:db8::1", 65_535),
    ]
    to_end = frame.StreamData(1, 5, b"to the end of the packet", False)
    ping = frame.encode_frame(frame.Ping())
    made += [
        # STREAM without a length takes the rest, PAD is the rest, and a varint may be longer than it must.
        _frames(ping + frame.stream_header(1, 5) + to_end.data, [frame.Ping(), to_end]),
        _frames(ping + bytes(20), [frame.Ping()]),
        _frames(ping + b"\x00\x07 not read", [frame.Ping()]),
        _frames(
            b"\x0e\x40\x01\x80\x00\x00\x05\x40\x02ab" + ping,
            [to_end._replace(data=b"ab"), frame.Ping()],
        ),
        # Types from 0x40 on have a length, and are skipped.
        _frames(b"\x40\x40\x03abc" + ping, [frame.Ping()]),
        _frames(b"\xc0\x00\x00\x01\x00\x00\x00\x00\x00" + ping, [frame.Ping()]),
        _frames(b"", []),
    ]
    return {
        "frames": made,
        "wrong": [{"why": why, "from": side, "octets": octets} for why, side, octets in _WRONG],
        "targets": [
            {"host": str(target.host), "port": target.port, "octets": target.to_wire()}
            for target in targets
        ],
    }


_WRONG: Final = [
    ("FLOOR from a server", "server", b"\x02\x01"),
    ("OPENED from a client", "client", b"\x04\x01"),
    ("unknown below 0x40", "client", b"\x06"),
    ("unknown below 0x40", "server", b"\x3f\x00"),
    ("unknown below 0x40, in two octets", "server", b"\x40\x3f\x00"),
    ("cut inside a varint", "client", b"\x12\x80\x00\x00"),
    ("cut before a field", "client", b"\x10\x01\x02"),
    ("cut inside a token", "client", b"\x1b\x01\x02\x03"),
    ("STREAM longer than its packet", "server", b"\x0a\x00\x04abc"),
    ("LOST of none", "client", b"\x03\x00"),
    ("LOST of 33", "client", b"\x03\x21" + bytes(range(1, 34))),
    ("ZONES of none", "server", b"\x1c\x00"),
    ("ZONES of nine", "server", b"\x1c\x09" + b"\x01\x03\x01a\x00" * 9),
    ("skippable, longer than its packet", "client", b"\x40\x40\x04abc"),
]


def _frames(octets: bytes, said: list[frame.Frame], *, from_client: bool = True) -> Vector:
    return {
        "from": "client" if from_client else "server",
        "octets": octets,
        "frames": [
            {"frame": _NAMES.get(type(each), type(each).__name__.upper()), **each._asdict()}
            for each in said
        ],
    }


# --- files ----------------------------------------------------------------------------------

FILES: Final[dict[str, Callable[[], Vector]]] = {
    "keys": keys,
    "names": names,
    "handshakes": handshakes,
    "packets": packets,
    "answers": dns_answers,
    "notices": notices,
    "frames": frames,
}


def build() -> dict[str, str]:
    """Return the text of every file, by its name."""
    return {f"{name}.json": render(make()) for name, make in FILES.items()}


def render(vector: Vector) -> str:
    return json.dumps(_plain(vector), indent=1, ensure_ascii=True) + "\n"


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case bool() | None | str() | float():
            return value
        case int():
            return int(value)
        case _:
            raise TypeError(value)


def main() -> None:
    for name, text in build().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
