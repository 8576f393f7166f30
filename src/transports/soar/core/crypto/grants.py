"""Grants, by which a client may use a server, and the proof of having one (SPEC 3.3, 7.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto.hashes import digest, equal
from transports.soar.core.crypto.texts import InvalidKey, Wording

if TYPE_CHECKING:
    from transports.soar.core.crypto.texts import Entropy

__all__ = ("Grant", "proof", "proves")

ID_SIZE: Final = 6
SECRET_SIZE: Final = 32
PROOF_SIZE: Final = 16

_WORDING = Wording("grant", prefix="soargrant1", label=b"soar1 grant", size=ID_SIZE + SECRET_SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A credential: its id names it in lists, its secret proves it and is never sent.

    Attributes:
        id: 6 octets.
        secret: 32 octets; in no `repr`.

    Raises:
        InvalidKey: another length of either.
    """

    id: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the sizes."""
        if len(self.id) != ID_SIZE or len(self.secret) != SECRET_SIZE:
            msg = f"grant: an id has {ID_SIZE} octets and a secret {SECRET_SIZE}"
            raise InvalidKey(msg)

    @classmethod
    def generate(cls, entropy: Entropy) -> Grant:
        """Return a new grant, made of 38 octets of `entropy`."""
        return cls(id=entropy(ID_SIZE), secret=entropy(SECRET_SIZE))

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Return the grant that `text` (`soargrant1…`, 76 characters) holds.

        Raises:
            InvalidKey: it holds none; the words say why without quoting it.
        """
        data = _WORDING.read(text)
        return cls(id=data[:ID_SIZE], secret=data[ID_SIZE:])

    def to_text(self) -> str:
        """Return the grant as a client's configuration holds it."""
        return _WORDING.write(self.id + self.secret)


def proof(secret: bytes, handshake_hash: bytes) -> bytes:
    """Return the 16 octets that prove a grant in the one handshake which has this hash, and in no other."""
    return digest(PROOF_SIZE, secret, handshake_hash)


def proves(secret: bytes, handshake_hash: bytes, claimed: bytes) -> bool:
    """Return whether `claimed` is that proof."""
    return equal(claimed, proof(secret, handshake_hash))
