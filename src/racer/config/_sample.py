"""The first configuration file: valid as it stands, with everything that can be said in comments."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from racer import _registry
from racer._dialer import DEFAULT_TIMEOUT
from racer._memory import DEFAULT_TTL
from racer.abc import MakeContext
from racer.config._options import made_by, options_of, summary_of
from racer.config._writing import is_writable, written, written_key
from racer.errors import NoTransports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from importlib.metadata import EntryPoint

    from racer.abc import Traits
    from racer.config._options import Option

__all__ = ("sample",)

_WIDTH: Final = 100
_FIRST: Final = ("direct", "proxyless")  # what races without a configuration, where it is installed
_PLACEHOLDERS: Final[dict[str, object]] = {
    "bool": False,
    "int": 0,
    "float": 0.0,
    "list": [],
    "table": {},
}

_HEAD: Final = f"""\
# What racer goes by. Whatever is behind a '#' is not in force; take the '#' away, and check the
# file with 'racer config check FILE'. A running 'racer proxy' reads it anew on SIGHUP.
#
# Any text may hold variables of the environment, best for secrets: "${{NAME}}". A literal "${{"
# is written "$${{".

# Seconds for a whole race. Left out: {DEFAULT_TIMEOUT:g}, and more where a transport may take longer.
#timeout = {DEFAULT_TIMEOUT}

# Keep the names of hosts, and addresses, out of traces, metrics and logs.
#redact = false
"""

_ENTRANTS: Final = """
# ------------------------------------------------------------------------------------------------
# Who races. Only who is listed takes part: there is never a direct connection that you did not ask
# for. The order counts where two start at the same time. The same transport may be listed again
# under another name. Each entrant may have
#
#   name = "..."        what it is called; left out: the transport's name
#   start_delay = 0.3   seconds after the race began, or its tier opened; 0, or at least 0.01
#   tier = 0            a higher one opens when everyone in the lower ones has failed
# ------------------------------------------------------------------------------------------------
"""

_TAIL: Final = f"""
# ------------------------------------------------------------------------------------------------
# Whether to remember who won for a host, in which network, and to let it start first next time.
# ------------------------------------------------------------------------------------------------

[memory]
# Left out: racer's own commands remember, the library does not.
#enabled = true
# Seconds after which a win is forgotten.
#ttl = {DEFAULT_TTL}
# Where it is kept, readable by you alone; "" keeps it in the running program only. Left out:
# racer/memory.json in your state directory.
#file = "~/.local/state/racer/memory.json"

# ------------------------------------------------------------------------------------------------
# The local proxy, 'racer proxy'.
# ------------------------------------------------------------------------------------------------

[proxy]
# An address and a port. One that others than this machine can reach takes users.
#listen = "127.0.0.1:1080"

# Who may use it, names and passwords; nobody listed: everyone who can reach it.
#[proxy.users]
#alice = "${{RACER_PROXY_PASSWORD}}"
"""


def sample() -> str:
    """Return a commented configuration file of every transport that is installed, with each of its options.

    It is valid as it stands, and says what holds without a file: `direct` races, and `proxyless` beside it.

    Raises:
        ConfigError: two packages install a transport under one name.
        NoTransports: none is installed, or none that races without options.
    """
    points = _registry.installed()
    if not points:
        msg = "no transport is installed"
        raise NoTransports(msg)
    active: list[str] = [kind for kind in _FIRST if kind in points]
    active = active or [kind for kind, point in points.items() if _races_alone(kind, point)][:1]
    if not active:
        msg = f"none of the installed transports races without options: {', '.join(sorted(points))}"
        raise NoTransports(msg)
    parts = [_HEAD, _ENTRANTS]
    parts += [_entrant(kind, points[kind], mark="") for kind in active]
    others = sorted(kind for kind in points if kind not in active)
    parts += [_entrant(kind, points[kind], mark="#") for kind in others]
    return "".join([*parts, _TAIL])


def _races_alone(kind: str, point: EntryPoint) -> bool:
    try:
        point.load()(MakeContext(name=kind))
    except Exception:  # noqa: BLE001 - whatever it is, it does not race as it stands
        return False
    return True


def _entrant(kind: str, point: EntryPoint, *, mark: str) -> str:
    """Return the part about a transport, with `mark` before each line that would put it in force."""
    try:
        factory = point.load()
        summary, options, traits = summary_of(factory), options_of(factory), _traits(factory)
    except Exception as exc:  # noqa: BLE001 - one broken package must not hide the others
        words = f"It cannot be loaded: {type(exc).__name__}"
        return "\n" + "\n".join([*_comment(words), f'#[[entrant]]\n#transport = "{kind}"']) + "\n"
    lines = ["", *_comment(summary), f"{mark}[[entrant]]", f"{mark}transport = {written(kind)}"]
    if traits is not None:
        lines += [f"#start_delay = {written(float(traits.start_delay))}", f"#tier = {traits.tier}"]
    lines.append(f"{mark}[entrant.options]")
    if not options:
        lines += _comment("Which options it takes is in its own documentation.")
    for option in options:
        lines += _option(option)
    return "\n".join(lines) + "\n"


def _traits(factory: Callable[..., Any]) -> Traits | None:
    kind = made_by(factory)
    return None if kind is None else kind.traits


def _option(option: Option) -> Iterator[str]:
    """Yield the lines about one option: its meaning, and a line that would set it to what holds anyway."""
    words = option.meaning[:1].upper() + option.meaning[1:]
    if option.needed:
        words = f"{words.rstrip('.')}. Has to be given." if words else "Has to be given."
    yield from _comment(words)
    default = option.default if is_writable(option.default) else _PLACEHOLDERS.get(option.kind, "")
    yield f"#{written_key(option.name)} = {written(default)}"


def _comment(words: str) -> list[str]:
    lines = textwrap.wrap(
        " ".join(words.split()), _WIDTH - 2, break_on_hyphens=False, break_long_words=False
    )
    return [f"# {line}" for line in lines]
