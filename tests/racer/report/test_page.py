"""A race as a page: whole without a network, the same in grey, and deaf to what a peer has written."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer import Outcome, RaceReport
from racer.errors import ErrorType, Stage
from racer.report import Changes, compare, figure, page, replay
from tests.racer.report.races import attempt, race

if TYPE_CHECKING:
    from racer._report import Attempt

RESET = ConnectionResetError(104, "Connection reset by peer")
VOID = {"meta", "br", "link", "img"}

TYPICAL = race(
    attempt(
        "direct", "connect_failed", 0.0, 0.5, stage=Stage.TLS, peer="192.0.2.1:443", error=RESET,
        error_type=ErrorType.CONNECTION_RESET,
    ),
    attempt("split", "timed_out", 0.25, 4.25, start_delay=0.25, stage=Stage.CONNECT),
    attempt("front", "lost_race", 1.0, 9.0, start_delay=1.0),
    attempt("soar", "connected", 8.0, 9.0, start_delay=8.0),
    attempt("amp", "ineligible", reason="it gives no streams"),
    attempt("last", "not_started", tier=1),
    winner="soar", duration=9.0,
)  # fmt: skip


class Read(HTMLParser):
    """A page as a browser takes it: which elements, with what in them; every one is closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self._open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_it_tells_the_race_in_words() -> None:
    read = Read(page(TYPICAL))
    for said in (
        "example.com:443 connected by soar in 9 s",
        "connection_reset at 500 ms",
        "timed out at 4.25 s (connect)",
        "direct (tls, 192.0.2.1:443): ConnectionResetError: [Errno 104] Connection reset by peer",
        "ineligible: it gives no streams",
        "not started (tier 1)",
        "2027-01-15 08:00:00 UTC",
        "4 of 6",
    ):
        assert said in read.text
    assert read.text.count("▶ winner") == 1


def test_every_bar_says_what_it_shows_and_a_table_says_it_again() -> None:
    read = Read(page(TYPICAL))
    assert "soar: from 8 s to 9 s, connected at 9 s" in read.text
    assert len([svg for svg in read.all("svg") if svg.get("role") == "img"]) == 4
    assert len(read.all("title")) == 1 + 4
    # Every picture is told to those who do not see it, or kept from them.
    outer = [svg for svg in read.all("svg") if "x" not in svg and "y" not in svg]
    assert all(svg.get("role") == "img" or svg.get("aria-hidden") or not svg for svg in outer)
    headers = [attributes.get("scope") for attributes in read.all("th")]
    assert headers == ["col"] * 10 + ["row"] * 6


def test_nothing_is_fetched_and_nothing_runs() -> None:
    text = page(TYPICAL, replays=compare(TYPICAL))
    read = Read(text)
    for tag, attributes in read.elements:
        for key in ("src", "href", "action", "xlink:href"):
            assert (attributes.get(key) or "data:").startswith("data:"), (tag, attributes)
        assert not [key for key in attributes if key.startswith("on")]
        assert tag not in {"link", "iframe", "object", "embed", "form", "base"}
    assert [script.get("type") for script in read.all("script")] == ["application/json"]
    assert re.findall(r"url\((?!#)|@import|https?:", text) == []
    (policy,) = [m["content"] for m in read.all("meta") if m.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")


def test_patterns_are_there_for_who_sees_no_colour() -> None:
    text = page(TYPICAL)
    used = set(re.findall(r"url\(#([\w-]+)\)", text))
    assert used
    assert used == {attributes["id"] for attributes in Read(text).all("pattern")}
    # Two outcomes never share their bar and their mark.
    kinds = ("good", "bad", "late", "idle", "gone", "open")
    drawn = {
        outcome: re.findall(rf'class="(?:bar|mark) ({"|".join(kinds)})"', figure(of(outcome)))
        for outcome in (*Outcome,)
        if outcome is not Outcome.INELIGIBLE
    }
    assert len({tuple(found) for found in drawn.values()}) == len(drawn)


def of(outcome: Outcome) -> RaceReport:
    return race(attempt("a", outcome, 0.0, 1.0))


def test_the_report_is_in_the_page_to_read_and_to_save() -> None:
    read = Read(page(TYPICAL))
    (embedded,) = read.scripts
    assert RaceReport.from_json(embedded) == TYPICAL
    (link,) = read.all("a")
    assert link["download"] == "race.json"
    kind, _, encoded = str(link["href"]).partition(",")
    assert kind == "data:application/json;base64"
    assert RaceReport.from_json(base64.b64decode(encoded)) == TYPICAL


def test_a_title_stands_above_what_came_of_it() -> None:
    read = Read(page(TYPICAL, title="Tuesday's <race>"))
    assert "Tuesday's <race> example.com:443 connected by soar in 9 s" in read.text


def test_replays_stand_in_a_table_and_as_pictures() -> None:
    replays = [*compare(TYPICAL), replay(TYPICAL, changes=Changes(delays={"soar": 1.5}))]
    read = Read(page(TYPICAL, replays=replays))
    assert "What other delays would have given" in read.text
    assert "one after the other nobody 12.5 s, if at all" in read.text
    assert "front was cut off after 8 s" in read.text
    assert "not known after 12.5 s" in read.text
    front = figure(replays[3].report, unknown_from=replays[3].unknown_from)
    assert (front.count('class="bar open"'), front.count("not known</li>")) == (2, 1)  # row, key
    assert len(read.all("figure")) == len(replays)  # the race, and each that differs from it
    assert "What other delays" not in Read(page(TYPICAL)).text


@pytest.mark.parametrize(
    "report",
    [
        race(outcome="ineligible", duration=0.0),
        race(attempt("a", "connect_failed", 0.0, 0.0, error=RESET), outcome="connect_failed", duration=0.0),
        race(attempt("a", "not_started", 0.0), outcome="not_started", duration=1e-12),
        race(attempt("a", "lost_race", 0.0, 1e300), duration=1e308),
        race(attempt("a", "lost_race", 5.0, 1.0), duration=-3.0),
    ],
)  # fmt: skip
def test_odd_races_have_a_page_too(report: RaceReport) -> None:
    text = page(report)
    Read(text)
    assert not re.search(r"\b(?:nan|inf)\b", text)


def test_a_start_beyond_all_calendars_is_still_told() -> None:
    report = RaceReport.from_json(json.dumps(json.loads(TYPICAL.to_json()) | {"started": 1e300}))
    assert "1e+300 s since 1970" in page(report)


# --- hostile texts --------------------------------------------------------------------------

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</script ",
    "</script/x",
    "<!--<script>",
    "<!--<script ",
    "]]></style><svg onload=alert(1)>",
    '" onmouseover=alert(1) x="\' autofocus',
    "\u202egnp.exe",
    "\x1b[31mred\x00\r\nSet-Cookie: x",
    "\ud800lone",
    "&lt;b&gt;",
    "javascript:alert(1)",
)


def poisoned(text: str) -> RaceReport:
    """Return a report with `text` wherever a peer or a guest may write something."""
    told: list[Attempt] = [
        attempt(text, "connect_failed", 0.0, 0.5, error=OSError(text), error_type=ErrorType.OTHER, peer=text),
        attempt(f"{text}2", "ineligible", reason=text),
        attempt(f"{text}3", "connected", 0.0, 1.0, peer=text),
    ]  # fmt: skip
    return race(*told, winner=f"{text}3", target=text)


@cache
def harmless_shape() -> list[tuple[str, list[str]]]:
    report = poisoned("x")
    read = Read(page(report, title="x", replays=compare(report)))
    return [(tag, list(kept)) for tag, kept in read.elements]


def assert_harmless(report: RaceReport) -> Read:
    text = page(report, title=report.target, replays=compare(report))
    read = Read(text)  # tags are closed in their order, so nothing has broken out
    assert [(tag, list(kept)) for tag, kept in read.elements] == harmless_shape()
    assert all(char.isprintable() or char == "\n" for char in text)
    text.encode("utf-8")
    assert RaceReport.from_json(read.scripts[0]) == report
    # Whatever a browser makes of tags in scripts, there are none.
    block = text.rpartition('<script type="application/json" id="report">')[2]
    assert not set(block.partition("</script>")[0]) & set("<>&")
    return read


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_peer_wrote_is_text(text: str) -> None:
    read = assert_harmless(poisoned(text))
    if text.isprintable():
        assert text in read.text


@settings(max_examples=10)
@given(st.text(alphabet=st.characters(), min_size=1, max_size=30))
def test_whatever_a_peer_wrote_is_text(text: str) -> None:
    assert_harmless(poisoned(text))


def test_long_texts_are_cut_where_people_read_and_whole_in_the_report() -> None:
    text = page(poisoned("x" * 900))
    shown = re.sub(r"<script.*?</script>|<pre>.*?</pre>|href=\"[^\"]*\"", "", text, flags=re.DOTALL)
    assert max(map(len, re.findall("x+", shown))) < 400
    assert "…" in shown
    assert "x" * 900 in text


def test_a_report_that_no_link_takes_is_still_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("racer.report._markup._MAX_LINK", 1000)
    monkeypatch.setattr("racer.report._page._MAX_INDENTED", 1000)
    read = Read(page(TYPICAL))
    assert read.all("a") == []
    assert "It is too long to be shown." in read.text
    assert RaceReport.from_json(read.scripts[0]) == TYPICAL
