"""Transports for the command line's tests, and how another process finds them installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio

from racer.abc import MakeContext, Progress, Stage, Target, Transport
from racer.errors import SessionLost

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import ByteStream

__all__ = ("Crashes", "Fails", "Hangs", "Loops", "Shy", "install")


class Loops(Transport):
    """Goes to this machine, whatever the target's host."""

    name = "loops"

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        progress.stage(Stage.CONNECT)
        progress.peer("127.0.0.1", target.port)
        return await anyio.connect_tcp("127.0.0.1", target.port)


class Fails(Transport):
    name = "fails"

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        progress.stage(Stage.HANDSHAKE)
        raise SessionLost("server lost the \x1b[31msession")


class Hangs(Transport):
    """Says on standard error when it hangs, so that a test knows when to interrupt."""

    name = "hangs"

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        progress.stage(Stage.HANDSHAKE)
        sys.stderr.write("hanging\n")
        sys.stderr.flush()
        await anyio.sleep_forever()
        raise AssertionError


class Crashes(Transport):
    name = "crashes"

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        raise KeyError("a bug")


class Shy(Transport):
    name = "shy"

    def serves(self, target: Target) -> str | None:
        return "serves nobody"

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        raise AssertionError


def loops(context: MakeContext) -> Loops:
    context.refuse_unknown()
    return Loops()


def fails(context: MakeContext) -> Fails:
    return Fails()


def hangs(context: MakeContext) -> Hangs:
    return Hangs()


def crashes(context: MakeContext) -> Crashes:
    return Crashes()


def shy(context: MakeContext) -> Shy:
    return Shy()


def install(place: Path) -> None:
    """Make `place` a directory whose presence on the path installs these guests."""
    info = place / "racer_test_guests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: racer-test-guests\nVersion: 1.0\n")
    points = "".join(
        f"{name} = {__name__}:{name}\n" for name in ("loops", "fails", "hangs", "crashes", "shy")
    )
    (info / "entry_points.txt").write_text(f"[racer.transports]\n{points}")
