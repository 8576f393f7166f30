"""Cookies: proof, under load, that a client has read an answer (SPEC 7.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto.hashes import digest, equal

if TYPE_CHECKING:
    from transports.soar.core.crypto.texts import Entropy

__all__ = ("Cookies",)

COOKIE_SIZE: Final = 8
LIFETIME: Final = 120.0
"""Seconds after which a secret is changed; the last one stays good until the next change."""
MOST_SPENT: Final = 65_536
"""Cookies spent under one secret before it is changed early, which bounds what is remembered of them."""


class _Secret:
    """One secret, and which of its cookies were spent."""

    __slots__ = ("_key", "born", "spent")

    def __init__(self, key: bytes, born: float) -> None:
        self._key = key
        self.born = born
        self.spent: set[bytes] = set()

    def cookie(self, sid: bytes) -> bytes:
        return digest(COOKIE_SIZE, self._key, sid)


class Cookies:
    """What a server asks busy times' clients to bring back.

    It remembers no cookie that it gives, only those that came back: at most 131,072 of them.

    Args:
        entropy: where secrets come from.
        now: seconds on any clock that does not go back; all calls use the same.
    """

    __slots__ = ("_entropy", "_last", "_secret")

    def __init__(self, entropy: Entropy, *, now: float) -> None:
        """Draw the first secret."""
        self._entropy = entropy
        self._secret = _Secret(entropy(32), now)
        self._last: _Secret | None = None

    def cookie(self, sid: bytes, now: float) -> bytes:
        """Return the cookie for the first message `sid`, 8 octets; the same until the secret changes."""
        self._turn(now)
        return self._secret.cookie(sid)

    def check(self, sid: bytes, cookie: bytes, now: float) -> bool:
        """Return whether `cookie` was given for `sid` lately and wasn't spent yet; it then is.

        Args:
            sid: the SID for which the client says it got the cookie, not the one of the message that brings it.
            cookie: what the message brings.
            now: as for the constructor.
        """
        self._turn(now)
        for secret in (self._secret, self._last):
            if secret is None or not equal(cookie, secret.cookie(sid)):
                continue
            if cookie in secret.spent:
                return False
            secret.spent.add(cookie)
            return True
        return False

    def _turn(self, now: float) -> None:
        age = now - self._secret.born
        if age < LIFETIME and len(self._secret.spent) < MOST_SPENT:
            return
        # One that nobody asked about for two lifetimes is past its own time too.
        self._last = None if age >= 2 * LIFETIME else self._secret
        self._secret = _Secret(self._entropy(32), now)
