"""The published vectors: the implementation makes them, and a second reader, of the specification alone, reads them."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from tests.transports.soar import decoder
from tests.transports.soar.decoder import Wrong
from tests.transports.soar.vectors import make
from transports.soar.core.crypto import read_header, read_notice
from transports.soar.core.crypto.keys import PublicKey
from transports.soar.core.dns.answers import Form, read_answer
from transports.soar.core.dns.zone import Partial, Whole, Zone
from transports.soar.core.streams import frames as frame
from transports.soar.core.streams.targets import read_target

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / "vectors"
Vector = dict[str, Any]


def load(name: str) -> Vector:
    loaded: Vector = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


KEYS, NAMES, HANDSHAKES, PACKETS, ANSWERS, NOTICES, FRAMES = (
    load(name)
    for name in ("keys", "names", "handshakes", "packets", "answers", "notices", "frames")
)
octets = bytes.fromhex


def spelled(value: Any) -> Any:
    """Return what the decoder gave as the vectors spell it."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: spelled(inner) for key, inner in value.items()}
        case list() | tuple():
            return [spelled(inner) for inner in value]
        case _:
            return value


def what(vector: Vector) -> str:
    return str(vector.get("what") or vector.get("why") or vector.get("text") or "")


def each(vectors: list[Vector]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=what)


# --- what they are --------------------------------------------------------------------------


def test_the_implementation_makes_what_is_published() -> None:
    built = make.build()
    assert built.keys() | {"noise.json"} == {path.name for path in FOLDER.glob("*.json")}
    for name, text in built.items():
        published = (FOLDER / name).read_text(encoding="utf-8")
        assert text == published, f"{name}: run `python -m tests.transports.soar.vectors.make`"


def test_the_decoder_shares_no_code_with_the_implementation() -> None:
    tree = ast.parse(Path(decoder.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.partition(".")[0] for name in imported}
    assert roots <= {
        "__future__",
        "base64",
        "cryptography",
        "dns",
        "hashlib",
        "hmac",
        "ipaddress",
        "typing",
    }


# --- keys -----------------------------------------------------------------------------------


def test_the_keys_are_derived_as_specified() -> None:
    server, grant = KEYS["server"], KEYS["grant"]
    private, public = octets(server["private"]), octets(server["public"])
    assert decoder.public_of(private) == public
    assert decoder.header_key(public).hex() == server["k_hp"]
    assert decoder.H(32, private, b"soar1 status").hex() == server["k_reset"]
    for one in server["k_st"]:
        assert decoder.status_key(private, octets(one["sid"])).hex() == one["key"]
    for one in KEYS["hashes"]:
        made = decoder.H(one["size"], octets(one["key"]), octets(one["data"]))
        assert made.hex() == one["digest"]
    for spell in (str.lower, str.upper):
        text = spell(server["public_text"])
        assert decoder.read_key(text, "soar1", b"soar1 key", 32) == public
        whole = decoder.read_key(spell(grant["text"]), "soargrant1", b"soar1 grant", 38)
        assert whole.hex() == grant["id"] + grant["secret"]
    assert len(server["public_text"]) == 61


# --- names ----------------------------------------------------------------------------------


@each(NAMES["zones"])
def test_the_names_of_a_zone_are_as_specified(vector: Vector) -> None:
    wire = octets(vector["wire"])
    laid_out = [
        {
            "class": number,
            "length": length,
            "labels": labels,
            "capacity": 5 * (63 * (labels - 1) + last - (1 if labels == 1 else 2)) // 8,
        }
        for number, (length, labels, last) in decoder.classes(len(wire)).items()
    ]
    assert vector["classes"] == laid_out
    assert [one["class"] for one in vector["whole"]] == [one["class"] for one in laid_out]
    for one in vector["whole"]:
        name = octets(one["name"])
        read = spelled(decoder.read_name(wire, name))
        assert read == {key: value for key, value in one.items() if key != "name"}
        ours = Zone.parse(vector["text"]).read(name)
        assert ours == Whole(one["class"], one["selector"], octets(one["packet"]))
    assert vector["partial"]
    for one in vector["partial"]:
        assert decoder.read_name(wire, octets(one["name"])) == {
            "partial": True,
            "flag": one["flag"],
            "answer": one["answer"],
        }
        ours = Zone.parse(vector["text"]).read(octets(one["name"]))
        assert isinstance(ours, Partial)
        assert ours.answer.name == one["answer"]


def test_the_table_of_capacities_is_right() -> None:
    table = {8: [38, 55, 103, 150], 15: [38, 51, 98, 146], 30: [38, 41, 89, 136]}
    zones = {len(octets(zone["wire"])): zone for zone in NAMES["zones"]}
    for z, capacities in table.items():
        assert [one["capacity"] for one in zones[z]["classes"]] == capacities


# --- handshakes -----------------------------------------------------------------------------


@each(HANDSHAKES["handshakes"])
def test_a_first_message_is_read(vector: Vector) -> None:
    private, public = (octets(HANDSHAKES[key]) for key in ("server_private", "server_public"))
    msg1, zone = octets(vector["msg1"]), octets(vector["zone"])
    read = spelled(
        decoder.read_msg1(private, zone, msg1, secret=octets(HANDSHAKES["grant_secret"]))
    )
    assert read.pop("k_early") == vector["keys"]["k_early"]
    fields = ("sid", "time", "max_version", "frames", "cookie", "cookie_sid", "grant_id", "proof")
    assert read == {key: vector[key] for key in fields if key in vector}
    assert vector["fragments"]
    for flight in vector["fragments"]:
        joined = bytearray(len(msg1))
        for packet in map(octets, flight["packets"]):
            assert len(packet) == flight["capacity"]
            piece = decoder.read_fragment(public, packet)
            assert (piece["form"], piece["sid"].hex()) == (flight["form"], vector["sid"])
            assert piece["total"] == len(msg1)
            joined[piece["offset"] : piece["offset"] + len(piece["piece"])] = piece["piece"]
        assert bytes(joined) == msg1
        assert len(flight["packets"]) <= 4


@each(HANDSHAKES["handshakes"])
def test_the_answer_to_a_first_message_is_read(vector: Vector) -> None:
    public = octets(HANDSHAKES["server_public"])
    body_type, body = decoder.read_reply(public, octets(vector["answer"]))
    assert (body_type, body.hex()) == (0, vector["msg2"])
    ephemeral = octets(vector["client_ephemeral_private"])
    zone, msg1 = octets(vector["zone"]), octets(vector["msg1"])
    read = spelled(decoder.read_msg2(public, zone, ephemeral, msg1, body))
    assert {key: read.pop(key) for key in ("k_c2s", "k_s2c")} == {
        key: vector["keys"][key] for key in ("k_c2s", "k_s2c")
    }
    assert read == vector["terms"]
    server_e = decoder.public_of(octets(vector["server_ephemeral_private"]))
    assert body[:32] == server_e
    if read["status"] == 0:
        private = octets(HANDSHAKES["server_private"])
        assert read["status_key"] == decoder.status_key(private, octets(vector["sid"])).hex()


def test_retries_are_read() -> None:
    public = octets(HANDSHAKES["server_public"])
    assert {vector["code"] for vector in HANDSHAKES["retries"]} == {1, 2}
    for vector in HANDSHAKES["retries"]:
        body_type, body = decoder.read_reply(public, octets(vector["payload"]))
        assert body_type == 1
        read = spelled(decoder.read_retry(public, octets(vector["sid"]), body))
        assert read == {key: vector[key] for key in ("code", "cookie", "time")}


# --- packets --------------------------------------------------------------------------------


def test_packets_open() -> None:
    public, sid = (octets(PACKETS[key]) for key in ("server_public", "sid"))
    keys = {1: octets(PACKETS["keys"]["k_early"]), 2: octets(PACKETS["keys"]["k_c2s"])}
    assert {vector["kind"] for vector in PACKETS["packets"]} == {1, 2}
    assert max(vector["number"] for vector in PACKETS["packets"]) > 0xFFFF
    for vector in PACKETS["packets"]:
        read = decoder.open_packet(
            public, keys, octets(vector["packet"]), vector["number"], vector["zone_index"]
        )
        assert read["sid"] == sid
        fields = ("kind", "form", "path", "size_class", "may_park", "frames")
        assert {key: spelled(read[key]) for key in fields} == {key: vector[key] for key in fields}
        with pytest.raises(Wrong, match="seal"):
            decoder.open_packet(
                public, keys, octets(vector["packet"]), vector["number"], vector["zone_index"] ^ 1
            )


@each(PACKETS["junk"])
def test_junk_is_junk(vector: Vector) -> None:
    public, packet = octets(PACKETS["server_public"]), octets(vector["packet"])
    with pytest.raises(Wrong, match="junk"):
        decoder.read_header(public, packet)
    assert read_header(PublicKey(public).header_key, packet) is None


# --- answers --------------------------------------------------------------------------------


def test_answers_come_in_every_form_with_and_without_edns() -> None:
    seen = {(vector["form"], vector["edns"]) for vector in ANSWERS["answers"]}
    assert seen == {(form, edns) for form in (0, 1, 2) for edns in (False, True)}


@pytest.mark.parametrize("vector", ANSWERS["answers"], ids=lambda v: f"{v['form']}-{v['number']}")
def test_a_question_and_all_its_answers_are_read(vector: Vector) -> None:
    public, zone, k_c2s, k_s2c = (
        octets(ANSWERS[key]) for key in ("server_public", "zone", "k_c2s", "k_s2c")
    )
    form, number = vector["form"], vector["number"]
    asked = decoder.read_dns(octets(vector["question"]))
    assert asked["name"].hex() == vector["name"]
    assert asked["type"] == decoder.FORM_TYPES[form]
    assert asked["flags"] == 0x0100  # RD, and nothing else
    assert asked["edns_size"] == (1232 if vector["edns"] else None)
    packet = decoder.read_name(zone, asked["name"])["packet"]
    question = decoder.open_packet(public, {2: k_c2s}, packet, number, 0)
    assert question["form"] == form

    copy = octets(vector["copy"])
    assert decoder.read_dns(copy)["name"] != asked["name"]
    assert decoder.read_dns(copy)["name"].lower() == asked["name"]
    said = {
        kind: decoder.read_answer(copy, octets(vector[kind]), form)
        for kind in ("answer", "nodata", "nxdomain", "refused", "truncated")
    }
    assert said["answer"][0] == "payload"
    assert said["answer"][1].hex() == vector["payload"]
    assert {kind: said[kind][0] for kind in ("nodata", "nxdomain", "refused", "truncated")} == {
        kind: kind for kind in ("nodata", "nxdomain", "refused", "truncated")
    }
    assert len(octets(vector["answer"])) <= (1232 if vector["edns"] else 512)
    opened = decoder.open_answer(k_s2c, number, said["answer"][1])
    assert spelled(opened) == {key: vector[key] for key in ("backlog", "held", "frames")}
    decoder.read_frames(opened["frames"], from_client=False)

    ours = read_answer(octets(vector["answer"]), Form(form))
    assert ours.payload == said["answer"][1]
    assert ours.question == octets(vector["name"]) + asked["type"].to_bytes(2) + b"\0\1"


@pytest.mark.parametrize("vector", NOTICES["notices"], ids=lambda vector: str(vector["code"]))
def test_a_notice_is_read(vector: Vector) -> None:
    private, name = octets(NOTICES["server_private"]), octets(vector["name"])
    key = decoder.status_key(private, octets(vector["sid"]))
    assert key.hex() == vector["status_key"]
    copy, message = octets(vector["copy"]), octets(vector["answer"])
    assert decoder.read_dns(copy)["name"].lower() == name
    kind, found = decoder.read_answer(copy, message, 0)
    assert (kind, found.hex()) == ("notice", vector["notice"])
    read = decoder.read_notice(key, name, found)
    assert read == {field: vector[field] for field in ("code", "known_for", "last_stream")}
    ours = read_answer(message).notice
    assert ours == found
    assert read_notice(ours, key, name) == tuple(read.values())


# --- frames ---------------------------------------------------------------------------------


def test_frames_are_read() -> None:
    for vector in FRAMES["frames"]:
        read = decoder.read_frames(octets(vector["octets"]), from_client=vector["from"] == "client")
        assert spelled(read) == vector["frames"]
        ours = frame.decode(octets(vector["octets"]), from_client=vector["from"] == "client")
        assert [spelled(one._asdict()) for one in ours] == [
            {key: value for key, value in one.items() if key != "frame"} for one in vector["frames"]
        ]


@each(FRAMES["wrong"])
def test_wrong_frames_are_wrong(vector: Vector) -> None:
    from_client = vector["from"] == "client"
    with pytest.raises(Wrong):
        decoder.read_frames(octets(vector["octets"]), from_client=from_client)
    with pytest.raises(RemoteProtocolError):
        frame.decode(octets(vector["octets"]), from_client=from_client)


@given(st.binary(max_size=60), st.booleans())
def test_both_readers_agree_about_any_octets(garbage: bytes, from_client: bool) -> None:
    def verdict(read: Callable[[], list[Any]]) -> object:
        try:
            return len(read())
        except (Wrong, RemoteProtocolError):
            return "wrong"

    assert verdict(lambda: decoder.read_frames(garbage, from_client=from_client)) == verdict(
        lambda: frame.decode(garbage, from_client=from_client)
    )


def test_targets_are_read() -> None:
    for vector in FRAMES["targets"]:
        host, port, rest = decoder.read_target(octets(vector["octets"]) + b"rest")
        assert (host, port, rest) == (vector["host"], vector["port"], b"rest")
        ours = read_target(octets(vector["octets"]) + b"rest")
        assert ours is not None
        assert (str(ours[0].host), ours[0].port) == (host, port)


def test_every_file_of_vectors_is_read_here() -> None:
    read = {"keys", "names", "handshakes", "packets", "answers", "notices", "frames", "noise"}
    assert {path.stem for path in FOLDER.glob("*.json")} == read
    assert importlib.import_module("tests.transports.soar.crypto.test_noise").OWN.stem == "noise"
