"""From a TOML file to a `Configuration`, strictly: what is not understood is told, with its line, and all of it at once."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from racer import _registry
from racer._roster import is_name
from racer.abc import check_delay, check_seconds, check_tier, unknown_key
from racer.config._environment import Expander, hide
from racer.config._findings import Findings
from racer.config._settings import (
    MAX_USERS,
    Configuration,
    EntrantSettings,
    MemorySettings,
    ProxySettings,
    check_listen,
    check_user,
)
from racer.config._trial import refusals
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

    from racer.config._lines import KeyPath

__all__ = ("examine",)

MAX_BYTES: Final = 1024 * 1024  # a configuration of a thousand entrants is a tenth of it
MAX_DEPTH: Final = 32  # tables and arrays within each other
MAX_ENTRANTS: Final = 1000

_TOP: Final = ("entrant", "memory", "proxy", "redact", "timeout")
_ENTRANT: Final = ("name", "options", "start_delay", "tier", "transport")
_MEMORY: Final = ("enabled", "file", "ttl")
_PROXY: Final = ("listen", "users")

_NUMBER: Final = (int, float)
_POSITION: Final = re.compile(
    r" ?\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$"
)


def examine(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> tuple[Configuration, dict[str, Any]]:
    """Return what a file says, checked, and the same as it is written there.

    Args:
        path: of the file.
        environment: what `${NAME}` is filled from; `None` for this process's own.

    Raises:
        ConfigError: names the file and, in `problems`, everything that is wrong with it.
        NoTransports: no transport is installed at all.
    """
    file = Path(path)
    findings = Findings(file)
    text = _read(file, findings)
    written = _parse(text, findings)
    findings.look_at(text, written)
    reader = _Reader(written, os.environ if environment is None else environment, findings)
    configuration = reader.configuration(file)
    if configuration is None or findings.problems:
        raise findings.error()
    return configuration, written


def _read(file: Path, findings: Findings) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        reason = f"cannot be read: {getattr(exc, 'strerror', None) or exc}"
        findings.add_line(None, "", reason, cause=exc)
        raise findings.error() from exc
    if len(raw) > MAX_BYTES:
        findings.add_line(None, "", f"larger than {MAX_BYTES} bytes")
        raise findings.error()
    try:
        return raw.decode("utf-8-sig")  # some editors begin every file with a mark
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        findings.add_line(line, "", f"not TOML: the byte 0x{raw[exc.start]:02x} is not UTF-8")
        raise findings.error() from exc


def _parse(text: str, findings: Findings) -> dict[str, Any]:
    line: int | None = None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        reason = str(exc)
        if match := _POSITION.search(reason):
            reason = reason[: match.start()]
            line = int(match["line"]) if match["line"] else text.count("\n") + 1
            reason += f" (column {match['column']})" if match["column"] else " (the file ends here)"
            if match["column"] and _is_bare_text(text, line, int(match["column"])):
                reason += "; a text stands in quotes"
        findings.add_line(line, "", f"not TOML: {reason}")
        raise findings.error() from exc
    except RecursionError as exc:
        findings.add_line(None, "", f"nested deeper than {MAX_DEPTH} levels")
        raise findings.error() from exc
    except ValueError as exc:  # an integer of over 4300 digits
        findings.add_line(None, "", f"not TOML: {exc}")
        raise findings.error() from exc
    if path := _too_deep(data):
        findings.look_at(text, data)
        findings.add(path[:1], f"nested deeper than {MAX_DEPTH} levels", at=path)
        raise findings.error()
    return data


def _is_bare_text(text: str, line: int, column: int) -> bool:
    """Return whether what is wrong is a value that begins with a letter: the first mistake that everybody makes."""
    at = text.replace("\r\n", "\n").split("\n")[line - 1]
    before = at[: column - 1].rstrip()
    return before.endswith(("=", ",", "[")) and "=" in before and at[column - 1 : column].isalpha()


def _too_deep(data: dict[str, Any]) -> KeyPath:
    """Return the way to something that is nested too deep; empty if nothing is. A dotted key nests without brackets."""
    todo: list[tuple[KeyPath, Any]] = [((), data)]
    while todo:
        path, value = todo.pop()
        if len(path) > MAX_DEPTH:
            return path
        if isinstance(value, dict):
            todo += [((*path, key), each) for key, each in value.items()]
        elif isinstance(value, list):
            todo += [((*path, index), each) for index, each in enumerate(value)]
    return ()


class _Reader:
    """Makes a configuration of a parsed file. What is wrong goes to `findings`, and the rest is read on."""

    def __init__(
        self, data: dict[str, Any], environment: Mapping[str, str], findings: Findings
    ) -> None:
        self._data = data
        self._environment = environment
        self._findings = findings
        self._expander = Expander(environment, findings.add)
        self._installed: dict[str, EntryPoint] = {}
        self._named: dict[str, int] = {}

    def configuration(self, file: Path) -> Configuration | None:
        """Return it; `None` where there is nothing to make it of."""
        data = self._data
        try:
            self._installed = _registry.installed()
        except ConfigError as exc:
            self._findings.add_line(None, "", str(exc), cause=exc)
            return None
        self._refuse_unknown(data, _TOP, ())
        entrants = self._entrants()
        timeout = self._take(
            data, (), "timeout", _NUMBER, wanted="a number of seconds", check=check_seconds
        )
        redact = self._take(data, (), "redact", (bool,), wanted="true or false")
        memory, proxy = self._memory(), self._proxy()
        if self._findings.problems:
            return None
        return Configuration(
            entrants=tuple(entrants),
            timeout=timeout,
            redact=redact or False,
            memory=memory,
            proxy=proxy,
            file=file,
        )

    # --- entrants ---------------------------------------------------------------------------

    def _entrants(self) -> list[EntrantSettings]:
        listed = self._data.get("entrant")
        if not isinstance(listed, list) or not listed:
            reason = "at least one [[entrant]] table is needed, with a transport"
            if isinstance(listed, dict):
                reason += "; it is written with two brackets"
            self._findings.add(("entrant",), reason)
            return []
        if len(listed) > MAX_ENTRANTS:
            self._findings.add(("entrant",), f"more than {MAX_ENTRANTS}")
            return []
        made: list[EntrantSettings | None] = []
        for index, data in enumerate(listed):
            if self._findings.is_full:
                break
            made.append(self._entrant(data, index))
        return [each for each in made if each is not None]

    def _entrant(self, data: object, index: int) -> EntrantSettings | None:
        path: KeyPath = ("entrant", index)
        if not isinstance(data, dict):
            self._findings.add(path, f"must be a table, not {_shown(data)}")
            return None
        self._expander = expander = Expander(self._environment, self._findings.add)
        self._refuse_unknown(
            data, _ENTRANT, path, "; the transport's own options go under [entrant.options]"
        )
        kind = self._take(data, path, "transport", (str,), wanted="the name of a transport")
        name = self._take(data, path, "name", (str,), wanted="a text")
        start_delay = self._take(
            data, path, "start_delay", _NUMBER, wanted="a number of seconds", check=check_delay
        )
        tier = self._take(data, path, "tier", (int,), wanted="a whole number", check=_check_tier)
        written = self._take(data, path, "options", (dict,), wanted="a table")
        self._check_name(name, kind, path)
        if "transport" not in data:
            reason = "missing; it names an installed transport, such as 'direct'"
            self._findings.add((*path, "transport"), reason)
        broken: set[str] = set()

        def complain(place: KeyPath, reason: str) -> None:
            broken.add(str(place[len(path) + 1]))
            self._findings.add(place, reason)

        filler = Expander(self._environment, complain)
        options = filler.expand(written or {}, (*path, "options"))
        if kind is None or (written is None and "options" in data):
            return None
        settings = EntrantSettings(
            transport=kind,
            name=name or kind,
            start_delay=start_delay,
            tier=tier,
            options=options,
            secrets=expander.used | filler.used,
        )
        return settings if self._try(settings, path, broken) else None

    def _check_name(self, name: str | None, kind: str | None, path: KeyPath) -> None:
        """Check an entrant's name, also against those before it."""
        if name is not None and not is_name(name):
            self._findings.add(
                (*path, "name"), "must have 1 to 100 characters, all printable, and not only blanks"
            )
        if not (name := name or kind):
            return
        index = int(path[1])
        if (first := self._named.setdefault(name, index)) == index:
            return
        line = self._findings.line_of(("entrant", first))
        where = f"entrant {first + 1}" + (f" in line {line}" if line else "")
        reason = f"{where} is called so already; give each a name of its own"
        self._findings.add((*path, "name"), reason)

    def _try(self, settings: EntrantSettings, path: KeyPath, broken: set[str]) -> bool:
        """Return whether a guest can be made."""
        if self._installed and settings.transport not in self._installed:
            words = unknown_key(settings.transport, tuple(self._installed)).removeprefix(
                "unknown key "
            )
            reason = settings.hidden(f"no such transport is installed: {words}")
            self._findings.add((*path, "transport"), reason)
            return False
        found = refusals(settings, broken=broken, points=self._installed)
        for each in found:
            if each.reason.startswith(f"transport {settings.transport!r}"):
                self._findings.add((*path, "transport"), each.reason, cause=each.error)
                continue
            place: KeyPath = (*path, "options", *each.option)
            named = path if not each.option else place[:-1] if each.is_unknown else place
            self._findings.add(named, each.reason, at=place, cause=each.error)
        return not found and not broken

    # --- the other tables -------------------------------------------------------------------

    def _memory(self) -> MemorySettings:
        data = self._table("memory", _MEMORY)
        path: KeyPath = ("memory",)
        return MemorySettings(
            enabled=self._take(data, path, "enabled", (bool,), wanted="true or false"),
            ttl=self._take(
                data, path, "ttl", _NUMBER, wanted="a number of seconds", check=check_seconds
            ),
            file=self._take(
                data, path, "file", (str,), wanted="the path of a file", check=_check_path
            ),
        )

    def _proxy(self) -> ProxySettings:
        self._expander = Expander(self._environment, self._findings.add)
        data = self._table("proxy", _PROXY)
        path: KeyPath = ("proxy",)
        before = len(self._findings.problems)
        listen = self._take(
            data, path, "listen", (str,), wanted="an address and a port", check=check_listen
        )
        table = (
            self._take(data, path, "users", (dict,), wanted="a table of names and passwords") or {}
        )
        users = {name: self._password(table, name) for name in table}
        if len(table) > MAX_USERS:
            self._findings.add((*path, "users"), f"more than {MAX_USERS}")
        if len(self._findings.problems) > before:
            return ProxySettings()
        try:
            return ProxySettings(listen=listen or ProxySettings().listen, users=users)
        except ConfigError as exc:
            self._findings.add((*path, "listen"), self._words(exc, "listen"))
            return ProxySettings()

    def _password(self, table: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - checked here
        path: KeyPath = ("proxy", "users")
        if not isinstance(table[name], str):  # nor is it shown: it was meant to be one
            self._findings.add((*path, name), f"must be a password, not {_kind_of(table[name])}")
            return None

        def check(password: str, key: str) -> None:
            check_user(key, password)

        return self._take(table, path, name, (str,), wanted="a password", check=check)

    def _table(self, key: str, known: tuple[str, ...]) -> dict[str, Any]:
        data: dict[str, Any] | None = self._take(
            self._data, (), key, (dict,), wanted=f"a table, [{key}]"
        )
        self._refuse_unknown(data or {}, known, (key,))
        return data or {}

    # --- values -----------------------------------------------------------------------------

    def _take(
        self,
        data: dict[str, Any],
        path: KeyPath,
        key: str,
        kinds: tuple[type, ...],
        *,
        wanted: str,
        check: Callable[[Any, str], None] | None = None,
    ) -> Any:  # noqa: ANN401 - checked here
        """Return a value, its variables filled in unless it is a table; `None` if it is not there, or not right."""
        value = data.get(key)
        if value is None:
            return None
        place = (*path, key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self._findings.add(place, f"must be {wanted}, not {_shown(value)}")
            return None
        if isinstance(value, str):
            before = len(self._findings.problems)
            value = self._expander.expand(value, place)
            if len(self._findings.problems) > before:
                return None
        if check is not None:
            try:
                check(value, key)
            except ConfigError as exc:
                self._findings.add(place, self._words(exc, key))
                return None
        return value

    def _words(self, exc: ConfigError, key: str) -> str:
        """Return what an error says of a key, without the key itself, and without what came from the environment."""
        words = str(exc).removeprefix(f"{key} ").removeprefix(f"{key}=")
        return hide(words, self._expander.used, (key,))

    def _refuse_unknown(
        self, data: dict[str, Any], known: tuple[str, ...], path: KeyPath, hint: str = ""
    ) -> None:
        for key in data:
            if key not in known and not self._findings.is_full:
                self._findings.add(path, f"{unknown_key(key, known)}{hint}", at=(*path, key))


def _check_tier(value: object, key: str) -> None:
    del key  # the words have it
    check_tier(value)


def _check_path(value: str, key: str) -> None:
    if "\0" in value:
        msg = f"{key} must be the path of a file: there is a NUL in it"
        raise ConfigError(msg)


def _shown(value: object) -> str:
    """Return a value as it is written in the file, where variables are only named; bounded."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return _kind_of(value)
    try:
        return f"{value!r:.60}"
    except ValueError:  # a hexadecimal integer of over 4300 digits
        return "so large a number"


def _kind_of(value: object) -> str:
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case _:
            return "a text" if isinstance(value, str) else "a date or a time"
