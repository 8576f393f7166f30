"""`python -m racer`: the same program as `racer`."""

from __future__ import annotations

import sys

__all__ = ("run",)


def run() -> int:
    """Return the exit code; also where Ctrl-C comes before anything has begun."""
    try:
        from racer.cli import main  # noqa: PLC0415 - loading may be interrupted too

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(run())
