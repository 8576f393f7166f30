"""Asks a guest what it thinks of its options: all that is wrong, though it tells of one thing at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from racer._roster import Entrant
from racer.config._options import refused_option
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

    from racer.config._lines import KeyPath
    from racer.config._settings import EntrantSettings

__all__ = ("Refusal", "refusals")

_MOST: Final = (
    20  # options of one entrant that are told to be wrong, and that are tried one without the other
)
_MEANT: Final = re.compile(r"; did you mean '(?P<key>[^']*)'\?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One thing that a guest objects to.

    Attributes:
        option: the way to it, from the options on; empty where it is none of them.
        reason: the guest's words, without the option's name where they begin with it.
        is_unknown: whether no such option is known.
        error: the guest's own; `None` where it might show what came from the environment.
    """

    option: KeyPath
    reason: str
    is_unknown: bool
    error: ConfigError | None


def refusals(
    settings: EntrantSettings,
    *,
    broken: Iterable[str] = (),
    points: Mapping[str, EntryPoint] | None = None,
) -> list[Refusal]:
    """Return what is wrong with an entrant's options. Where nothing is, its first guest is made and kept for it.

    What is wrong is taken away, or put where it was meant, and the guest is asked again. Words that follow from that are
    left out: those that name what was taken.

    Args:
        settings: of the entrant.
        broken: options that are known to be wrong already.
        points: the transports that are installed; `None` to look.

    Raises:
        NoTransports: none is installed.
    """
    found: list[Refusal] = []
    gone = set(broken)
    meant: dict[str, str] = {}
    trial = _without(settings, gone) if gone else settings
    for _ in range(_MOST):
        error = _asked(trial, points)
        if error is None:
            break
        text = str(error)
        option = refused_option(text, trial.options) or _singled_out(trial, text, points)
        if any(_mentions(text, key) for key in gone):
            break  # no more than what follows from the others
        first = option[0] if option else None
        shown = (meant.get(str(first), first), *option[1:]) if option else ()
        found.append(
            Refusal(
                option=tuple(each for each in shown if each is not None),
                reason=_without_key(text, option),
                is_unknown=text.startswith("unknown key "),
                error=None if settings.secrets else error,
            )
        )
        if not isinstance(first, str) or first not in trial.options:
            break
        hint = _MEANT.search(text) if len(option) == 1 and found[-1].is_unknown else None
        if hint and hint["key"] not in trial.options:
            meant[hint["key"]] = first
            options = {**trial.options, hint["key"]: trial.options[first]}
            trial = _without(replace(trial, options=options), {first})
        else:
            gone.add(first)
            trial = _without(trial, {first})
    return found


def _asked(trial: EntrantSettings, points: Mapping[str, EntryPoint] | None) -> ConfigError | None:
    """Return what is wrong; the guest of options that are right is kept for who asks for one."""
    try:
        guest = trial.make_guest(points)
        Entrant(guest, name="any")  # what an entrant asks of its guest
    except ConfigError as exc:
        return exc
    trial.keep(guest)
    return None


def _singled_out(
    trial: EntrantSettings, text: str, points: Mapping[str, EntryPoint] | None
) -> KeyPath:
    """Return the one option without which an error is another, or none; empty if that is not just one.

    One that has to be there changes the error by its absence alone, so it counts only where there is no other.
    """
    found: list[str] = []
    needed: list[str] = []
    for key in list(trial.options)[:_MOST]:
        error = _asked(_without(trial, {key}), points)
        if error is None or str(error) != text:
            is_missed = error is not None and _mentions(str(error), key)
            (needed if is_missed else found).append(key)
    suspects = found or needed
    return (suspects[0],) if len(suspects) == 1 else ()


def _without(settings: EntrantSettings, keys: set[str]) -> EntrantSettings:
    left: dict[str, Any] = {
        key: value for key, value in settings.options.items() if key not in keys
    }
    return replace(settings, options=left)


def _without_key(text: str, option: KeyPath) -> str:
    for step in option:
        if isinstance(step, str) and re.match(rf"{re.escape(step)}(?:: | |=)", text):
            text = text[len(step) :].removeprefix(":").removeprefix("=").lstrip()
    return text


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None
