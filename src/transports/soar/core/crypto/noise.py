"""The pattern NK of the Noise protocol framework (revision 34), with 25519 and ChaChaPoly.

One message goes each way:

    <- s                 the initiator knows the responder's public key
    -> e, es   payload
    <- e, ee   payload

Every function that can meet foreign octets is total: `HandshakeFailed`, or the payload.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from racer.errors import LocalProtocolError, RemoteProtocolError

__all__ = ("HandshakeFailed", "Initiator", "Responder", "Split", "exchange", "hkdf")

KEY_SIZE: Final = 32
TAG_SIZE: Final = 16
OVERHEAD: Final = KEY_SIZE + TAG_SIZE
"""Octets of either message beside its payload."""


class HandshakeFailed(RemoteProtocolError):
    """A handshake message that does not prove what it must: forged, altered, cut, or for somebody else."""


def exchange(private: X25519PrivateKey, public: bytes) -> bytes:
    """Return the secret that both share.

    Raises:
        HandshakeFailed: `public` isn't 32 octets long, or is one of the points of low order, which share nothing.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        msg = "the peer's key is no usable X25519 point"
        raise HandshakeFailed(msg) from None


def hkdf(chaining_key: bytes, material: bytes, hash_name: str) -> tuple[bytes, bytes]:
    """Return the two outputs of Noise's HKDF (section 4.3)."""
    key = hmac.digest(chaining_key, material, hash_name)
    first = hmac.digest(key, b"\x01", hash_name)
    return first, hmac.digest(key, first + b"\x02", hash_name)


class Split:
    """What a finished handshake leaves; no `repr` shows it.

    Attributes:
        to_responder: the key of what the initiator sends.
        to_initiator: the key of what the responder sends.
        handshake_hash: names the handshake, the same on both sides.
    """

    __slots__ = ("handshake_hash", "to_initiator", "to_responder")

    def __init__(self, to_responder: bytes, to_initiator: bytes, handshake_hash: bytes) -> None:
        """Hold the keys."""
        self.to_responder = to_responder
        self.to_initiator = to_initiator
        self.handshake_hash = handshake_hash

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: whoever holds keys twice may use a nonce twice."""
        msg = "session keys are not copied"
        raise TypeError(msg)


class _Symmetric:
    """Noise's SymmetricState (section 5.2), as far as NK goes."""

    __slots__ = ("_cipher", "_hash_name", "_sealed", "chaining_key", "hash")

    def __init__(self, prologue: bytes, remote_static: bytes, hash_name: str) -> None:
        name = f"Noise_NK_25519_ChaChaPoly_{_NAMES[hash_name]}".encode()
        self._hash_name = hash_name
        size = hashlib.new(hash_name).digest_size
        self.hash = name.ljust(size, b"\0") if len(name) <= size else self._hashed(name)
        self.chaining_key = self.hash
        self._cipher: ChaCha20Poly1305 | None = None
        self._sealed = 0
        self.mix_hash(prologue)
        self.mix_hash(remote_static)

    def copy(self) -> _Symmetric:
        """Return another that may go on without touching this one."""
        other = object.__new__(_Symmetric)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def mix_hash(self, data: bytes) -> None:
        self.hash = self._hashed(self.hash + data)

    def mix_key(self, material: bytes) -> None:
        self.chaining_key, key = hkdf(self.chaining_key, material, self._hash_name)
        self._cipher = ChaCha20Poly1305(key[:KEY_SIZE])
        self._sealed = 0

    def seal(self, payload: bytes) -> bytes:
        """EncryptAndHash; a key comes before each payload of NK."""
        cipher, nonce = self._next()
        sealed = cipher.encrypt(nonce, payload, self.hash)
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed: bytes) -> bytes:
        """DecryptAndHash, or `HandshakeFailed`."""
        cipher, nonce = self._next()
        try:
            payload = cipher.decrypt(nonce, sealed, self.hash)
        except InvalidTag:
            msg = "the message's seal does not open"
            raise HandshakeFailed(msg) from None
        self.mix_hash(sealed)
        return payload

    def split(self) -> Split:
        to_responder, to_initiator = hkdf(self.chaining_key, b"", self._hash_name)
        return Split(to_responder[:KEY_SIZE], to_initiator[:KEY_SIZE], self.hash)

    def _next(self) -> tuple[ChaCha20Poly1305, bytes]:
        assert self._cipher is not None
        nonce = bytes(4) + self._sealed.to_bytes(8, "little")
        self._sealed += 1
        return self._cipher, nonce

    def _hashed(self, data: bytes) -> bytes:
        return hashlib.new(self._hash_name, data).digest()


_NAMES: Final = {
    "sha256": "SHA256",
    "sha512": "SHA512",
    "blake2s": "BLAKE2s",
    "blake2b": "BLAKE2b",
}


class Initiator:
    """The side that knows the other's key: says the first message, reads the second.

    Args:
        remote_static: the responder's public key.
        prologue: what both sides must agree on.
        ephemeral: 32 fresh random octets, for this one first message.
        hash_name: hashlib's name of the hash.

    Attributes:
        hash: Noise's `h` before the first payload is sealed.
        chaining_key: Noise's `ck` after `es`, which both sides have before the second message.

    Raises:
        HandshakeFailed: `remote_static` is a point of low order.
    """

    __slots__ = ("_after", "_ephemeral", "_public", "_symmetric", "chaining_key", "hash")

    def __init__(
        self, *, remote_static: bytes, prologue: bytes, ephemeral: bytes, hash_name: str = "sha256"
    ) -> None:
        """Do `-> e, es`."""
        self._ephemeral = X25519PrivateKey.from_private_bytes(ephemeral)
        self._public = self._ephemeral.public_key().public_bytes_raw()
        symmetric = _Symmetric(prologue, remote_static, hash_name)
        symmetric.mix_hash(self._public)
        symmetric.mix_key(exchange(self._ephemeral, remote_static))
        self.hash = symmetric.hash
        self.chaining_key = symmetric.chaining_key
        self._symmetric: _Symmetric | None = symmetric
        self._after: _Symmetric | None = None

    def seal(self, payload: bytes) -> bytes:
        """Return the first message.

        Raises:
            LocalProtocolError: it was made already; another payload needs another ephemeral key.
        """
        symmetric, self._symmetric = self._symmetric, None
        if symmetric is None:
            msg = "one ephemeral key seals one first message"
            raise LocalProtocolError(msg)
        message = self._public + symmetric.seal(payload)
        self._after = symmetric
        return message

    def open(self, message: bytes) -> tuple[bytes, Split]:
        """Return the second message's payload, and the keys.

        A message that fails changes nothing, so that the true one can still come.

        Raises:
            HandshakeFailed: it isn't the responder's answer to the first message.
            LocalProtocolError: there was no first message yet.
        """
        if self._after is None:
            msg = "the second message cannot come before the first"
            raise LocalProtocolError(msg)
        symmetric = self._after.copy()
        remote = message[:KEY_SIZE]
        symmetric.mix_hash(remote)
        symmetric.mix_key(exchange(self._ephemeral, remote))
        payload = symmetric.open(message[KEY_SIZE:])
        return payload, symmetric.split()


class Responder:
    """The side whose key is known: reads the first message, says the second.

    Args:
        static: its private key.
        static_public: the same key's public half.
        prologue: what both sides must agree on.
        message: the first message.
        hash_name: hashlib's name of the hash.

    Attributes:
        payload: that of the first message.
        hash: Noise's `h` before that payload was sealed.
        chaining_key: Noise's `ck` after `es`.

    Raises:
        HandshakeFailed: the message isn't one for this key and prologue.
    """

    __slots__ = ("_remote", "_symmetric", "chaining_key", "hash", "payload")

    def __init__(
        self,
        *,
        static: X25519PrivateKey,
        static_public: bytes,
        prologue: bytes,
        message: bytes,
        hash_name: str = "sha256",
    ) -> None:
        """Read the first message."""
        self._remote = message[:KEY_SIZE]
        symmetric = _Symmetric(prologue, static_public, hash_name)
        symmetric.mix_hash(self._remote)
        symmetric.mix_key(exchange(static, self._remote))
        self.hash = symmetric.hash
        self.chaining_key = symmetric.chaining_key
        self.payload = symmetric.open(message[KEY_SIZE:])
        self._symmetric: _Symmetric | None = symmetric

    def seal(self, payload: bytes, *, ephemeral: bytes) -> tuple[bytes, Split]:
        """Return the second message, and the keys.

        Args:
            payload: what it carries.
            ephemeral: 32 fresh random octets.

        Raises:
            HandshakeFailed: the first message's key is a point of low order; cannot be, once that message has opened.
            LocalProtocolError: it was made already; a first message has one answer.
        """
        symmetric, self._symmetric = self._symmetric, None
        if symmetric is None:
            msg = "a first message has one answer"
            raise LocalProtocolError(msg)
        private = X25519PrivateKey.from_private_bytes(ephemeral)
        public = private.public_key().public_bytes_raw()
        symmetric.mix_hash(public)
        symmetric.mix_key(exchange(private, self._remote))
        sealed = symmetric.seal(payload)
        return public + sealed, symmetric.split()
