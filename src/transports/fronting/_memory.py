"""The fronts that have succeeded, as a file between two lives of a program. Pure; wall-clock times come in."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from transports.fronting._pool import REMEMBERED_FOR, REMEMBERED_MOST, Remembered

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("MAX_MEMORY", "from_json", "to_json")

MAX_MEMORY: Final = 1024 * 1024
"""Octets of such a file; 1000 fronts take 130 KB."""

_VERSION: Final = 1


def to_json(remembered: Iterable[Remembered], now: float) -> bytes:
    """Return a file's content.

    Args:
        remembered: the fronts.
        now: seconds since 1970.
    """
    fronts = [
        {
            "provider": one.key[0],
            "domain": one.key[1],
            "address": one.key[2],
            "succeeded_at": round(now - one.age, 3),
        }
        for one in remembered
    ]
    return json.dumps({"version": _VERSION, "fronts": fronts}, indent=1).encode()


def from_json(data: bytes, now: float) -> list[Remembered]:
    """Return the fronts of a file; what is older than a day, from the future, or no front at all is left out.

    Raises:
        ValueError: not such a file.
    """
    try:
        document = json.loads(data)
    except RecursionError as exc:
        msg = "nested too deeply"
        raise ValueError(msg) from exc
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        msg = "not a file of remembered fronts, or of another version"
        raise ValueError(msg)
    fronts = document.get("fronts")
    if not isinstance(fronts, list):
        msg = "not a file of remembered fronts"
        raise ValueError(msg)  # noqa: TRY004 - whoever reads the file catches one kind of error
    found = [one for item in fronts[:REMEMBERED_MOST] if (one := _remembered(item, now))]
    return [one for one in found if 0 <= one.age < REMEMBERED_FOR]


def _remembered(item: Any, now: float) -> Remembered | None:  # noqa: ANN401 - whatever JSON has
    if not isinstance(item, dict):
        return None
    texts = [item.get(name) for name in ("provider", "domain", "address")]
    at = item.get("succeeded_at")
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        return None
    match texts:
        case [str(provider), str(domain), str(address)]:
            return Remembered((provider, domain, address), now - at)
        case _:
            return None
