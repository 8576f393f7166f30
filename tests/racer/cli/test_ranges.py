"""What answers mean for what is here: the table, and garbage."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.cli._ranges import (
    MAX_LENGTH,
    Append,
    Complete,
    Have,
    Refuse,
    Restart,
    Version,
    Whole,
    asking_for,
    judge,
    version_of,
)

NOW = "Mon, 30 Nov 2026 12:00:00 GMT"
DATED = "Sun, 29 Nov 2026 12:00:00 GMT"
TAGGED = Have(offset=10, version=Version(etag='"a"'), total=30)
OLD = Have(offset=10, version=Version(last_modified=DATED), total=30)


def fields(text: str) -> httpx.Headers:
    return httpx.Headers([tuple(line.split(": ", 1)) for line in text.split("\n") if line])  # type: ignore[arg-type]


# --- what is asked --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("have", "more"),
    [
        (Have(), {}),
        (Have(version=Version(etag='"a"')), {}),
        (Have(offset=10), {}),
        (TAGGED, {"Range": "bytes=10-", "If-Range": '"a"'}),
        (OLD, {"Range": "bytes=10-", "If-Range": DATED}),
    ],
)
def test_the_rest_is_asked_for_only_where_it_can_be_known_to_fit(
    have: Have, more: dict[str, str]
) -> None:
    assert asking_for(have) == {"Accept": "*/*", "Accept-Encoding": "identity"} | more


# --- which version --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('ETag: "a"', Version(etag='"a"')),
        ('ETag: W/"a"', Version()),
        ("ETag: a", Version()),
        ('ETag: "', Version()),
        ('ETag: "a b"', Version()),
        ('ETag: "a"b"', Version()),
        (f'ETag: "{"a" * 1100}"', Version()),
        (f"Last-Modified: {DATED}\nDate: {NOW}", Version(last_modified=DATED)),
        (f"Last-Modified: {DATED}", Version()),
        (f"Last-Modified: {NOW}\nDate: {NOW}", Version()),
        (f"Last-Modified: {NOW}\nDate: {DATED}", Version()),
        (f"Last-Modified: Mon, 30 Nov 2026 11:59:01 GMT\nDate: {NOW}", Version()),
        (f"Last-Modified: yesterday\nDate: {NOW}", Version()),
        ("Content-Encoding: GZIP", Version(encoding="gzip")),
        ("Content-Encoding: identity", Version()),
    ],
)
def test_only_strong_validators_tell_versions_apart(text: str, version: Version) -> None:
    assert version_of(fields(text)) == version


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (Version(etag='"a"'), Version(etag='"a"'), True),
        (Version(etag='"a"'), Version(etag='"b"'), False),
        (Version(etag='"a"', last_modified=DATED), Version(last_modified=DATED), False),
        (Version(last_modified=DATED), Version(last_modified=DATED), True),
        (Version(), Version(), False),
        (Version(etag='"a"', encoding="gzip"), Version(etag='"a"'), False),
    ],
)
def test_what_cannot_be_told_is_not_the_same(one: Version, other: Version, is_same: bool) -> None:
    assert one.is_same(other) is is_same
    assert other.is_same(one) is is_same


# --- what an answer means -------------------------------------------------------------------

REST = "Content-Range: bytes 10-29/30"
GOES_ON = Append(skip=0, length=20, total=30)


@pytest.mark.parametrize(
    ("have", "text", "verdict"),
    [
        (TAGGED, f'{REST}\nETag: "a"\nContent-Length: 20', GOES_ON),
        (TAGGED, REST, GOES_ON),
        (OLD, REST, GOES_ON),
        (OLD, f"{REST}\nLast-Modified: {DATED}", GOES_ON),
        (replace(TAGGED, total=None), REST, GOES_ON),
        (TAGGED, "Content-Range: bytes 10-29/*", GOES_ON),
        (TAGGED, "content-range: BYTES 10-14/30", Append(skip=0, length=5, total=30)),
        (TAGGED, "", "with the range ''"),
        (TAGGED, "Content-Range: bytes 0-29/30", "what begins at 10"),
        (TAGGED, "Content-Range: bytes 11-29/30", "what begins at 10"),
        (TAGGED, "Content-Range: bytes 10-9/30", "what begins at 10"),
        (TAGGED, "Content-Range: bytes 10-30/30", "what begins at 10"),
        (TAGGED, "Content-Range: bytes 10-29/31", "another length"),
        (replace(TAGGED, total=None), "Content-Range: bytes 10-29/*", "another length"),
        (TAGGED, "Content-Range: octets 10-29/30", "with the range"),
        (TAGGED, "Content-Range: bytes */30", "with the range"),
        (TAGGED, "Content-Range: bytes -10-29/30", "with the range"),
        (TAGGED, "Content-Range: bytes 10-29", "with the range"),
        (TAGGED, "Content-Range: bytes 10-29/" + "9" * 5000, "with the range"),
        (TAGGED, "Content-Type: multipart/byteranges; boundary=x", "with the range ''"),
        (TAGGED, f'{REST}\nETag: "b"', "something else"),
        (TAGGED, f'{REST}\nETag: W/"a"', "something else"),
        (TAGGED, f"{REST}\nContent-Encoding: gzip", "something else"),
        (OLD, f'{REST}\nETag: "b"', "something else"),
        (OLD, f"{REST}\nLast-Modified: {NOW}", "something else"),
        (TAGGED, f"{REST}\nContent-Length: 21", "21"),
        (TAGGED, f"{REST}\nContent-Length: many", "many"),
    ],
)
def test_a_part_is_added_only_where_everything_fits(
    have: Have, text: str, verdict: Append | str
) -> None:
    found = judge(206, fields(text), have, asked_range=True)
    if isinstance(verdict, str):
        assert isinstance(found, Whole)
        assert verdict in found.why
    else:
        assert found == verdict


@pytest.mark.parametrize(
    ("have", "text", "verdict"),
    [
        (Have(), "", Restart(version=Version(), total=None)),
        (Have(), 'ETag: "a"\nContent-Length: 30', Restart(version=Version(etag='"a"'), total=30)),
        (TAGGED, 'ETag: "a"\nContent-Length: 30', Append(skip=10, length=30, total=30)),
        (TAGGED, 'ETag: "a"', Append(skip=10, length=None, total=30)),
        (TAGGED, 'ETag: "b"\nContent-Length: 30', Restart(version=Version(etag='"b"'), total=30)),
        (TAGGED, 'ETag: "a"\nContent-Length: 31', Restart(version=Version(etag='"a"'), total=31)),
        (
            replace(TAGGED, total=None),
            'ETag: "a"\nContent-Length: 9',
            Restart(version=Version(etag='"a"'), total=9),
        ),
        (TAGGED, "Content-Length: 30", Restart(version=Version(), total=30)),
        (TAGGED, "Content-Length: -1", Refuse(why="its Content-Length is '-1'")),
        (TAGGED, "Content-Length: 5, 5", Refuse(why="its Content-Length is '5, 5'")),
        (
            Have(),
            f"Content-Length: {MAX_LENGTH + 1}",
            Refuse(why=f"its Content-Length is '{MAX_LENGTH + 1}'"),
        ),
    ],
)
def test_the_whole_replaces_what_is_here_unless_it_is_surely_the_same(
    have: Have, text: str, verdict: object
) -> None:
    for asked_range in (True, False):
        assert judge(200, fields(text), have, asked_range=asked_range) == verdict


@pytest.mark.parametrize(
    ("have", "text", "verdict"),
    [
        (replace(TAGGED, total=10), "Content-Range: bytes */10", Complete()),
        (TAGGED, "Content-Range: bytes */10", Whole(why="it has no such range")),
        (
            replace(TAGGED, total=None),
            "Content-Range: bytes */10",
            Whole(why="it has no such range"),
        ),
        (replace(TAGGED, total=10), "Content-Range: bytes */11", Whole(why="it has no such range")),
        (replace(TAGGED, total=10), "", Whole(why="it has no such range")),
    ],
)
def test_beyond_the_end_is_the_end_only_where_it_was_known(
    have: Have, text: str, verdict: object
) -> None:
    assert judge(416, fields(text), have, asked_range=True) == verdict


@pytest.mark.parametrize(
    ("status", "asked_range", "may_pass"),
    [
        (206, False, False),
        (416, False, False),
        (204, True, False),
        (304, True, False),
        (404, True, False),
        (429, True, True),
        (503, False, True),
        (999, False, False),
    ],
)
def test_everything_else_is_no_answer(status: int, asked_range: bool, may_pass: bool) -> None:
    found = judge(status, httpx.Headers(), TAGGED, asked_range=asked_range)
    assert isinstance(found, Refuse)
    assert found.may_pass is may_pass


NAMES = st.sampled_from(
    ["ETag", "Last-Modified", "Date", "Content-Range", "Content-Length", "Content-Encoding"]
)
VALUES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(['"a"', 'W/"a"', DATED, NOW, "bytes 10-29/30", "bytes */10", "30", "gzip"]),
    st.from_regex(r"bytes \d{1,20}-\d{1,20}/(\d{1,20}|\*)", fullmatch=True),
)


@given(
    status=st.sampled_from([200, 203, 206, 416, 500]),
    headers=st.dictionaries(NAMES, VALUES),
    have=st.sampled_from([Have(), TAGGED, OLD, replace(TAGGED, total=None)]),
    asked_range=st.booleans(),
)
def test_whatever_a_server_says_never_glues_what_does_not_fit(
    status: int, headers: dict[str, str], have: Have, asked_range: bool
) -> None:
    lowered = {name.lower(): value for name, value in headers.items()}
    verdict = judge(status, lowered, have, asked_range=asked_range)
    if isinstance(verdict, Append):
        assert have.can_go_on
        assert verdict.skip in {0, have.offset}
        assert (status == 206) is (verdict.skip == 0)
        assert have.total is None or verdict.total == have.total
        if verdict.skip == 0:
            assert lowered["content-range"].lower().split()[1].startswith(f"{have.offset}-")
            assert verdict.total is not None
            assert have.offset + (verdict.length or 0) <= verdict.total
