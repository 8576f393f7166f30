"""A race shown while it runs: scripted snapshots on a terminal and in a pipe, and real races on a virtual clock."""

from __future__ import annotations

import dataclasses
import errno
import io
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer import Connection, Dialer, Entrant
from racer._report import Attempt, Outcome, RaceReport
from racer.cli._live import Journal, LivePicture, view_on, watch
from racer.cli._screen import Screen
from racer.cli._waterfall import render
from racer.errors import AllAttemptsFailed, DialTimeout, ErrorType, NoTransports, SessionLost, Stage
from racer.testing import ScriptedTransport, cancel_everywhere, fails, hangs, wins
from tests.racer.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer._race import Race

LOST = SessionLost("server lost the session")
RESET = ConnectionResetError("Connection reset by peer")


def attempt(
    name: str,
    began: float | None = None,
    ended: float | None = None,
    outcome: str = "not_started",
    **more: Any,
) -> Attempt:
    return Attempt(
        transport=name, outcome=Outcome(outcome), started_at=began, finished_at=ended, **more
    )


def snapshot(
    duration: float, *attempts: Attempt, outcome: str = "not_started", winner: str | None = None
) -> RaceReport:
    return RaceReport(
        target="news.example:443",
        tls=True,
        outcome=Outcome(outcome),
        winner=winner,
        duration=duration,
        timeout=80.0,
        started=1_800_000_000.0,
        attempts=attempts,
    )


DIRECT = attempt("direct", 0.0, stage=Stage.CONNECT)
MIRROR = attempt("mirror", 0.8, stage=Stage.TLS)
MIRROR_FAILED = attempt(
    "mirror",
    0.8,
    1.4,
    "connect_failed",
    stage=Stage.TLS,
    peer="198.51.100.7:443",
    error=RESET,
    error_type=ErrorType.CONNECTION_RESET,
)
SOCKS = attempt("socks5", 1.6, stage=Stage.HANDSHAKE)
STORY = (
    snapshot(0.0, DIRECT, attempt("mirror", start_delay=0.8), attempt("socks5", start_delay=1.6)),
    snapshot(0.9, DIRECT, MIRROR, attempt("socks5", start_delay=1.6)),
    snapshot(1.5, DIRECT, MIRROR_FAILED, attempt("socks5", start_delay=1.6)),
    snapshot(1.7, DIRECT, MIRROR_FAILED, SOCKS),
    snapshot(
        3.0,
        attempt("direct", 0.0, 3.0, "lost_race", stage=Stage.CONNECT),
        MIRROR_FAILED,
        attempt("socks5", 1.6, 3.0, "connected", stage=Stage.VERIFY, peer="203.0.113.9:1080"),
        outcome="connected",
        winner="socks5",
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window(Screen):
    """A screen whose size is the model's."""

    def size(self) -> tuple[int, int]:
        assert isinstance(self.out, Terminal)
        return self.out.columns, self.out.rows


def window(terminal: Terminal, *, colour: bool = False, unicode: bool = True) -> Screen:
    return Window(out=terminal, is_terminal=True, redraws=True, colour=colour, unicode=unicode)


class Pipe(io.StringIO):
    encoding = "utf-8"


class Broken(Pipe):
    """Takes so many writes, then says that its reader has gone."""

    def __init__(self, takes: int) -> None:
        super().__init__()
        self.takes = takes

    def write(self, text: str) -> int:
        if not self.takes:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        self.takes -= 1
        return super().write(text)


def pipe_screen(out: Pipe | None = None, *, plain: bool = False) -> Screen:
    return Screen.of(out or Pipe(), plain=plain, env={})


def told(*snapshots: RaceReport, plain: bool = False) -> list[str]:
    """Return the lines that a journal writes for these."""
    out = Pipe()
    journal = Journal(pipe_screen(out, plain=plain))
    for each in snapshots:
        journal.show(each)
    return out.getvalue().splitlines()


# --- a terminal -----------------------------------------------------------------------------


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("unicode", [False, True])
def test_each_snapshot_takes_the_place_of_the_one_before(colour: bool, unicode: bool) -> None:
    terminal = Terminal()
    terminal.write("$ make race\n")
    view = LivePicture(window(terminal, colour=colour, unicode=unicode))
    for each in STORY:
        view.show(each)
        assert terminal.seen == f"$ make race\n{render(each, unicode=unicode)}"
        assert terminal.wraps
    view.end(STORY[-1])
    assert terminal.seen == f"$ make race\n{render(STORY[-1], unicode=unicode)}"
    terminal.write("$ ")
    assert terminal.seen.endswith("\n$")


def test_nothing_is_sent_while_nothing_changes() -> None:
    terminal = Terminal()
    view = LivePicture(window(terminal))
    for _ in range(3):
        view.show(STORY[0])
    assert terminal.writes == 1


def test_what_a_short_window_has_no_room_for_comes_at_the_end() -> None:
    terminal = Terminal(rows=6)
    terminal.write("$ make race\n")
    view = LivePicture(window(terminal))
    for each in STORY:
        view.show(each)
        shown = terminal.seen.splitlines()[1:]
        assert shown == [*render(each).splitlines()[:4], "…"]
    view.end(STORY[-1])
    assert terminal.seen == f"$ make race\n{render(STORY[-1])}"


def test_a_window_of_one_line_shows_that_there_is_more() -> None:
    terminal = Terminal(rows=1)
    view = LivePicture(window(terminal, unicode=False))
    view.show(STORY[0])
    assert terminal.lines == ["...", ""]


def test_a_window_narrower_than_any_picture_cuts_its_lines_until_the_end() -> None:
    terminal = Terminal(columns=30)
    view = LivePicture(window(terminal))
    for each in STORY:
        view.show(each)
        lines = terminal.seen.splitlines()
        whole = render(each, width=30).splitlines()  # 40 columns, the least there is
        assert [line[:29].rstrip() for line in lines] == [line[:29].rstrip() for line in whole]
    view.end(STORY[-1])
    seen = terminal.seen.replace("\n", "").replace(" ", "")
    assert seen == render(STORY[-1], width=30).replace("\n", "").replace(" ", "")


def test_a_window_made_wider_gets_a_wider_picture_in_the_same_place() -> None:
    terminal = Terminal(columns=60)
    view = LivePicture(window(terminal))
    view.show(STORY[1])
    terminal.columns = 100
    view.show(STORY[1])
    assert terminal.seen == render(STORY[1], width=100)


def test_a_window_made_narrower_leaves_what_it_may_have_broken_and_goes_on_below() -> None:
    terminal = Terminal(columns=100)
    view = LivePicture(window(terminal))
    view.show(STORY[1])
    terminal.columns = 60
    view.show(STORY[2])
    view.show(STORY[3])
    view.end(STORY[4])
    assert terminal.seen == f"{render(STORY[1], width=100)}\n{render(STORY[4], width=60)}"


def test_a_picture_that_was_never_shown_live_can_end() -> None:
    terminal = Terminal()
    LivePicture(window(terminal)).end(STORY[-1])
    assert terminal.seen == render(STORY[-1])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 140), st.integers(1, 30)), max_size=8))
def test_whatever_becomes_of_the_window_the_last_picture_is_whole(
    frames: list[tuple[int, int, int]],
) -> None:
    terminal = Terminal()
    view = LivePicture(window(terminal))
    for index, columns, rows in frames:
        terminal.columns, terminal.rows = columns, rows
        view.show(STORY[index])
    terminal.columns, terminal.rows = 90, 30
    view.end(STORY[-1])
    assert terminal.seen.endswith(render(STORY[-1], width=90))
    assert terminal.wraps


@pytest.mark.parametrize(
    ("screen", "kind"),
    [
        (window(Terminal()), LivePicture),
        (pipe_screen(), Journal),
        (pipe_screen(plain=True), Journal),
    ],
    ids=["terminal", "pipe", "plain"],
)
def test_the_view_fits_the_screen(screen: Screen, kind: type) -> None:
    assert isinstance(view_on(screen), kind)


# --- a pipe ---------------------------------------------------------------------------------


def test_the_journal_tells_each_event_once_in_the_order_of_its_time() -> None:
    assert told(*STORY, STORY[-1]) == [
        "    0 ms  direct starts",
        "  800 ms  mirror starts",
        "   1.4 s  mirror failed (tls): ConnectionResetError: Connection reset by peer",
        "   1.6 s  socks5 starts",
        "     3 s  socks5 connected",
        "     3 s  direct lost the race (connect)",
    ]


def test_a_journal_that_looks_late_tells_the_same() -> None:
    assert told(STORY[-1]) == told(*STORY)


def test_the_journal_ends_with_the_waterfall() -> None:
    out = Pipe()
    journal = Journal(pipe_screen(out))
    journal.show(STORY[0])
    journal.end(STORY[-1])
    assert out.getvalue() == "\n".join([*told(*STORY), "", render(STORY[-1]), ""])


def failing(name: str, began: float, ended: float) -> Attempt:
    return attempt(name, began, ended, "connect_failed", error=LOST)


@pytest.mark.parametrize(
    ("attempts", "order"),
    [
        (
            (failing("z", 0.0, 1.0), attempt("a", 1.0)),
            ["z starts", "z failed", "a starts"],  # what began because the other had failed
        ),
        (
            (failing("z", 0.0, 0.0), failing("a", 0.0, 0.0), attempt("m", 0.0)),
            ["z starts", "z failed", "a starts", "a failed", "m starts"],
        ),
        (
            (
                attempt("a", 0.0, 2.0, "cancelled"),
                attempt("b", 0.0, 2.0, "lost_race"),
                attempt("z", 1.0, 2.0, "connected"),
            ),
            [
                "a starts",
                "b starts",
                "z starts",
                "z connected",
                "a was cancelled",
                "b lost the race",
            ],
        ),
        (
            (
                attempt("a", 0.0, 2.0, "timed_out", error=TimeoutError()),
                attempt("b", 1.0, 2.0, "timed_out", error=TimeoutError()),
            ),
            ["a starts", "b starts", "a timed out", "b timed out"],
        ),
        (
            (
                attempt("a", outcome="ineligible", reason="serves nobody"),
                attempt("b", outcome="not_started"),
            ),
            [],
        ),
    ],
    ids=["failure-starts-next", "failures-at-once", "verdict", "deadline", "no-part"],
)
def test_what_happens_in_one_instant_is_told_as_it_came_about(
    attempts: Sequence[Attempt], order: list[str]
) -> None:
    lines = [line[10:].partition(":")[0] for line in told(snapshot(2.0, *attempts))]
    assert lines == order


def test_long_causes_are_wrapped_behind_their_time() -> None:
    cause = SessionLost("no answer " * 12)
    failed = attempt("soar", 0.0, 61.0, "connect_failed", stage=Stage.HANDSHAKE, error=cause)
    lines = told(snapshot(62.0, failed))[1:]
    assert lines[0].startswith("    61 s  soar failed (handshake): SessionLost: no answer")
    assert len(lines) == 3
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert all(len(line) <= 80 for line in lines)


def test_texts_of_peers_cannot_reach_the_terminal() -> None:
    evil = attempt(
        "e\x1b[2Jvil\n", 0.0, 1.0, "connect_failed", error=SessionLost("\x1b]0;owned\x07")
    )
    text = "\n".join(told(snapshot(1.0, evil)))
    assert "\x1b" not in text
    assert text.count("\n") == 1
    assert r"e\x1b[2Jvil failed: SessionLost: \x1b]0;owned\x07" in text


def test_a_plain_journal_is_ascii() -> None:
    spoken = attempt("naïve", 0.0, 1.0, "connect_failed", error=SessionLost("…verloren"))
    lines = told(snapshot(1.0, spoken), plain=True)
    assert lines[1] == r"     1 s  na\xefve failed: SessionLost: ...verloren"


# --- a race ---------------------------------------------------------------------------------


class Frames:
    """A view that remembers when it was shown what."""

    def __init__(self) -> None:
        self.shown: list[tuple[float, str]] = []

    def show(self, report: RaceReport) -> None:
        running = [
            a.transport
            for a in report.attempts
            if a.finished_at is None and a.started_at is not None
        ]
        self.shown.append((anyio.current_time(), " ".join(running)))

    def end(self, report: RaceReport) -> None:
        raise AssertionError("the end is the caller's to show")


def race_of(dialer: Dialer, **options: Any) -> Race:
    return dialer.race("example.com", 80, **options)


@pytest.mark.virtual_time
async def test_a_race_is_shown_ten_times_a_second_until_its_first_finisher() -> None:
    guests = [ScriptedTransport("slow", hangs()), ScriptedTransport("quick", wins(0.2))]
    view = Frames()
    async with Dialer([guests[0], Entrant(guests[1], start_delay=0.15)]) as dialer:
        race = race_of(dialer)
        conn = await watch(race, view)
        assert isinstance(conn, Connection)
        assert anyio.current_time() == pytest.approx(0.35)
        assert (conn.transport_name, race.report.winner) == ("quick", "quick")
        assert race.report["slow"].outcome is Outcome.LOST_RACE
        await anyio.sleep(1)
        await conn.aclose()
    times = [at for at, _ in view.shown]
    assert times == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert [running for _, running in view.shown] == ["slow", "slow", "slow quick", "slow quick"]


@pytest.mark.virtual_time
async def test_a_race_nobody_wins_raises_what_it_always_raises() -> None:
    async with Dialer(
        [ScriptedTransport("a", fails(0.2)), ScriptedTransport("b", fails(0.3))]
    ) as dialer:
        race = race_of(dialer)
        with pytest.raises(AllAttemptsFailed) as caught:
            await watch(race, Frames())
        assert caught.value.report == race.report
        assert race.report.outcome is Outcome.CONNECT_FAILED


@pytest.mark.virtual_time
async def test_a_deadline_and_nobody_to_start_are_raised_bare_too() -> None:
    async with Dialer([ScriptedTransport("hangs", hangs())]) as dialer:
        with pytest.raises(DialTimeout):
            await watch(race_of(dialer, timeout=1.0), Frames())
    async with Dialer([ScriptedTransport("shy", serves="serves nobody")]) as dialer:
        race = race_of(dialer)
        with pytest.raises(NoTransports):
            await watch(race, Frames())
        assert race.report.outcome is Outcome.INELIGIBLE


@pytest.mark.virtual_time
@pytest.mark.parametrize("takes", [0, 1])
async def test_a_reader_that_has_gone_does_not_end_the_race(takes: int) -> None:
    out = Broken(takes)
    view = Journal(pipe_screen(out))
    guests = [ScriptedTransport("fails", fails(0.3)), ScriptedTransport("wins", wins(1.0))]
    async with Dialer(guests) as dialer:
        race = race_of(dialer)
        conn = await watch(race, view)
        await conn.aclose()
        with pytest.raises(BrokenPipeError):
            view.end(race.report)


@pytest.mark.virtual_time
async def test_a_cancelled_watch_leaves_nothing_open(anyio_backend_name: str) -> None:
    guests = [ScriptedTransport("fails", fails(0.15)), ScriptedTransport("wins", wins(0.25))]

    async def story() -> None:
        conn = await watch(race_of(dialer), view_on(pipe_screen()))
        async with conn:
            await anyio.sleep(0.1)

    async def verify() -> None:
        await anyio.sleep(5)  # longer than any cleanup may take
        assert (dialer.status().races, dialer.status().cleanups) == (0, 0)
        assert [stream for guest in guests for stream in guest.ledger.open_streams] == []

    async with Dialer(guests) as dialer:
        sweep = await cancel_everywhere(story, verify=verify, passes=6)
    assert sweep.points


@pytest.mark.virtual_time
@pytest.mark.parametrize("redraws", [True, False])
async def test_a_whole_race_looks_like_its_report(redraws: bool) -> None:
    out = Terminal() if redraws else Pipe()
    screen = window(out) if isinstance(out, Terminal) else pipe_screen(out)
    view = view_on(screen)
    guests = [
        Entrant(ScriptedTransport("direct", hangs())),
        Entrant(ScriptedTransport("mirror", fails(0.2, LOST)), start_delay=0.5),
        Entrant(ScriptedTransport("socks5", wins(0.5)), start_delay=1.0),
        Entrant(ScriptedTransport("soar", wins()), start_delay=8.0),
    ]
    async with Dialer(guests) as dialer:
        race = race_of(dialer)
        async with await watch(race, view) as conn:
            assert conn.transport_name == "socks5"
        view.end(race.report)
    if isinstance(out, Terminal):
        assert out.seen == render(race.report)
    else:
        journal = [
            "    0 ms  direct starts",
            "  500 ms  mirror starts",
            "  700 ms  mirror failed (connect): SessionLost: server lost the session",
            "     1 s  socks5 starts",
            "   1.5 s  socks5 connected",
            "   1.5 s  direct lost the race (connect)",
        ]
        assert out.getvalue() == "\n".join([*journal, "", render(race.report), ""])
