"""Proof that octets arrive where they are sent (SPEC 18.6)."""

from __future__ import annotations

import hashlib
from typing import Final

from transports.soar.core.server.source import prefix_of

__all__ = ("Receipt", "Receipts")

UNPROVEN_OCTETS: Final = 8 * 1024  # of sealed answers for each prefix, SPEC 18.6
MAX_PREFIXES: Final = 64  # that one session is asked through; one that isn't proven gives way first


class Receipt:
    """One prefix of which it isn't proven that octets arrive there.

    Attributes:
        token: what a CHALLENGE to it holds, 4 octets.
        allowance: octets that it may still be sent.
    """

    __slots__ = ("allowance", "token")

    def __init__(self, token: bytes) -> None:
        """Begin with the whole allowance."""
        self.token = token
        self.allowance = UNPROVEN_OCTETS

    def spend(self, octets: int) -> None:
        """Note that so many octets go there."""
        self.allowance = max(0, self.allowance - octets)


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
        self._prefixes: dict[bytes, Receipt | None] = {}  # None: proven

    def of(self, address: bytes) -> Receipt | None:
        """Return what is known of the neighbourhood of `address`; None if it is proven."""
        prefix = address[:3] if len(address) == 4 else prefix_of(address)
        try:
            return self._prefixes[prefix]
        except KeyError:
            return self._add(prefix)

    def receive(self, token: bytes) -> None:
        """Take a RESPONSE: the prefix that it is for is proven. Another token means nothing."""
        for prefix, receipt in self._prefixes.items():
            if receipt is not None and receipt.token == token:
                self._prefixes[prefix] = None
                return

    def _add(self, prefix: bytes) -> Receipt:
        prefixes = self._prefixes
        if len(prefixes) >= MAX_PREFIXES:
            unproven = (known for known, receipt in prefixes.items() if receipt is not None)
            del prefixes[next(unproven, next(iter(prefixes)))]
        token = hashlib.blake2s(self._sid + prefix, digest_size=4, key=self._secret).digest()
        receipt = prefixes[prefix] = Receipt(token)
        return receipt
