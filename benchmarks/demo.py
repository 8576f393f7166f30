"""Watch a race on a censored network that is made up on this machine: `make race`, which is `racer demo`."""

from __future__ import annotations

import sys

from transports.demo import main

__all__ = ("main",)

if __name__ == "__main__":
    sys.exit(main())
