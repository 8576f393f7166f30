"""Octets as a page, and back, whatever a cache does around them."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from transports.amp._armor import MAX_PAGE, armor, unarmor


@given(st.binary(max_size=300))
def test_round_trip(payload: bytes) -> None:
    assert unarmor(armor(payload)) == payload


@pytest.mark.parametrize("size", [0, 1, 23, 24, 23_807, 23_808, 100_000, 1 << 20])
def test_sizes_at_the_edges_of_lines_and_elements(size: int) -> None:
    payload = bytes(n * 7 % 256 for n in range(size))
    page = armor(payload)
    assert unarmor(page) == payload
    for element in page.split(b"<pre>")[1:]:
        text = element.partition(b"</pre>")[0]
        assert len(text) <= 32 * 1024
        assert max(map(len, text.split())) <= 32


def test_the_markup_is_what_amp_demands() -> None:
    page = armor(b"x").decode()
    assert page.startswith("<!doctype html>\n<html amp>")
    for part in (
        '<meta charset="utf-8">', '<script async src="https://cdn.ampproject.org/v0.js"></script>',
        '<link rel="canonical"', '<meta name="viewport" content="width=device-width">',
        "<style amp-boilerplate>body{-webkit-animation:-amp-start 8s steps(1,end) 0s 1 normal both;",
        "@-o-keyframes -amp-start{from{visibility:hidden}to{visibility:visible}}",
        "<noscript><style amp-boilerplate>body{-webkit-animation:none;",
    ):  # fmt: skip
        assert part in page


GOOD = base64.b64encode(b"payload").decode()


@pytest.mark.parametrize(
    "page",
    [
        f"<pre>0{GOOD}</pre>",
        f"<PRE CLASS='x>y'>0{GOOD[:4]}</PRE><pre>{GOOD[4:]}</pre>".replace("x>y", "xy"),
        f"<script>if (1<2) '<pre>9</pre>'</script><pre>0{GOOD}</pre>",
        f"<!-- <pre>9</pre> --><style>pre{{}}</style><pre>0{GOOD}</pre><!-- open",
        f"a < b <pre\nid=1>\r\n 0 {GOOD[:3]}\t{GOOD[3:]}\n</pre >trailing",
        f"<pre>0{GOOD[:5]}<b>{GOOD[5:]}</b></pre>",
        f"<pre><pre>0</pre>{GOOD}</pre>",
        f"<pre>0{GOOD}",
    ],
)
def test_what_a_cache_may_make_of_it(page: str) -> None:
    assert unarmor(page.encode()) == b"payload"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (b"", "no data"),
        (b"<html>nothing</html>", "no data"),
        (b"<pre></pre>", "no data"),
        (b"<pre>1AAAA</pre>", "version b'1'"),
        (b"<pre>0AAA</pre>", "torn"),
        (b"<pre>0AA=A</pre>", "torn"),
        (b"<pre>0\xff\xff</pre>", "torn"),
        (b"<script><pre>0AAAA</pre>", "no data"),
        (b"x" * (MAX_PAGE + 1), "more than"),
    ],
)
def test_what_is_no_such_page(page: bytes, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        unarmor(page)


@pytest.mark.parametrize("step", range(0, 400, 13))
def test_a_torn_page_is_an_error_or_a_part(step: int) -> None:
    page = armor(b"payload" * 9)
    cut = page[: len(page) - step]
    with suppress(RemoteProtocolError):
        assert (b"payload" * 9).startswith(unarmor(cut))  # the seal shows that some is missing


@pytest.mark.parametrize(
    "page", [b"<" * MAX_PAGE, b"<pre" * (MAX_PAGE // 4), b"<!--" * (MAX_PAGE // 4), b"<script>" * (MAX_PAGE // 8)]
)  # fmt: skip
def test_a_hostile_page_costs_no_more_than_its_length(page: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        unarmor(page)


@given(st.binary(max_size=200) | st.text(alphabet="<>/pre! -0AZ=\n", max_size=60).map(str.encode))
def test_garbage_gives_octets_or_one_error(page: bytes) -> None:
    with suppress(RemoteProtocolError):
        assert isinstance(unarmor(page), bytes)
