"""Strategies as text, in Outline's words: `split:2,20*5`, `disorder:0|split:1`, `tlsfrag:1`, `override:port=8443`. Pure.

A pipe goes from the socket outwards: what stands on the right takes the program's bytes first. `""` is no trick at all.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from racer.abc import Target, unknown_key
from racer.errors import ConfigError, InvalidTarget
from transports.proxyless._hello import MAX_HELLO
from transports.proxyless._stages import (
    MAX_WRITES,
    SNI,
    Disorder,
    Flight,
    Offsets,
    Split,
    TLSFrag,
)

if TYPE_CHECKING:
    from transports.proxyless._stages import Stage

__all__ = ("DIRECT", "MAX_STAGES", "Override", "Strategy", "parse_strategy")

MAX_STAGES: Final = 8
"""Parts of a pipe; no combination that makes a difference has more than four."""

_MAX_TEXT: Final = 512  # characters of a strategy
_OURS: Final = ("disorder", "override", "split", "tlsfrag")
# What Outline knows besides. Their settings may hold passwords, so nothing of them is ever quoted.
_OUTLINES: Final = frozenset({"do53", "doh", "quic", "socks5", "ss", "tls", "ws", "wss"})
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,20}\Z")
_RUN: Final = re.compile(r"(?:([0-9]{1,5})\*)?([0-9]{1,5})\Z")
_NUMBER: Final = re.compile(r"-?[0-9]{1,5}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Where to connect instead of the target's own host and port; the names in TLS and HTTP stay.

    Attributes:
        host: a name or an IP address; `None` for the target's.
        port: `None` for the target's.
    """

    host: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """Return it as it is configured."""
        parts = (("host", self.host), ("port", self.port))
        return "override:" + "&".join(f"{key}={value}" for key, value in parts if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to send a first flight.

    Attributes:
        text: as it is configured, in its shortest form; empty for no trick.
        stages: what is done to the bytes, the outermost first.
        disorder: which write arrives late; `None` for none.
        override: where to connect instead; `None` for the target.
    """

    text: str = ""
    stages: tuple[Stage, ...] = ()
    disorder: int | None = None
    override: Override | None = None

    def begin(self) -> Flight | None:
        """Return the first flight of a connection that begins now; `None` when nothing is done to it."""
        if not self.stages and self.disorder is None:
            return None
        return Flight(self.stages, self.disorder)

    def __str__(self) -> str:
        """Return it for people."""
        return self.text or "direct"


DIRECT: Final = Strategy()
"""No trick."""


def parse_strategy(text: object, *, option: str = "strategy") -> Strategy:
    """Return the strategy that `text` names.

    Args:
        text: parts in a pipe: `split:N,N*N,…`, `split:sni`, `tlsfrag:N`, `tlsfrag:sni`, `disorder:N`,
            `override:host=…&port=…`; empty for none.
        option: what it is an option of, for the error.

    Raises:
        ConfigError: says which part cannot be, and why; also of what could never have any effect.
    """
    if not isinstance(text, str):
        msg = f"{option}: must be a text, not {type(text).__name__}"
        raise ConfigError(msg)
    if len(text) > _MAX_TEXT:
        msg = f"{option}: longer than {_MAX_TEXT} characters"
        raise ConfigError(msg)
    if not text.strip():
        return DIRECT
    words = [word.strip() for word in text.split("|")]
    if len(words) > MAX_STAGES:
        msg = f"{option}: {len(words)} parts in a pipe; at most {MAX_STAGES} are taken"
        raise ConfigError(msg)
    parts = [_part(word, option) for word in words]
    return _combined(parts, option)


def _combined(parts: list[Split | TLSFrag | Disorder | Override], option: str) -> Strategy:
    stages = [part for part in reversed(parts) if isinstance(part, Split | TLSFrag)]
    disorders = [part for part in parts if isinstance(part, Disorder)]
    overrides = [part for part in parts if isinstance(part, Override)]
    for name, found in (("disorder", disorders), ("override", overrides)):
        if len(found) > 1:
            msg = f"{option}: {name} more than once in a pipe"
            raise ConfigError(msg)
    for outer, inner in itertools.pairwise(stages):
        if isinstance(outer, Split) and isinstance(inner, TLSFrag):
            msg = f"{option}: tlsfrag joins what split has cut before it; write '{inner}' to the right of '{outer}'"
            raise ConfigError(msg)
    return Strategy(
        # Where disorder and override stand makes no difference, so that both have their place.
        text="|".join(map(str, [*disorders, *reversed(stages), *overrides])),
        stages=tuple(stages),
        disorder=disorders[0].index if disorders else None,
        override=overrides[0] if overrides else None,
    )


def _part(word: str, option: str) -> Split | TLSFrag | Disorder | Override:
    kind, colon, setting = word.partition(":")
    if kind in _OUTLINES:
        msg = f"{option}: '{kind}' is not supported here; a strategy is made of {', '.join(_OURS)}"
        raise ConfigError(msg)
    if kind not in _OURS:
        known = f"known: {', '.join(_OURS)}"
        if _WORD.match(kind):
            known = unknown_key(kind, _OURS)
        msg = f"{option}: a part of the pipe is no trick; {known}"
        raise ConfigError(msg)
    where = f"{option}: {word[:80]!r}"
    if not colon or not setting:
        msg = f"{where}: the setting is missing"
        raise ConfigError(msg)
    match kind:
        case "split":
            return Split(_cuts(setting, where))
        case "tlsfrag":
            return TLSFrag(_fragment(setting, where))
        case "disorder":
            return Disorder(_bounded(setting, where, least=0, most=MAX_WRITES - 1))
        case _:
            return _override(setting, where)


def _cuts(setting: str, where: str) -> Offsets | SNI:
    if setting == "sni":
        return SNI()
    runs = []
    for run in setting.split(","):
        found = _RUN.match(run.strip())
        if found is None:
            msg = f"{where}: takes 'sni', or lengths such as '2,20*5', which is 2 octets and then 20 times 5"
            raise ConfigError(msg)
        count, length = int(found[1] or 1), int(found[2])
        if not count or not length:
            msg = f"{where}: a piece of nothing"
            raise ConfigError(msg)
        runs.append((count, length))
    if sum(count for count, _ in runs) > MAX_WRITES:
        msg = f"{where}: more than {MAX_WRITES} pieces"
        raise ConfigError(msg)
    if runs[0][1] > MAX_HELLO:
        msg = f"{where}: no first flight is that long"
        raise ConfigError(msg)
    return Offsets(tuple(runs))


def _fragment(setting: str, where: str) -> int | SNI:
    if setting == "sni":
        return SNI()
    at = _bounded(setting, where, least=-MAX_HELLO, most=MAX_HELLO)
    if not at:
        msg = f"{where}: a record cut at 0 is not cut"
        raise ConfigError(msg)
    return at


def _bounded(setting: str, where: str, *, least: int, most: int) -> int:
    if not _NUMBER.match(setting) or not least <= int(setting) <= most:
        msg = f"{where}: takes a whole number from {least} to {most}"
        raise ConfigError(msg)
    return int(setting)


def _override(setting: str, where: str) -> Override:
    try:
        pairs = parse_qsl(
            setting.lstrip("?"), strict_parsing=True, keep_blank_values=True, max_num_fields=8
        )
    except ValueError as exc:
        msg = f"{where}: takes host=… and port=…, joined by '&'"
        raise ConfigError(msg) from exc
    given = dict(pairs)
    if len(given) < len(pairs):
        msg = f"{where}: a key twice"
        raise ConfigError(msg)
    for key in given:
        if key not in {"host", "port"}:
            msg = f"{where}: {unknown_key(key, ('host', 'port'))}"
            raise ConfigError(msg)
    host: str | None = None
    try:
        if "host" in given:
            host = Target(given["host"], tls=False).host
    except InvalidTarget as exc:
        msg = f"{where}: {exc}"
        raise ConfigError(msg) from exc
    port = _bounded(given["port"], where, least=1, most=65_535) if "port" in given else None
    return Override(host=host, port=port)
