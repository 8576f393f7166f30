"""What a broker has performed: each request once, however often its page is fetched. Pure; `now` comes in.

A cache fetches a page when it likes, and again when it likes; and whoever has seen a page's URL can ask for it. So an answer
is kept for a while, and that there was one much longer.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

__all__ = ("Entry", "Ledger", "digest_of")

KEPT_FOR: Final = 120.0
"""Seconds that an answer is kept for another fetch of its page."""

KEPT_MOST: Final = 64 * 1024 * 1024
"""Octets of answers that are kept."""

KNOWN_MOST: Final = 200_000
"""Requests that are known to have been performed; 20 MB."""


@dataclass(slots=True, eq=False)
class Entry:
    """One request.

    Attributes:
        page: its answer's page; `None` while it is performed, and after it was let go.
        is_done: whether it has been performed.
        done_at: when.
    """

    page: bytes | None = field(default=None, repr=False)
    is_done: bool = False
    done_at: float = 0.0


class Ledger:
    """Knows the requests that were taken on."""

    def __init__(self) -> None:
        """Begin with none."""
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._pages: OrderedDict[bytes, int] = OrderedDict()
        self._octets = 0

    def __len__(self) -> int:
        """Return how many requests are known."""
        return len(self._entries)

    @property
    def octets(self) -> int:
        """How many octets of answers are kept."""
        return self._octets

    def find(self, digest: bytes, now: float) -> Entry | None:
        """Return what is known of a request; `None` if it is new."""
        self._let_go(now)
        return self._entries.get(digest)

    def take_on(self, digest: bytes) -> Entry:
        """Note a new request, which is performed from now on; the oldest that is known is forgotten when they are too many."""
        entry = self._entries[digest] = Entry()
        if len(self._entries) > KNOWN_MOST:
            oldest, _ = self._entries.popitem(last=False)
            self._octets -= self._pages.pop(oldest, 0)
        return entry

    def finish(self, digest: bytes, page: bytes, now: float) -> None:
        """Note that a request has been performed, with its answer."""
        entry = self._entries.get(digest)
        if entry is None:
            return
        entry.page, entry.is_done, entry.done_at = page, True, now
        self._pages[digest] = len(page)
        self._octets += len(page)
        self._let_go(now)

    def _let_go(self, now: float) -> None:
        while self._pages:
            digest = next(iter(self._pages))
            entry = self._entries[digest]
            if self._octets <= KEPT_MOST and now - entry.done_at < KEPT_FOR:
                return
            self._octets -= self._pages.pop(digest)
            entry.page = None


def digest_of(payload: bytes) -> bytes:
    """Return who a request is: its payload, whatever stands before it in the path."""
    return hashlib.sha256(payload).digest()
