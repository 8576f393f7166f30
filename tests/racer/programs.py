"""Whole programs that use racer, each in an interpreter of its own in which every warning is an error.

A program finds `Plain`, a guest that connects at once, installed as the only transport, and `run(main)`, which runs an
async function on the loop that the test asks for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ("LOOPS", "run_program")

LOOPS = ("asyncio", "trio") if sys.platform == "win32" else ("asyncio", "uvloop", "trio")

_GUARD = 50.0  # seconds after which a program is taken for stuck; none needs a tenth of it

_PRELUDE = """
from __future__ import annotations

import asyncio, gc, logging, os, signal, sys, threading, time, weakref
from importlib.metadata import EntryPoint

import anyio
import racer
from racer import _default, _host, _loops, _registry
from racer.testing import stream_pair

LOOP = sys.argv[1]
# Debug mode, which is wanted for its checks, also complains of slow steps; a busy machine has those.
logging.getLogger("asyncio").addFilter(lambda record: not record.getMessage().startswith("Executing"))


class Plain(racer.abc.Transport):
    name = "plain"
    drivers = 0

    async def start(self, host):
        host.start_soon(self.drive, name="plain driver")

    async def drive(self):
        type(self).drivers += 1
        try:
            await anyio.sleep_forever()
        finally:
            type(self).drivers -= 1

    async def connect(self, target, progress):
        await anyio.lowlevel.checkpoint()
        return stream_pair()[0]


def make(context):
    return Plain()


def entry_points(*, group):
    return [EntryPoint(name="direct", value="__main__:make", group=group)]


_registry.entry_points = entry_points


def run(main, *args):
    options = {"use_uvloop": True} if LOOP == "uvloop" else {}
    return anyio.run(
        main, *args, backend="trio" if LOOP == "trio" else "asyncio", backend_options=options
    )


def all_die(refs):
    for _ in range(500):  # a worker thread may hold the last reference a moment longer than its loop
        gc.collect()
        if all(ref() is None for ref in refs):
            return True
        time.sleep(0.01)
    return False
"""


def run_program(source: str, loop: str, home: Path, *, code: int = 0, quiet: bool = True) -> str:
    """Run `source`, indented or not, and return what it printed.

    Fails unless it ends with exit code `code` and, if `quiet`, without a word on stderr.

    Args:
        source: the program.
        loop: one of `LOOPS`.
        home: an empty directory that takes the place of the user's.
        code: the exit code to demand.
        quiet: whether to demand an empty stderr; if not, stderr is returned behind what was printed.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-c",
            _PRELUDE + textwrap.dedent(source),
            loop,
        ],
        capture_output=True,
        text=True,
        timeout=_GUARD,
        cwd=home,
        env={key: value for key, value in os.environ.items() if key.startswith("COVERAGE")}
        | {"HOME": str(home), "PATH": os.defpath},
        check=False,
    )
    assert done.returncode == code, done.stderr or done.stdout
    if quiet:
        assert not done.stderr, done.stderr
        return done.stdout
    return done.stdout + done.stderr
