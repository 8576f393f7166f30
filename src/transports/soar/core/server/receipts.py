"""Proof that octets arrive where they are sent (SPEC 18.6)."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ("Receipts",)

UNPROVEN_OCTETS: Final = 8 * 1024  # of sealed answers for each prefix, SPEC 18.6
MAX_PREFIXES: Final = 64  # that one session is asked through; one that isn't proven gives way first


class _Prefix:
    """What one prefix has been sent."""

    __slots__ = ("allowance", "token")

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.allowance: int | None = UNPROVEN_OCTETS


class Receipts:
    """The source prefixes of one session, and what each may still be sent before the client proves that it came.

    A source can be forged, and a question be replayed from there: without this a session's answers could be aimed at
    somebody else.
    """

    __slots__ = ("_prefixes", "_secret", "_sid")

    def __init__(self, secret: bytes, sid: bytes) -> None:
        """Make tokens of the server's `secret`."""
        self._secret = secret
        self._sid = sid
        self._prefixes: dict[bytes, _Prefix] = {}

    def allowance(self, prefix: bytes) -> int | None:
        """Return how many octets may still be sent there; None: any number."""
        return self._get(prefix).allowance

    def token(self, prefix: bytes) -> bytes:
        """Return what a CHALLENGE to `prefix` holds, 4 octets."""
        return self._get(prefix).token

    def sent(self, prefix: bytes, octets: int) -> None:
        """Note that so many octets go there."""
        known = self._get(prefix)
        if known.allowance is not None:
            known.allowance = max(0, known.allowance - octets)

    def receive(self, token: bytes) -> None:
        """Take a RESPONSE: the prefix that it is for is proven. Another token means nothing."""
        for known in self._prefixes.values():
            if known.token == token:
                known.allowance = None
                return

    def _get(self, prefix: bytes) -> _Prefix:
        known = self._prefixes.get(prefix)
        if known is None:
            if len(self._prefixes) >= MAX_PREFIXES:
                del self._prefixes[self._least()]
            token = hashlib.blake2s(self._sid + prefix, digest_size=4, key=self._secret).digest()
            known = self._prefixes[prefix] = _Prefix(token)
        return known

    def _least(self) -> bytes:
        unproven = (
            prefix for prefix, known in self._prefixes.items() if known.allowance is not None
        )
        return next(unproven, next(iter(self._prefixes)))
