from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer._words import describe, one_line, words
from racer.errors import AllAttemptsFailed, NetworkError, RecordedError
from tests.racer.reports import failed, report, wrapped

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("a bug in an error")


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 - the bug itself


@pytest.mark.parametrize(
    ("exc", "told"),
    [
        (REFUSED, "ConnectionRefusedError: [Errno 111] Connection refused"),
        (TimeoutError(), "TimeoutError"),
        (NetworkError("two\n  lines\tand a tab"), "NetworkError: two lines and a tab"),
        (Speechless(), "Speechless: (no text: its __str__ failed)"),
        (NoText(), "NoText: (no text: its __str__ failed)"),
        (RecordedError("words", "SomeError"), "SomeError: words"),
        (RecordedError("", "SomeError"), "SomeError"),
        (OSError("file \udcff"), r"OSError: file \udcff"),
        # A peer chose these words: they must neither colour the terminal nor turn the line around.
        (OSError("\x1b[31mred\x9b0m\x07\x00"), r"OSError: \x1b[31mred\x9b0m\x07\x00"),
        (OSError("a\u202eb\u2028c"), r"OSError: a\u202eb c"),
        (OSError("日本語 ✓"), "OSError: 日本語 ✓"),
        (type("\x1b[31mRed", (Exception,), {})("x"), r"\x1b[31mRed: x"),
        # causes, where they say more
        (
            wrapped(NetworkError("handshake failed"), REFUSED),
            "NetworkError: handshake failed (ConnectionRefusedError: [Errno 111] Connection refused)",
        ),
        (wrapped(NetworkError(f"failed: {REFUSED}"), REFUSED), f"NetworkError: failed: {REFUSED}"),
        (wrapped(NetworkError("x"), TimeoutError()), "NetworkError: x (TimeoutError)"),
        (wrapped(NetworkError(""), REFUSED), f"NetworkError: ConnectionRefusedError: {REFUSED}"),
        (
            wrapped(NetworkError("a"), wrapped(ValueError("b"), wrapped(KeyError("c"), REFUSED))),
            f"NetworkError: a (ValueError: b; KeyError: 'c'; ConnectionRefusedError: {REFUSED})",
        ),
        # groups
        (
            ExceptionGroup("task group", [OSError("x"), wrapped(ValueError("y"), KeyError("z"))]),
            "ExceptionGroup: task group (2 sub-exceptions) (OSError: x; ValueError: y (KeyError: 'z'))",
        ),
        (
            ExceptionGroup("g", [OSError(str(n)) for n in range(6)]),
            "ExceptionGroup: g (6 sub-exceptions) (OSError: 0; OSError: 1; OSError: 2; OSError: 3; and 2 more)",
        ),
        (
            wrapped(OSError("all addresses failed"), ExceptionGroup("g", [REFUSED, OSError("x")])),
            f"OSError: all addresses failed (ConnectionRefusedError: {REFUSED}; OSError: x)",
        ),
        # a race's own text has it all
        (
            failed(REFUSED),
            f"AllAttemptsFailed: every attempt to reach example.com:443 failed: t0: ConnectionRefusedError: {REFUSED}",
        ),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_an_error_is_told_in_one_line(exc: BaseException, told: str) -> None:
    assert describe(exc) == told
    name, _, rest = told.partition(": ")
    assert describe(RecordedError(words(exc), name)) == told
    assert words(exc) == rest


@pytest.mark.parametrize(
    "exc",
    [
        OSError("x" * 10_000_000),
        OSError("\x00" * 10_000),
        type("X" * 100_000, (Exception,), {})("x"),
        ExceptionGroup("g", [OSError("y" * 5_000)] * 1_000),
        wrapped(OSError("a" * 900), OSError("b" * 900)),
        AllAttemptsFailed(report(*[REFUSED] * 1_000)),
    ],
    ids=["long", "escapes", "type", "group", "cause", "race"],
)
def test_words_are_bounded(exc: BaseException) -> None:
    assert 900 < len(describe(exc)) <= 1000
    assert describe(exc).endswith("…")


def test_depth_and_circles_end() -> None:
    exc: Exception = OSError("bottom")
    for n in range(10_000):
        exc = wrapped(ValueError(str(n)), exc)
    assert describe(exc).startswith("ValueError: 9999 (ValueError: 9998; ")
    group: Exception = exc
    for n in range(10_000):
        group = ExceptionGroup(f"g{n}", [group])
    assert describe(group).startswith("ExceptionGroup: g9999 (1 sub-exception) (ExceptionGroup: g9")
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    assert describe(a) == "ValueError: a (ValueError: b)"


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_becomes_one_line_that_can_be_written_and_stays_as_it_is(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert line == line.strip()
    line.encode()
    assert one_line(line) == line
