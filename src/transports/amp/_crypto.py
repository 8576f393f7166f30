"""What only client and broker can read: a fresh key for each request, wrapped for the broker alone. Pure; entropy comes in.

A request is sealed with ChaCha20-Poly1305 (RFC 8439) under a key and nonce of its own, and the key with RSA-OAEP
(RFC 8017 §7.1, SHA-256). The answer is sealed with the same key; its nonce is the request's, counted up by two as a
little-endian number.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from racer.errors import ConfigError, RemoteProtocolError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

__all__ = (
    "KEY",
    "NONCE",
    "Opened",
    "nonce_of_answer",
    "open_answer",
    "open_request",
    "read_private_key",
    "read_public_key",
    "seal_answer",
    "seal_request",
)

KEY: Final = 32
NONCE: Final = 12
MIN_BITS: Final = 2048
MAX_BITS: Final = 8192


@dataclass(frozen=True, slots=True)
class Opened:
    """A request as the broker has it.

    Attributes:
        inner: what the client sealed.
        key: for the answer.
        nonce: the request's.
    """

    inner: bytes = field(repr=False)
    key: bytes = field(repr=False)
    nonce: bytes = field(repr=False)


def read_public_key(pem: object) -> RSAPublicKey:
    """Return the key in a PEM text `PUBLIC KEY`.

    Raises:
        ConfigError: it is none, or not one of RSA with 2048 to 8192 bits.
    """
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(_pem(pem))
    except ValueError as exc:
        msg = "public_key must be a PEM text with a PUBLIC KEY"
        raise ConfigError(msg) from exc
    if not isinstance(key, rsa.RSAPublicKey):
        msg = "public_key is not a key of RSA"
        raise ConfigError(msg)
    _check_size(key.key_size, "public_key")
    return key


def read_private_key(pem: object) -> RSAPrivateKey:
    """Return the key in a PEM text without a passphrase, or a key that was read already.

    Raises:
        ConfigError: it is none, or not one of RSA with 2048 to 8192 bits; quotes nothing of it.
    """
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = pem if isinstance(pem, rsa.RSAPrivateKey) else load_pem_private_key(_pem(pem), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        msg = "key must be a PEM text with a private key of RSA, without a passphrase"
        raise ConfigError(msg)
    _check_size(key.key_size, "key")
    return key


def seal_request(inner: bytes, public_key: RSAPublicKey, *, key: bytes, nonce: bytes) -> bytes:
    """Return the payload that carries `inner`.

    Args:
        inner: the request.
        public_key: the broker's.
        key: 32 random octets, used once.
        nonce: 12 random octets.
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    sealed = ChaCha20Poly1305(key).encrypt(nonce, inner, None)
    wrapped = public_key.encrypt(key, _oaep())
    return json.dumps(
        {"p": _to_base64(sealed), "k": _to_base64(wrapped), "n": _to_base64(nonce)},
        separators=(",", ":"),
    ).encode()


def open_request(payload: bytes, private_key: RSAPrivateKey) -> Opened:
    """Return what a payload carries; RSA takes a millisecond.

    Raises:
        RemoteProtocolError: it is none, or for another key; one text for both, so that nobody learns from it.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    try:
        fields = _fields(payload, "p", "k", "n")
        key = private_key.decrypt(fields["k"], _oaep())
        if len(key) != KEY or len(fields["n"]) != NONCE:
            raise ValueError  # noqa: TRY301 - one text for all
        inner = ChaCha20Poly1305(key).decrypt(fields["n"], fields["p"], None)
    except (ValueError, InvalidTag):
        msg = "a payload that is none, or was sealed for another key"
        raise RemoteProtocolError(msg) from None
    return Opened(inner, key, fields["n"])


def seal_answer(inner: bytes, opened: Opened) -> bytes:
    """Return what carries the answer to a request."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    nonce = nonce_of_answer(opened.nonce)
    sealed = ChaCha20Poly1305(opened.key).encrypt(nonce, inner, None)
    return json.dumps(
        {"response": _to_base64(sealed), "nonce": _to_base64(nonce)}, separators=(",", ":")
    ).encode()


def open_answer(data: bytes, *, key: bytes, nonce: bytes) -> bytes:
    """Return what the answer to a request says.

    Args:
        data: the answer.
        key: the request's.
        nonce: the request's.

    Raises:
        RemoteProtocolError: it is none, or no answer to this request.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    try:
        fields = _fields(data, "response", "nonce")
        if fields["nonce"] != nonce_of_answer(nonce):
            raise ValueError  # noqa: TRY301 - one text for all
        return ChaCha20Poly1305(key).decrypt(fields["nonce"], fields["response"], None)
    except (ValueError, InvalidTag):
        msg = "what came back is no answer of the broker to this request"
        raise RemoteProtocolError(msg) from None


def nonce_of_answer(nonce: bytes) -> bytes:
    """Return a request's nonce counted up by two."""
    number = (int.from_bytes(nonce, "little") + 2) % (1 << 8 * NONCE)
    return number.to_bytes(NONCE, "little")


def _fields(data: bytes, *names: str) -> dict[str, bytes]:
    try:
        document = json.loads(data)
    except RecursionError as exc:
        raise ValueError from exc
    if not isinstance(document, dict):
        raise ValueError  # noqa: TRY004 - the callers have one text for all
    found = {}
    for name in names:
        value = document.get(name)
        if not isinstance(value, str):
            raise ValueError  # noqa: TRY004
        try:
            found[name] = base64.b64decode(value, validate=True)
        except binascii.Error as exc:
            raise ValueError from exc
    return found


def _oaep() -> Any:  # noqa: ANN401 - cryptography's padding
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

    return padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)


def _pem(pem: object) -> bytes:
    if isinstance(pem, str):
        return pem.encode("ascii", "replace")
    return pem if isinstance(pem, bytes) else b""


def _check_size(bits: int, option: str) -> None:
    if not MIN_BITS <= bits <= MAX_BITS:
        msg = f"{option} has {bits} bits; {MIN_BITS} to {MAX_BITS} are taken"
        raise ConfigError(msg)


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
