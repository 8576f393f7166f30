from __future__ import annotations

import os

from racer.cli import _aside
from racer.cli._aside import Aside


def test_lines_are_written_in_order_and_before_the_end() -> None:
    read_end, write_end = os.pipe()
    aside = Aside(write_end)
    assert all(aside.put(f"line {number}") for number in range(3))
    aside.close()
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as out:
        assert out.read() == "line 0\nline 1\nline 2\n"


def test_what_nobody_reads_is_bounded_and_waits_for_nobody() -> None:
    read_end, write_end = os.pipe()
    aside = Aside(write_end)
    line = "x" * 10_000
    taken = sum(aside.put(line) for _ in range(1000))
    assert taken < 1000
    assert not aside.put(line)
    aside.close()  # full: not even its last word
    os.close(read_end)  # frees the thread
    while aside._thread.is_alive():
        aside.close()
    os.close(write_end)
    assert taken <= _aside._MAX_WAITING + 1 + 1_048_576 // len(line)
