"""The server's key pair, and what follows from each half (SPEC 3)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from transports.soar.core.crypto.hashes import digest, equal
from transports.soar.core.crypto.noise import KEY_SIZE, HandshakeFailed, exchange
from transports.soar.core.crypto.texts import InvalidKey, Wording

if TYPE_CHECKING:
    from transports.soar.core.crypto.texts import Entropy

__all__ = ("HeaderKey", "PublicKey", "ServerKey")

STATUS_KEY_SIZE: Final = 16

_PUBLIC = Wording("public key", prefix="soar1", label=b"soar1 key", size=KEY_SIZE)
_SECRET = Wording("server key", prefix="soarsecret1", label=b"soar1 secret", size=KEY_SIZE)

# Any private key shows a point of low order for what it is: the shared secret is zero.
_PROBE = X25519PrivateKey.from_private_bytes(b"\x01" * KEY_SIZE)


class HeaderKey:
    """`k_hp` of SPEC 3.2: what whoever has the server's public key can make and check.

    Its digests have different lengths, so they are different functions. Each is begun once and copied, which is twice
    as fast as beginning anew.
    """

    __slots__ = ("_gate", "_mask", "_retry", "_type")

    def __init__(self, public: bytes) -> None:
        """Begin the digests."""
        key = digest(32, b"soar1 header", public)
        self._mask = hashlib.blake2s(digest_size=7, key=key)
        self._gate = hashlib.blake2s(digest_size=4, key=key)
        self._type = hashlib.blake2s(digest_size=1, key=key)
        self._retry = hashlib.blake2s(digest_size=8, key=key)

    def mask(self, tail: bytes) -> bytes:
        """Return the 7 octets over a packet's header, `tail` being its last 16 octets (SPEC 6.2)."""
        state = self._mask.copy()
        state.update(tail)
        return state.digest()

    def gate(self, data: bytes) -> bytes:
        """Return the 4 octets that end a fragment, `data` being all before them, unmasked (SPEC 7.3)."""
        state = self._gate.copy()
        state.update(data)
        return state.digest()

    def type_mask(self, tail: bytes) -> int:
        """Return the octet over an answer's type, `tail` being its last 16 octets (SPEC 7.6)."""
        state = self._type.copy()
        state.update(tail)
        return state.digest()[0]

    def retry_mac(self, data: bytes) -> bytes:
        """Return the 8 octets that end a RETRY (SPEC 7.7)."""
        state = self._retry.copy()
        state.update(data)
        return state.digest()


class PublicKey:
    """A server's public key, which each of its clients has.

    It is not shown by accident all the same: whoever has it can read headers, and test for the server (SPEC 20).

    Args:
        raw: 32 octets.

    Attributes:
        raw: as given.
        header_key: what masks headers.

    Raises:
        InvalidKey: another length, or a point of low order, with which no secret can be shared.
    """

    __slots__ = ("header_key", "raw")

    def __init__(self, raw: bytes) -> None:
        """Check the point, and derive the header key."""
        _PUBLIC.check(raw)
        try:
            exchange(_PROBE, raw)
        except HandshakeFailed:
            msg = "public key: a point of low order; no server has it"
            raise InvalidKey(msg) from None
        self.raw = raw
        self.header_key = HeaderKey(raw)

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key that `text` (`soar1…`, 61 characters) holds.

        Raises:
            InvalidKey: it holds none; the words say why without quoting it.
        """
        return cls(_PUBLIC.read(text))

    def to_text(self) -> str:
        """Return the key as a client's configuration holds it."""
        return _PUBLIC.write(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and equal(self.raw, other.raw)

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return "PublicKey(…)"


class ServerKey:
    """A server's private key, and all that the server needs to know again after a restart.

    No `repr` or `str` shows it.

    Args:
        raw: 32 octets; any will do (RFC 7748 section 5).

    Attributes:
        private: for `Responder`.
        public: the other half.

    Raises:
        InvalidKey: another length.
    """

    __slots__ = ("_raw", "_status", "private", "public")

    def __init__(self, raw: bytes) -> None:
        """Derive the public half and the status key."""
        _SECRET.check(raw)
        self._raw = raw
        self.private = X25519PrivateKey.from_private_bytes(raw)
        self.public = PublicKey(self.private.public_key().public_bytes_raw())
        self._status = hashlib.blake2s(
            digest_size=STATUS_KEY_SIZE, key=digest(32, raw, b"soar1 status")
        )

    @classmethod
    def generate(cls, entropy: Entropy) -> ServerKey:
        """Return a new key, made of 32 octets of `entropy`."""
        return cls(entropy(KEY_SIZE))

    @classmethod
    def parse(cls, text: str) -> ServerKey:
        """Return the key that `text` (`soarsecret1…`, as `to_text()` gave it) holds.

        Raises:
            InvalidKey: it holds none; the words say why without quoting it.
        """
        return cls(_SECRET.read(text))

    def to_text(self) -> str:
        """Return the key for the server's own file: the one secret that everything rests on."""
        return _SECRET.write(self._raw)

    def status_key(self, sid: bytes) -> bytes:
        """Return `K_st` of the session, 16 octets, which only this server and that client have (SPEC 3.2)."""
        state = self._status.copy()
        state.update(sid)
        return state.digest()

    def __repr__(self) -> str:
        return "ServerKey(…)"
