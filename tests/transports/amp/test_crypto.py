"""What only client and broker read: round trips, the nonce's arithmetic, and everything that is none."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError, RemoteProtocolError
from tests.transports.amp.keys import PRIVATE, PRIVATE_PEM, PUBLIC
from transports.amp import generate_key, public_key_of
from transports.amp._crypto import (
    _oaep,
    nonce_of_answer,
    open_answer,
    open_request,
    read_private_key,
    read_public_key,
    seal_answer,
    seal_request,
)

KEY, NONCE = bytes(range(32)), bytes(range(12))


def test_there_and_back() -> None:
    payload = seal_request(b"request", PUBLIC, key=KEY, nonce=NONCE)
    assert set(json.loads(payload)) == {"p", "k", "n"}
    opened = open_request(payload, PRIVATE)
    assert (opened.inner, opened.key, opened.nonce) == (b"request", KEY, NONCE)
    assert "request" not in repr(opened)
    answer = seal_answer(b"answer", opened)
    assert set(json.loads(answer)) == {"response", "nonce"}
    assert open_answer(answer, key=KEY, nonce=NONCE) == b"answer"


@pytest.mark.parametrize(
    ("nonce", "answers"),
    [
        (bytes(12), b"\x02" + bytes(11)),
        (b"\xff" + bytes(11), b"\x01\x01" + bytes(10)),
        (b"\xfe" + bytes(11), b"\x00\x01" + bytes(10)),
        (b"\xff" * 12, b"\x01" + bytes(11)),
    ],
)
def test_the_answers_nonce_is_counted_up_by_two(nonce: bytes, answers: bytes) -> None:
    assert nonce_of_answer(nonce) == answers


def refused(payload: bytes) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        open_request(payload, PRIVATE)
    return str(caught.value)


def test_whatever_is_wrong_with_a_request_sounds_the_same() -> None:
    good = json.loads(seal_request(b"request", PUBLIC, key=KEY, nonce=NONCE))
    other = json.loads(seal_request(b"other", PUBLIC, key=bytes(32), nonce=NONCE))
    wrong = [
        seal_request(b"x", read_public_key(public_key_of(generate_key())), key=KEY, nonce=NONCE),
        json.dumps({**good, "k": other["k"]}).encode(),
        json.dumps({**good, "p": other["p"]}).encode(),
        json.dumps({**good, "n": "AAAA"}).encode(),
        json.dumps({**good, "n": None}).encode(),
        json.dumps({**good, "p": "!"}).encode(),
        b"", b"{}", b"[]", b"\xff", b"[" * 100_000,
    ]  # fmt: skip
    short = PUBLIC.encrypt(b"short", _oaep())
    wrong.append(json.dumps({**good, "k": base64.b64encode(short).decode()}).encode())
    assert len({refused(payload) for payload in wrong}) == 1


def test_an_answer_to_another_request_is_none() -> None:
    opened = open_request(seal_request(b"x", PUBLIC, key=KEY, nonce=NONCE), PRIVATE)
    answer = seal_answer(b"answer", opened)
    for key, nonce in ((bytes(32), NONCE), (KEY, bytes(12))):
        with pytest.raises(RemoteProtocolError, match="no answer of the broker"):
            open_answer(answer, key=key, nonce=nonce)
    for data in (b"", b"{}", answer[:-9] + b'"}', b"null"):
        with pytest.raises(RemoteProtocolError, match="no answer of the broker"):
            open_answer(data, key=KEY, nonce=NONCE)


@given(st.binary(max_size=60))
def test_garbage_is_one_error(data: bytes) -> None:
    refused(data)
    with pytest.raises(RemoteProtocolError):
        open_answer(data, key=KEY, nonce=NONCE)


def test_keys_that_cannot_be() -> None:
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    of_a_curve = curve.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for wrong in (PRIVATE_PEM, "", b"junk", None, 5):
        with pytest.raises(ConfigError, match="PEM text with a PUBLIC KEY"):
            read_public_key(wrong)
    with pytest.raises(ConfigError, match="not a key of RSA"):
        read_public_key(of_a_curve)
    for wrong in (public_key_of(PRIVATE_PEM), "", b"junk", None):
        with pytest.raises(ConfigError, match="private key of RSA") as caught:
            read_private_key(wrong)
        assert "junk" not in str(caught.value)
    with pytest.raises(ConfigError, match="bits must be"):
        generate_key(1024)
