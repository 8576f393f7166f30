"""racer on the command line: `python -m racer`. One file a command."""

from __future__ import annotations

from racer.cli._dial import main

__all__ = ("main",)
