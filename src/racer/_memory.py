"""What worked, remembered from race to race, and if wanted from run to run: who won last starts first."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from racer import _memory_file
from racer._directories import state_directory
from racer._memory_file import SALT_BYTES, Stored, Unusable, digest
from racer._memory_table import Key, Table
from racer._network_id import network_id
from racer._recollection import Recollection
from racer.abc import check_seconds
from racer.errors import ConfigError, DialerClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from racer._host import LoopHost
    from racer._target import Target

__all__ = ("DEFAULT_TTL", "Memory")

DEFAULT_TTL: Final = 86_400.0
"""Seconds after which a win is forgotten: a day, as Psiphon and Lantern have it."""

_HALF_LIFE: Final = 600.0
_MAX_ENTRIES: Final = 1_024
_MOST_ENTRIES: Final = 10_000
_LOOK_AROUND: Final = 2.0  # seconds after which it is looked again which network this is
_READY: Final = 0.25  # seconds a race waits at most for the file and the look around
_SAVE_AFTER: Final = 2.0  # seconds; what is learned meanwhile is written in one go
_SAVE_LIMIT: Final = 0.9  # seconds a dialer's end waits; less than a goodbye may take

logger = logging.getLogger("racer.memory")


def _wall_clock() -> float:
    return datetime.now(UTC).timestamp()


class Memory:
    """The last outcome of each entrant, by network and target. Give it to a `Dialer`, or to several.

    The entrant that won last for a target starts first, at once; the others keep their own delays. So a memory that is
    out of date costs nobody else anything. What it learns, and what it does not:

    - A win counts when the program has received a byte through the connection, or its `check` passed.
    - A failure casts doubt, which halves in each half-life; while there is doubt an entrant starts in its own turn, never later.
    - Only what was learned in the network this machine is in now plays a part.
    - A race in which nothing answered, or during which the clock jumped, teaches nothing.

    May be used from several threads and event loops at once. Making one reads nothing; the first race does.

    Args:
        file: where it is kept from run to run, mode 0600; several processes may share it. `None` keeps it in this process
            only. One that cannot be used is logged once and counts as empty.
        ttl: seconds after which a win is forgotten.
        half_life: seconds in which doubt halves.
        max_entries: entries that are kept, at most 10,000; the one that was not needed for longest is forgotten first.
        tell_network: tells which network this machine is in, as any text, for programs that know better than this machine's
            routes and name servers; quick, since it is asked in the event loop at the start of every race.
        clock: tells the time in seconds since 1970.

    Raises:
        ConfigError: an option that cannot be.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        ttl: float = DEFAULT_TTL,
        half_life: float = _HALF_LIFE,
        max_entries: int = _MAX_ENTRIES,
        tell_network: Callable[[], str] | None = None,
        clock: Callable[[], float] = _wall_clock,
    ) -> None:
        """Check the options; nothing is read."""
        check_seconds(ttl, "ttl")
        check_seconds(half_life, "half_life")
        if type(max_entries) is not int or not 1 <= max_entries <= _MOST_ENTRIES:
            msg = f"max_entries must be a whole number from 1 to {_MOST_ENTRIES}, not {max_entries!r:.80}"
            raise ConfigError(msg)
        if tell_network is not None and not callable(tell_network):
            msg = f"tell_network must be a function, not {type(tell_network).__name__}"
            raise ConfigError(msg)
        try:
            self._path = None if file is None else Path(file)
        except TypeError as exc:
            msg = f"file must be a path or None, not {type(file).__name__}"
            raise ConfigError(msg) from exc
        self._clock = clock
        self._tell_network = tell_network
        self._table = Table(ttl=ttl, half_life=half_life, max_entries=max_entries)
        self._salt = os.urandom(SALT_BYTES)
        self._names: dict[Key, tuple[str, str]] = {}  # what was learned here, to be hashed anew
        self._network = ""
        self._looked_at: float | None = None
        self._is_loaded = self._path is None
        self._is_frozen = False  # what lies in the file's place is somebody else's
        self._is_changed = False
        self._is_saving = False
        self._said: set[str] = set()
        self._lock = (
            threading.Lock()
        )  # of all of the above; never held while something is waited for
        self._file_lock = threading.Lock()

    @staticmethod
    def default_path() -> Path:
        """Return where programs keep it: `racer/memory.json` in the user's own state directory (`XDG_STATE_HOME`).

        Raises:
            RuntimeError: there is no home directory.
        """
        return state_directory() / "racer" / "memory.json"

    @property
    def file(self) -> Path | None:
        """Where it is kept; `None` for this process only."""
        return self._path

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._table)

    def __repr__(self) -> str:
        """Say where it is kept and how much there is; nothing of networks and hosts."""
        return f"<{type(self).__name__} of {len(self._table)} entries in {self._path or 'this process'}>"

    async def ready(self) -> None:
        """Read the file, once, and look which network this is, now and then; both in a thread, and bounded."""
        if self._tell_network is None:
            now = anyio.current_time()
            last = self._looked_at
            if self._is_loaded and last is not None and 0 <= now - last < _LOOK_AROUND:
                return
            self._looked_at = now
        elif self._is_loaded:
            return
        with anyio.move_on_after(_READY):
            await anyio.to_thread.run_sync(self._look_around, abandon_on_cancel=True)

    async def flush(self, *, timeout: float = _SAVE_LIMIT) -> None:
        """Write what is not written yet, in a thread. A dialer's end does that by itself.

        Args:
            timeout: seconds it may take; after that the thread goes on alone.
        """
        if self._path is None or not self._is_changed or self._is_frozen:
            return
        with anyio.move_on_after(timeout) as scope:
            await anyio.to_thread.run_sync(self._save, abandon_on_cancel=True)
        if scope.cancelled_caught:
            logger.warning("the memory was not written within %.1f s", timeout)

    async def forget(self) -> None:
        """Forget everything, also what is in the file, which is removed in a thread."""
        with self._lock:
            self._table.clear()
            self._names.clear()
            self._is_changed = False
        if self._path is not None and not self._is_frozen:
            await anyio.to_thread.run_sync(self._remove)

    def _remove(self) -> None:
        assert self._path is not None
        try:
            with self._file_lock:
                self._path.unlink(missing_ok=True)
        except OSError as exc:
            self._say("the file of the memory could not be removed: %s", exc.strerror or exc)

    def recall(
        self, target: Target, entrants: Sequence[tuple[str, int]], host: LoopHost
    ) -> Recollection:
        """Return what is known for a race that begins now; for the dialer.

        Args:
            target: what is to be reached.
            entrants: the names of those that take part, and their tiers.
            host: where writing may wait for its time.
        """
        network = self._current_network()
        wanted = f"{target} {'raw' if target.tls is False else 'tls'}"
        now = self._clock()
        first: list[str] = []
        with self._lock:
            told, where = digest(network, self._salt), digest(wanted, self._salt)
            for tier in sorted({tier for _, tier in entrants}):
                names = [name for name, own in entrants if own == tier]
                winner = self._table.last_winner(told, where, names, now)
                if winner is not None:
                    first.append(winner)
        return Recollection(
            self,
            host=host,
            network=network,
            target=wanted,
            entrants=tuple(name for name, _ in entrants),
            first=tuple(first),
            clock=self._clock,
        )

    def learn(
        self,
        network: str,
        target: str,
        *,
        won: str | None = None,
        failed: Sequence[str] = (),
        rivals: Sequence[str] = (),
    ) -> bool:
        """Take in outcomes of entrants; returns whether there is something to write. For the dialer.

        Args:
            network: which network it was in.
            target: what was to be reached.
            won: who won.
            failed: who failed.
            rivals: who else takes part there.
        """
        now = self._clock()
        is_news = False
        with self._lock:
            told, where = digest(network, self._salt), digest(target, self._salt)
            for name in failed:
                key = Key(told, where, name)
                if key in self._table:  # who never won is never put first: nothing to take back
                    self._table.failed(key, now)
                    self._names[key] = (network, target)
                    is_news = True
            if won is not None:
                key = Key(told, where, won)
                is_news = self._table.won(key, now, rivals) or is_news
                self._names[key] = (network, target)
            if len(self._names) > 2 * _MOST_ENTRIES:
                self._names = {
                    one: names for one, names in self._names.items() if one in self._table
                }
            self._is_changed = self._is_changed or is_news
        return is_news

    def is_here(self, network: str) -> bool:
        """Return whether this machine is still in that network, as far as is known."""
        return self._current_network() == network

    def save_soon(self, host: LoopHost) -> None:
        """Have what was learned written in a while; synchronous, never raises."""
        if self._path is None or self._is_saving or self._is_frozen:
            return
        self._is_saving = True
        try:
            host.start_in(contextvars.Context(), self._save_later, name="racer memory")
        except DialerClosed:
            self._is_saving = False  # a connection that outlived its dialer: the next one writes it

    async def _save_later(self) -> None:
        try:
            await anyio.sleep(_SAVE_AFTER)
        finally:
            self._is_saving = False
        await self.flush()

    def _current_network(self) -> str:
        if self._tell_network is None:
            return self._network
        try:
            return str(self._tell_network())
        except Exception as exc:  # noqa: BLE001 - a program's slip must not fail a dial
            self._say("tell_network failed: %s", type(exc).__name__)
            return ""

    def _look_around(self) -> None:
        """Load and look; in a thread. Whatever goes wrong costs what is remembered, nothing else."""
        if self._tell_network is None:
            self._network = network_id()
        if self._is_loaded:
            return
        with self._file_lock:
            if not self._is_loaded:
                self._take_file()
                self._is_loaded = True

    def _save(self) -> None:
        """Write, after taking in what other processes wrote meanwhile; in a thread."""
        assert self._path is not None
        try:
            with self._file_lock, _memory_file.locked(self._path):
                self._take_file()
                self._is_loaded = True
                if self._is_frozen:
                    return
                with self._lock:
                    self._is_changed = False
                    stored = Stored(self._salt, self._table.records())
                _memory_file.write(self._path, stored)
        except OSError as exc:
            self._is_changed = True
            self._say("the file of the memory could not be written: %s", exc.strerror or exc)

    def _take_file(self) -> None:
        assert self._path is not None
        try:
            stored = _memory_file.read(self._path)
        except FileNotFoundError:
            return
        except Unusable as exc:
            self._is_frozen = not exc.may_replace
            fate = "replaced" if exc.may_replace else "left alone"
            self._say("the file of the memory counts as empty, and will be %s: %s", fate, exc)
            return
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
            self._say(
                "the file of the memory could not be read: %s",
                getattr(exc, "strerror", None) or exc,
            )
            return
        with self._lock:
            self._adopt(stored.salt)
            self._table.merge(stored.records, self._clock())

    def _adopt(self, salt: bytes) -> None:
        """Hash what was learned here under the file's own salt: another process made the file first."""
        if salt == self._salt:
            return
        renamed = {}
        for key, (network, target) in self._names.items():
            record = self._table.take(key)
            if record is not None:
                new = Key(digest(network, salt), digest(target, salt), key.entrant)
                renamed[new] = (record, (network, target))
        self._table.clear()  # the rest came from a file that is there no more
        self._table.merge({key: record for key, (record, _) in renamed.items()}, self._clock())
        self._names = {key: names for key, (_, names) in renamed.items()}
        self._salt = salt

    def _say(self, message: str, *args: object) -> None:
        """Log something once."""
        text = message % args
        if text not in self._said and len(self._said) < 100:
            self._said.add(text)
            logger.warning(message, *args)
