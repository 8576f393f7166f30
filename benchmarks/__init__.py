"""What racer costs and what it wins, measured. Every module here runs as `python -m benchmarks.<name>`.

A benchmark measures and never asserts a time: these machines are noisy, and only ratios taken in the same run count.
"""

from __future__ import annotations

__all__ = ()
