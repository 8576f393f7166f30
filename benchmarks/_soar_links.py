"""The two links of the Soar benchmark: client to resolver, and resolver to server."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from benchmarks._command import nearest

__all__ = ("LINKS", "Half", "Link", "one_link")


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One of the two links, each direction of it.

    Attributes:
        delay: seconds that every packet takes.
        loss: probability that one is lost.
    """

    delay: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What lies between client and server.

    Attributes:
        name: by which figures are known.
        near: client to resolver.
        far: resolver to server.
    """

    name: str
    near: Half
    far: Half

    @property
    def round_trip(self) -> float:
        """Seconds from the client to the server and back."""
        return 2 * (self.near.delay + self.far.delay)

    @property
    def words(self) -> str:
        """What it is, for people."""
        if not self.round_trip:
            return "no delay"
        near, far = (f"{2000 * half.delay:g}" for half in (self.near, self.far))
        loss = (
            f", {self.near.loss:.1%} lost each way on each link" if self.near.loss else ", no loss"
        )
        return f"round trips of {near} + {far} ms{loss}"


def _link(name: str, near_ms: float, far_ms: float, loss: float) -> Link:
    """Return a link of these round trips."""
    return Link(
        name=name,
        near=Half(delay=near_ms / 2000, loss=loss),
        far=Half(delay=far_ms / 2000, loss=loss),
    )


LINKS: Final = {
    link.name: link
    for link in (
        _link("T2", 0, 0, 0),
        _link("T3", 20, 50, 0),
        _link("T4", 20, 50, 0.01),
        _link("T5", 20, 180, 0),
        _link("T6", 20, 180, 0.025),
    )
}
"""From easy to hard, by name."""


def one_link(text: str) -> Link:
    """Return the link of that name, for argparse.

    Raises:
        argparse.ArgumentTypeError: there is none; says which there are.
    """
    if text.upper() in LINKS:
        return LINKS[text.upper()]
    raise argparse.ArgumentTypeError(nearest("link", text.upper(), LINKS, cutoff=0.9))
