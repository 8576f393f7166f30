"""What is in force, for a person or a program to see: as data and as TOML, with what is secret hidden."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from racer._memory import DEFAULT_TTL
from racer.config._writing import written, written_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.config._settings import Configuration

__all__ = ("as_toml", "hides", "in_force")

HIDDEN: Final = "[hidden]"

# Options of transports that nobody here knows may be secret too: a name that sounds like it is taken for it.
_SECRET: Final = re.compile(
    r"pass|secret|token|credential|private|cookie|auth|header|api_?key|psk", re.IGNORECASE
)
_VARIABLES: Final = re.compile(r"(?:[^$]{0,16}\$\{[A-Za-z_][A-Za-z0-9_]*\})+[^$]{0,16}")
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/@\s]*@)?(?P<host>[^/?#\s]*)(?P<rest>[^\s]*)"
)
_KNOWN_PATHS: Final = frozenset({"", "/", "/dns-query"})  # another may be an account's own


def in_force(configuration: Configuration, written_in: Mapping[str, Any]) -> dict[str, Any]:
    """Return what holds, defaults included, as plain data.

    Args:
        configuration: what holds.
        written_in: the same as it is written in its file, where variables of the environment are only named; empty where
            there is no file.
    """
    listed = written_in.get("entrant") or [{} for _ in configuration.entrants]
    dialer = (
        configuration.dialer()
    )  # only to look at: it is bound to nothing, and nothing in it starts
    entrants = []
    for settings, entry, status in zip(
        configuration.entrants, listed, dialer.status().entrants, strict=True
    ):
        entrants.append(
            {
                "transport": settings.transport,
                "name": settings.name,
                "start_delay": float(status.start_delay),
                "tier": status.tier,
                "options": _shown(entry.get("options", {})),
            }
        )
    memory, proxy = configuration.memory, configuration.proxy
    users = written_in.get("proxy", {}).get("users", {})
    return {
        **({} if configuration.timeout is None else {"timeout": float(configuration.timeout)}),
        "redact": configuration.redact,
        "entrant": entrants,
        "memory": {
            **({} if memory.enabled is None else {"enabled": memory.enabled}),
            "ttl": float(DEFAULT_TTL if memory.ttl is None else memory.ttl),
            **({} if memory.file is None else {"file": memory.file}),
        },
        "proxy": {
            "listen": proxy.listen,
            "users": {name: _secret(password) for name, password in users.items()},
        },
    }


def as_toml(data: Mapping[str, Any]) -> str:
    """Return what `in_force` gives as TOML. It can be read again where nothing in it is hidden."""
    lines = [f"{key} = {written(data[key])}" for key in ("timeout", "redact") if key in data]
    for entrant in data["entrant"]:
        lines += ["", "[[entrant]]"]
        lines += _pairs({key: value for key, value in entrant.items() if key != "options"})
        if entrant["options"]:
            lines += ["[entrant.options]", *_pairs(entrant["options"])]
    lines += ["", "[memory]", *_pairs(data["memory"])]
    lines += ["", "[proxy]", f"listen = {written(data['proxy']['listen'])}"]
    if data["proxy"]["users"]:
        lines += ["[proxy.users]", *_pairs(data["proxy"]["users"])]
    return "\n".join(lines) + "\n"


def hides(value: object, key: str = "") -> bool:
    """Return whether anything in `value` is hidden where it is shown."""
    return HIDDEN in written(_shown(value, key)) and HIDDEN not in written(value)


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{written_key(key)} = {written(value)}" for key, value in table.items()]


def _shown(value: Any, key: str = "") -> Any:  # noqa: ANN401 - TOML's values
    """Return a value of an option as it may be shown; variables of the environment are named in it, and not filled in."""
    if isinstance(value, dict):
        is_secret = _SECRET.search(key) is not None
        return {name: _shown(each, "secret" if is_secret else name) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each, key) for each in value]
    if _SECRET.search(key) and not isinstance(value, bool):
        return _secret(value)
    return _URL.sub(_plain_url, value) if isinstance(value, str) else value


def _secret(value: object) -> object:
    """Return what stands for a secret: its variables, where it is made of nothing much but them."""
    return value if isinstance(value, str) and _VARIABLES.fullmatch(value) else HIDDEN


def _plain_url(match: re.Match[str]) -> str:
    user = "" if not match["user"] else f"{_secret(match['user'][:-1])}@"
    rest = match["rest"]
    shown = rest if rest in _KNOWN_PATHS else f"/{_secret(rest[1:])}"
    return f"{match['scheme']}{user}{match['host']}{shown}"
