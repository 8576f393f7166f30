"""Noise NK against the vectors of others, and against forgers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from tests.transports.soar.crypto.parties import FixedEntropy, flips
from tests.transports.soar.crypto.test_keys import LOW_ORDER
from transports.soar.core.crypto.noise import HandshakeFailed, Initiator, Responder, Split

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[4]
OWN = ROOT / "tests/transports/soar/vectors/noise.json"
PUBLISHED = ROOT.parent / "shared/data/noise-nk-vectors.json"

STATIC = X25519PrivateKey.from_private_bytes(FixedEntropy("static")(32))
STATIC_PUBLIC = STATIC.public_key().public_bytes_raw()


def vectors(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["vectors"]
    return found


def transport(split: Split) -> Iterator[tuple[ChaCha20Poly1305, bytes]]:
    """Yield cipher and nonce of each message after the handshake: the initiator's, the responder's, and so on."""
    ciphers = [ChaCha20Poly1305(key) for key in (split.to_responder, split.to_initiator)]
    count = 0
    while True:
        nonce = bytes(4) + count.to_bytes(8, "little")
        yield ciphers[0], nonce
        yield ciphers[1], nonce
        count += 1


def check(vector: dict[str, Any]) -> None:
    """Play `vector` with both of our sides, and compare every octet."""

    def octets(key: str) -> bytes:
        return bytes.fromhex(vector[key])

    hash_name = vector["protocol_name"].rpartition("_")[2].lower()
    static = X25519PrivateKey.from_private_bytes(octets("resp_static"))
    assert static.public_key().public_bytes_raw() == octets("init_remote_static")
    payloads = [bytes.fromhex(message["payload"]) for message in vector["messages"]]
    sealed = [bytes.fromhex(message["ciphertext"]) for message in vector["messages"]]

    initiator = Initiator(
        remote_static=octets("init_remote_static"),
        prologue=octets("init_prologue"),
        ephemeral=octets("init_ephemeral"),
        hash_name=hash_name,
    )
    assert initiator.seal(payloads[0]) == sealed[0]
    responder = Responder(
        static=static,
        static_public=octets("init_remote_static"),
        prologue=octets("resp_prologue"),
        message=sealed[0],
        hash_name=hash_name,
    )
    assert responder.payload == payloads[0]
    assert (responder.hash, responder.chaining_key) == (initiator.hash, initiator.chaining_key)
    message, theirs = responder.seal(payloads[1], ephemeral=octets("resp_ephemeral"))
    assert message == sealed[1]
    payload, split = initiator.open(message)
    assert payload == payloads[1]
    if "handshake_hash" in vector:
        assert split.handshake_hash == octets("handshake_hash")
    assert (split.to_responder, split.to_initiator, split.handshake_hash) == (
        theirs.to_responder,
        theirs.to_initiator,
        theirs.handshake_hash,
    )
    later = zip(transport(split), payloads[2:], sealed[2:], strict=False)
    for (cipher, nonce), plain, expected in later:
        assert cipher.encrypt(nonce, plain, None) == expected


@pytest.mark.parametrize("vector", vectors(OWN), ids=lambda vector: vector["source"])
def test_a_vector_of_others_comes_out(vector: dict[str, Any]) -> None:
    assert vector["protocol_name"] == "Noise_NK_25519_ChaChaPoly_SHA256"
    check(vector)


@pytest.mark.skipif(not PUBLISHED.exists(), reason=f"{PUBLISHED.name} is not beside the project")
def test_all_published_vectors_come_out_whatever_the_hash() -> None:
    published = vectors(PUBLISHED)
    for vector in published:
        assert not vector.get("init_psks")
        check(vector)
    names = {vector["protocol_name"] for vector in published}
    assert len(names) == 4
    ours = [vector for vector in published if vector["protocol_name"].endswith("_SHA256")]
    assert [v["messages"] for v in ours] == [v["messages"] for v in vectors(OWN)]


def initiator(*, remote_static: bytes = STATIC_PUBLIC, prologue: bytes = b"prologue") -> Initiator:
    return Initiator(
        remote_static=remote_static, prologue=prologue, ephemeral=FixedEntropy("ephemeral")(32)
    )


def respond(message: bytes, *, prologue: bytes = b"prologue") -> Responder:
    return Responder(static=STATIC, static_public=STATIC_PUBLIC, prologue=prologue, message=message)


def test_a_first_message_with_any_bit_flipped_or_cut_anywhere_fails() -> None:
    message = initiator().seal(b"payload")
    wrong = [*flips(message), *(message[:at] for at in range(len(message))), message + b"\0"]
    for forged in wrong:
        # The last bit of a point is not read by X25519, but hashed all the same.
        with pytest.raises(HandshakeFailed):
            respond(forged)
    assert respond(message).payload == b"payload"


def test_a_second_message_that_fails_changes_nothing() -> None:
    client = initiator()
    answer, theirs = respond(client.seal(b"")).seal(
        b"payload", ephemeral=FixedEntropy("answer")(32)
    )
    wrong = [*flips(answer), *(answer[:at] for at in range(len(answer))), answer + b"\0"]
    for forged in wrong:
        with pytest.raises(HandshakeFailed):
            client.open(forged)
    payload, split = client.open(answer)
    assert payload == b"payload"
    assert split.to_responder == theirs.to_responder


def test_another_prologue_or_key_fails() -> None:
    message = initiator().seal(b"payload")
    with pytest.raises(HandshakeFailed):
        respond(message, prologue=b"another")
    other = X25519PrivateKey.from_private_bytes(FixedEntropy("other")(32))
    with pytest.raises(HandshakeFailed):
        respond(initiator(remote_static=other.public_key().public_bytes_raw()).seal(b"payload"))


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_a_point_of_low_order_fails_wherever_it_stands(point: bytes) -> None:
    with pytest.raises(HandshakeFailed, match="X25519 point"):
        initiator(remote_static=point)
    with pytest.raises(HandshakeFailed, match="X25519 point"):
        respond(point + bytes(16))
    client = initiator()
    client.seal(b"")
    with pytest.raises(HandshakeFailed, match="X25519 point"):
        client.open(point + bytes(16))


@given(st.binary(max_size=120))
def test_garbage_gives_the_one_error(garbage: bytes) -> None:
    client = initiator()
    client.seal(b"")
    with pytest.raises(HandshakeFailed):
        client.open(garbage)
    with pytest.raises(HandshakeFailed):
        respond(garbage)


def test_one_ephemeral_key_seals_one_message() -> None:
    client = initiator()
    server = respond(client.seal(b"first"))
    with pytest.raises(LocalProtocolError, match="one ephemeral key"):
        client.seal(b"second")
    server.seal(b"first", ephemeral=FixedEntropy("a")(32))
    with pytest.raises(LocalProtocolError, match="one answer"):
        server.seal(b"second", ephemeral=FixedEntropy("b")(32))


def test_the_second_message_cannot_be_read_first() -> None:
    with pytest.raises(LocalProtocolError, match="before the first"):
        initiator().open(bytes(48))
