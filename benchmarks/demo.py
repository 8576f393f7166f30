"""Watch a race on a censored network that is made up on this machine: `python -m benchmarks.demo`, or `make race`.

Nothing is acted: the sockets, the TLS and the proxy are real, and only loopback is used. The picture shows one row for
each route, from when it started to what became of it; at the end the connection that won is used.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

import racer
from racer import lab
from racer.cli._columns import wrapped
from racer.cli._live import view_on, watch
from racer.cli._screen import Screen
from racer.errors import DialError
from transports.direct import Direct
from transports.proxy import Socks5

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from racer import RaceReport
    from racer.cli._live import View

__all__ = ("HOST", "Played", "main", "play")

HOST: Final = "news.example"
# Addresses set apart for documentation, RFC 5737.
ADDRESS: Final = "192.0.2.7"
MIRROR: Final = "198.51.100.7"
PROXY: Final = "203.0.113.9"

SLOW: Final = 1.0
FAST: Final = 0.1
_DELAY: Final = 0.12  # seconds that a byte takes each way: slow enough to watch
_JITTER: Final = 0.03
_STAGGER: Final = 0.8  # seconds from one route's start to the next one's
_TIMEOUT: Final = 30.0  # seconds for the race; it takes a tenth of that
_MAX_ANSWER: Final = 65_536  # bytes

_TEXT: Final = (
    f"{HOST} in a censored network, made up on this machine (seed {{seed}}): packets to it vanish, its mirror is reset "
    "when TLS names it, and a SOCKS5 proxy abroad gets through. One row a route: when it started, what became of it, "
    "and why."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What the race came to.

    Attributes:
        report: the race.
        answer: what the site said over the connection that won: status and text; `None` if nobody won.
    """

    report: RaceReport
    answer: tuple[str, str] | None


class Unwatched:
    """Shows nothing."""

    def show(self, report: RaceReport) -> None:
        """Do nothing."""

    def end(self, report: RaceReport) -> None:
        """Do nothing."""


@asynccontextmanager
async def censored(
    authority: lab.Authority, *, seed: int, pace: float
) -> AsyncIterator[lab.Network]:
    """Run the network; `authority` makes its certificates."""
    link = lab.Profile(delay=_DELAY * pace, jitter=_JITTER * pace)
    near = lab.Profile(delay=_DELAY * pace / 10)  # from the proxy to the site
    home = lab.Network(seed=seed, up=link, down=link)
    abroad = lab.Network(seed=seed, up=near, down=near)
    async with home, abroad:
        await abroad.add_site(HOST, ADDRESS, authority=authority, handler=lab.hello)
        await home.add_site(HOST, ADDRESS, MIRROR, authority=authority, handler=lab.hello)
        proxy = lab.Socks5Proxy(connect=abroad.connector())
        await home.add_site("proxy.example", PROXY, port=1080, handler=proxy.serve_stream)
        home.rules += [
            lab.Blackhole(address=ADDRESS),
            lab.ResetOnName(names=(HOST,), address=MIRROR),
        ]
        yield home


def entrants(network: lab.Network, *, pace: float) -> list[racer.Entrant]:
    """Return the routes, in the order of their start."""

    def straight(address: str) -> Direct:
        return Direct(hosts={HOST: [address]}, dial_tcp=network.dial_tcp)

    proxied = Socks5(f"{PROXY}:1080", base=Direct(dial_tcp=network.dial_tcp))
    return [
        racer.Entrant(straight(ADDRESS), name="direct"),
        racer.Entrant(straight(MIRROR), name="mirror", start_delay=_STAGGER * pace),
        racer.Entrant(proxied, name="socks5", start_delay=2 * _STAGGER * pace),
    ]


async def play(view: View, authority: lab.Authority, *, seed: int, pace: float) -> Played:
    """Run the race, and say hello over the connection that won.

    Args:
        view: shows it meanwhile; its end is the caller's to show.
        authority: makes the network's certificates, and is trusted.
        seed: of the network's dice.
        pace: what all times are multiplied with.
    """
    async with (
        censored(authority, seed=seed, pace=pace) as network,
        racer.Dialer(entrants(network, pace=pace), timeout=_TIMEOUT) as dialer,
    ):
        race = dialer.race(HOST, tls=authority.client_context())
        try:
            stream = await watch(race, view)
        except DialError as exc:
            return Played(report=exc.report, answer=None)
        async with stream:
            assert isinstance(stream, racer.Connection)
            return Played(report=race.report, answer=await ask(stream))


async def ask(stream: racer.Connection) -> tuple[str, str]:
    """Return status and text of the site's front page."""
    await stream.send(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    async for piece in stream:
        answer += piece
        if len(answer) > _MAX_ANSWER:
            break
    head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
    return head.split("\r\n")[0].partition(" ")[2], body.strip()


# --- the command line -----------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo",
        description=__doc__,
    )
    add = parser.add_argument
    add("--fast", action="store_true", help="ten times as fast")
    add("--plain", action="store_true", help="ASCII only, without colour and redrawing")
    add("--json", action="store_true", help="print the race's report as JSON, and nothing else")
    add("--seed", type=int, default=1, metavar="N", help="of the network's jitter (1)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Show the race; return 0 when something won, 1 when nothing did, 130 when interrupted."""
    options = _parser().parse_args(argv)
    try:
        return _show(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _show(options: argparse.Namespace) -> int:
    screen = Screen.of(sys.stdout, plain=options.plain)
    view = Unwatched() if options.json else view_on(screen)
    if not options.json:
        text = "\n".join(wrapped(_TEXT.format(seed=options.seed), screen.width))
        print(screen.text(text), end="\n\n", flush=True)
    pace = FAST if options.fast else SLOW
    played = anyio.run(lambda: play(view, lab.Authority(), seed=options.seed, pace=pace))
    view.end(played.report)
    if options.json:
        print(played.report.to_json(indent=2), flush=True)
    elif played.answer is not None:
        status, said = played.answer
        print(screen.text(f'\nhello over {played.report.winner}: {status}, "{said}"'), flush=True)
    return 0 if played.answer is not None else 1


if __name__ == "__main__":
    sys.exit(main())
