"""Downloads over ways that break, from servers that lie: on a virtual clock, into memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer import Dialer, Entrant, lab
from racer.cli._download import MAX_HOPS, PROGRESS, Download, _next_hop, parse_url
from racer.cli._exits import CommandError, Exit
from racer.cli._ranges import Have, Version
from racer.errors import AllAttemptsFailed, DialTimeout, NoTransports
from racer.http import AsyncClient
from tests.racer.http.origin import MemoryWay, Origin, authority
from tests.racer.http.web import URL, Web, answers, hangs_up
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from racer.cli._download import Downloaded
    from racer.http import Via
    from tests.racer.http.origin import Talk

pytestmark = pytest.mark.virtual_time

DATA = bytes(range(256)) * 4
NEW = DATA[::-1]
PLACE = "http://origin.example/file"


class Memory:
    """A sink in memory; `forgets` says whether it can begin again."""

    def __init__(
        self, have: Have | None = None, *, forgets: bool = True, place: str = PLACE
    ) -> None:
        self.have = have or Have()
        self.data = bytearray(DATA[: self.have.offset])
        self.place = place if have else ""
        self._forgets = forgets

    def is_from(self, place: str) -> bool:
        return place == self.place

    async def restart(self, version: Version, total: int | None, place: str) -> bool:
        if self.have.offset and not self._forgets:
            return False
        self.data.clear()
        self.have, self.place = Have(version=version, total=total), place
        return True

    async def learn(self, total: int | None) -> None:
        self.have = replace(self.have, total=total)

    async def write(self, data: bytes) -> None:
        self.data += data
        self.have = replace(self.have, offset=len(self.data))


class Notes:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, str]] = []
        self.notes: list[str] = []
        self.offsets: list[int] = []

    def begin(self, have: Have, via: Via) -> None:
        self.begun.append((have.offset, via.transport_name))

    def advance(self, offset: int) -> None:
        self.offsets.append(offset)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Shelf:
    """An HTTP server's file, which breaks off after so many octets of each body in turn."""

    def __init__(
        self, data: bytes = DATA, *, breaks: list[int] | None = None, **fields: str
    ) -> None:
        self.data = data
        self.fields = {name.replace("_", "-"): value for name, value in fields.items()}
        self.breaks = breaks or []
        self.ranges: list[str | None] = []

    async def __call__(self, talk: Talk) -> None:
        assert talk.headers["accept-encoding"] == "identity"
        asked = talk.headers.get("range")
        self.ranges.append(asked)
        start = 0
        tag = self.fields.get("etag", self.fields.get("last-modified"))
        if asked is not None and tag is not None and talk.headers.get("if-range") == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(self.data) > 0:
            await talk.respond(416, b"", content_range=f"bytes */{len(self.data)}")
            return
        fields = {"content-length": str(len(self.data) - start), **self.fields}
        if start:
            fields["content-range"] = f"bytes {start}-{len(self.data) - 1}/{len(self.data)}"
        await self.send(talk, 206 if start else 200, fields, self.data[start:])

    async def send(self, talk: Talk, status: int, fields: dict[str, str], body: bytes) -> None:
        await talk.begin(status, fields, False)
        end = self.breaks.pop(0) if self.breaks else len(body)
        if end:
            await talk.send(body[:end])
        if end < len(body):
            await anyio.aclose_forcefully(talk.wire.stream)
        else:
            await talk.end()


async def fetch(
    web: Web, sink: Memory, *, url: str = PLACE, notes: Notes | None = None, **options: Any
) -> Downloaded:
    return await Download(web.client, parse_url(url), sink, view=notes or Notes(), **options).run()


# --- going on -------------------------------------------------------------------------------


async def test_a_whole_file_comes_in_one_answer() -> None:
    shelf, sink, notes = Shelf(etag='"a"'), Memory(), Notes()
    async with Web({"a": shelf}) as web:
        done = await fetch(web, sink, notes=notes)
    assert sink.data == DATA
    assert (done.status, done.size, done.received, done.resumed_at) == (200, 1024, 1024, 0)
    assert [via.transport_name for via in done.vias] == ["a"]
    assert (notes.begun, notes.notes, notes.offsets[-1]) == ([(0, "a")], [], 1024)
    assert sink.have == Have(offset=1024, version=Version(etag='"a"'), total=1024)


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
async def test_a_broken_connection_goes_on_by_another_route(protocol: str) -> None:
    first, second = Shelf(breaks=[100], etag='"a"'), Shelf(etag='"a"')
    sink, notes = Memory(), Notes()
    async with Web({"a": first, "b": second}, delays={"b": 1.0}, protocol=protocol) as web:
        done = await fetch(web, sink, notes=notes)
        assert sink.data == DATA
        assert second.ranges == ["bytes=100-"]
        assert notes.begun == [(0, "a"), (100, "b")]
        assert [via.transport_name for via in done.vias] == ["a", "b"]
        assert anyio.current_time() == 0.5


async def test_what_an_earlier_run_left_is_gone_on_with() -> None:
    shelf, sink = (
        Shelf(etag='"a"'),
        Memory(Have(offset=1000, version=Version(etag='"a"'), total=1024)),
    )
    async with Web({"a": shelf}) as web:
        done = await fetch(web, sink)
    assert sink.data == DATA
    assert shelf.ranges == ["bytes=1000-"]
    assert (done.size, done.received, done.resumed_at) == (1024, 24, 1000)


async def test_a_date_serves_where_there_is_no_tag() -> None:
    dates: dict[str, Any] = {
        "last_modified": "Sun, 29 Nov 2026 12:00:00 GMT",
        "date": "Mon, 30 Nov 2026 12:00:00 GMT",
    }
    shelf, sink = Shelf(DATA, breaks=[100, 50], **dates), Memory()
    async with Web({"a": shelf}) as web:
        await fetch(web, sink)
    assert sink.data == DATA
    assert shelf.ranges == [None, "bytes=100-", "bytes=150-"]


async def test_a_changed_file_is_never_glued_to_an_old_beginning() -> None:
    sink, notes = Memory(Have(offset=1000, version=Version(etag='"a"'), total=1024)), Notes()
    async with Web({"a": Shelf(NEW, etag='"b"')}) as web:
        await fetch(web, sink, notes=notes)
    assert sink.data == NEW
    assert notes.notes == ["what is here cannot be gone on with; beginning again"]


async def test_a_file_that_changes_on_the_way_begins_again() -> None:
    first, second = Shelf(breaks=[1000], etag='"a"'), Shelf(NEW, etag='"b"')
    sink = Memory()
    async with Web({"a": first, "b": second}, delays={"b": 1.0}) as web:
        await fetch(web, sink)
    assert sink.data == NEW


async def test_without_a_validator_it_begins_again() -> None:
    shelf, sink = Shelf(breaks=[1000]), Memory()
    async with Web({"a": shelf}) as web:
        await fetch(web, sink)
    assert sink.data == DATA
    assert shelf.ranges == [None, None]


async def test_a_weak_tag_is_no_validator() -> None:
    shelf, sink = Shelf(breaks=[1000], etag='W/"a"'), Memory()
    async with Web({"a": shelf}) as web:
        await fetch(web, sink)
    assert (bytes(sink.data), shelf.ranges) == (DATA, [None, None])


async def test_a_server_without_ranges_is_skipped_over_where_the_file_is_the_same() -> None:
    class Rangeless(Shelf):
        async def __call__(self, talk: Talk) -> None:
            self.ranges.append(talk.headers.pop("range", None))
            await super().__call__(talk)

    shelf, sink, notes = Rangeless(breaks=[1000], etag='"a"'), Memory(forgets=False), Notes()
    async with Web({"a": shelf}) as web:
        await fetch(web, sink, notes=notes)
    assert sink.data == DATA
    assert notes.offsets[-1] == 1024
    assert min(notes.offsets[notes.offsets.index(1000) :]) == 1000


async def test_an_output_that_forgets_nothing_does_not_take_another_file() -> None:
    shelf, sink = Shelf(breaks=[1000]), Memory(forgets=False)
    async with Web({"a": shelf}) as web:
        with pytest.raises(
            CommandError, match="after 1000 bytes, which are written already"
        ) as caught:
            await fetch(web, sink)
    assert caught.value.code is Exit.REFUSED
    assert sink.data == DATA[:1000]


async def test_all_that_was_missing_may_be_the_rename() -> None:
    shelf = Shelf(etag='"a"')
    sink = Memory(Have(offset=1024, version=Version(etag='"a"'), total=1024))
    async with Web({"a": shelf}) as web:
        done = await fetch(web, sink)
    assert (bytes(sink.data), done.received, done.size) == (DATA, 0, 1024)


async def test_an_empty_file_is_one() -> None:
    sink = Memory()
    async with Web({"a": Shelf(b"", etag='"a"')}) as web:
        done = await fetch(web, sink)
    assert (done.size, sink.have.total) == (0, 0)


async def test_a_body_of_unknown_length_ends_where_it_ends() -> None:
    async def chunked(talk: Talk) -> None:
        await talk.begin(200, {"transfer-encoding": "chunked"}, False)
        await talk.send(DATA)
        await talk.end()

    sink = Memory()
    async with Web({"a": chunked}) as web:
        done = await fetch(web, sink)
    assert (bytes(sink.data), done.size, sink.have.total) == (DATA, 1024, None)


# --- how often ------------------------------------------------------------------------------


async def test_tries_that_bring_nothing_are_counted_and_wait_longer() -> None:
    shelf, sink, notes = Shelf(breaks=[100, *[0] * 99], etag='"a"'), Memory(), Notes()
    async with Web({"a": shelf}) as web:
        with pytest.raises(CommandError, match="gave up: a: ") as caught:
            await fetch(web, sink, notes=notes, tries=3)
        assert anyio.current_time() == 0.5 + 1 + 2
    assert caught.value.code is Exit.FAILED
    assert len(shelf.ranges) == 4
    assert sink.data == DATA[:100]  # kept


async def test_a_try_that_brings_much_begins_the_count_anew() -> None:
    data = b"x" * (PROGRESS * 4)
    sink = Memory()
    async with Web({"a": Shelf(data, breaks=[PROGRESS] * 3, etag='"a"')}) as web:
        await fetch(web, sink, tries=1)
    assert sink.data == data


async def test_crumbs_do_not_keep_it_going() -> None:
    shelf = Shelf(b"x" * 10_000, breaks=[1] * 9999, etag='"a"')
    async with Web({"a": shelf}) as web:
        with pytest.raises(CommandError, match="gave up"):
            await fetch(web, Memory(), tries=5)
    assert len(shelf.ranges) == 6


async def test_a_server_that_begins_again_each_time_does_not_keep_it_going() -> None:
    shelf = Shelf(b"x" * (PROGRESS * 2), breaks=[PROGRESS] * 99)
    async with Web({"a": shelf}) as web:
        with pytest.raises(CommandError, match="gave up"):
            await fetch(web, Memory(), tries=3)
    assert len(shelf.ranges) == 4


async def test_a_server_that_gives_more_and_less_in_turn_does_not_keep_it_going() -> None:
    shelf = Shelf(b"x" * (PROGRESS * 3), breaks=[PROGRESS * 2, 10] * 99)
    async with Web({"a": shelf}) as web:
        with pytest.raises(CommandError, match="gave up"):
            await fetch(web, Memory(), tries=3)
    assert len(shelf.ranges) == 4


async def test_a_busy_server_is_asked_again_once_the_download_has_begun() -> None:
    shelf = Shelf(breaks=[100], etag='"a"')
    asked = 0

    async def busy_once(talk: Talk) -> None:
        nonlocal asked
        asked += 1
        await (talk.respond(503) if asked == 2 else shelf(talk))

    sink = Memory()
    async with Web({"a": busy_once}) as web:
        await fetch(web, sink)
    assert (bytes(sink.data), asked) == (DATA, 3)


@pytest.mark.parametrize(
    ("ways", "error"),
    [
        ({"a": None}, AllAttemptsFailed),
        ({"a": hangs_up}, Exception),
    ],
)
async def test_what_never_began_ends_with_its_own_error(
    ways: dict[str, Any], error: type[Exception]
) -> None:
    async with Web(ways) as web:
        with pytest.raises(error):
            await fetch(web, Memory())
        assert anyio.current_time() == 0


async def test_a_race_without_an_end_in_time_says_so() -> None:
    ways = {"a": MemoryWay("a", Origin(), delay=99.0)}
    async with Web(ways, dialer_options={"timeout": 5.0}) as web:
        with pytest.raises(DialTimeout):
            await fetch(web, Memory())


async def test_without_transports_it_is_not_tried_again() -> None:
    shelf = Shelf(breaks=[10], etag='"a"')
    async with Web({"a": shelf}) as web:
        way = web.ways["a"]
        download = Download(web.client, parse_url(PLACE), Memory(), view=Notes())
        way.serves = lambda target: None if not shelf.ranges else "out of order"
        with pytest.raises((NoTransports, CommandError)):
            await download.run()


# --- servers that lie -----------------------------------------------------------------------


def lying(*answers_: tuple[int, dict[str, str], bytes]) -> Callable[[Talk], Awaitable[None]]:
    """Return a server that gives these answers in turn, and the last of them from then on."""
    left = list(answers_)

    async def answer(talk: Talk) -> None:
        status, fields, body = left.pop(0) if len(left) > 1 else left[0]
        await talk.respond(status, body, **fields)

    return answer


HAVE = Have(offset=1000, version=Version(etag='"a"'), total=1024)
RIGHT = (200, {"etag": '"a"'}, DATA)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"content_range": "bytes 0-23/1024"},
        {"content_range": "bytes 1000-1023/2048"},
        {"content_range": "bytes 1000-1023/1024", "etag": '"b"'},
        {"content_range": "bytes 1000-1022/1024"},
    ],
)
async def test_a_wrong_range_is_asked_for_as_a_whole(fields: dict[str, str]) -> None:
    sink = Memory(HAVE)
    async with Web({"a": lying((206, fields, NEW[:24]), RIGHT)}) as web:
        await fetch(web, sink)
    assert sink.data == DATA


async def test_a_416_is_asked_for_as_a_whole() -> None:
    sink = Memory(HAVE)
    async with Web({"a": lying((416, {}, b""), RIGHT)}) as web:
        await fetch(web, sink)
    assert sink.data == DATA


@pytest.mark.parametrize(
    "answer", [(206, {"content_range": "bytes 0-1023/1024"}, DATA), (416, {}, b"")]
)
async def test_who_answers_with_ranges_that_nobody_wants_is_refused(answer: Any) -> None:
    for have in (None, HAVE):
        sink = Memory(have)
        async with Web({"a": lying(answer)}) as web:
            with pytest.raises(CommandError) as caught:
                await fetch(web, sink)
        assert caught.value.code is Exit.REFUSED
        assert sink.data == DATA[: sink.have.offset]


async def test_a_part_in_pieces_is_put_together() -> None:
    pieces = [
        (206, {"content_range": f"bytes {at}-{at + 7}/1024", "etag": '"a"'}, DATA[at : at + 8])
        for at in (1000, 1008, 1016)
    ]
    sink = Memory(HAVE)
    async with Web({"a": lying(*pieces)}) as web:
        await fetch(web, sink)
    assert sink.data == DATA


async def test_a_body_without_an_end_stops_at_what_is_wanted() -> None:
    async def endless(talk: Talk) -> None:
        await talk.begin(200, {"transfer-encoding": "chunked"}, False)
        while True:
            await talk.send(b"x" * 1000)

    sink = Memory()
    async with Web({"a": endless}) as web:
        with pytest.raises(CommandError, match="larger than --max-bytes 5000") as caught:
            await fetch(web, sink, max_bytes=5000)
    assert caught.value.code is Exit.REFUSED
    assert len(sink.data) <= 5000


async def test_what_is_said_to_be_too_large_is_not_begun() -> None:
    sink = Memory()
    async with Web({"a": Shelf()}) as web:
        with pytest.raises(CommandError, match="larger than --max-bytes 1023"):
            await fetch(web, sink, max_bytes=1023)
        assert sink.data == b""
        await fetch(web, sink, max_bytes=1024)
    assert sink.data == DATA


async def test_a_body_of_another_length_than_before_is_refused() -> None:
    async def longer(talk: Talk) -> None:
        await talk.begin(200, {"transfer-encoding": "chunked", "etag": '"a"'}, False)
        await talk.send(DATA + b"more")
        await talk.end()

    sink = Memory(HAVE)
    async with Web({"a": longer}) as web:
        with pytest.raises(CommandError, match="sends more than it said"):
            await fetch(web, sink)


async def test_a_body_that_ends_before_what_is_here_is_not_all() -> None:
    async def shorter(talk: Talk) -> None:
        await talk.begin(200, {"transfer-encoding": "chunked", "etag": '"a"'}, False)
        await talk.send(DATA[:500])
        await talk.end()

    sink = Memory(replace(HAVE, total=None))
    async with Web({"a": shorter}) as web:
        with pytest.raises(CommandError, match="the body ended before its time"):
            await fetch(web, sink, tries=1)


@pytest.mark.parametrize("status", [204, 304, 400, 404, 410, 451])
async def test_what_is_no_answer_is_told(status: int) -> None:
    async with Web({"a": answers(status)}) as web:
        with pytest.raises(
            CommandError, match=rf"^origin\.example: it answered {status}"
        ) as caught:
            await fetch(web, Memory())
    assert caught.value.code is Exit.REFUSED


async def test_an_encoded_body_is_kept_as_it_comes_and_said() -> None:
    sink, notes = Memory(), Notes()
    async with Web({"a": Shelf(content_encoding="gzip")}) as web:
        await fetch(web, sink, notes=notes)
    assert sink.data == DATA
    assert notes.notes == ["it comes encoded (gzip), and is kept as it comes"]


# --- redirects ------------------------------------------------------------------------------


class Signpost:
    """Leads on from everything but `/file` and `/moved`."""

    def __init__(self, location: str, shelf: Shelf | None = None) -> None:
        self.location = location
        self.shelf = shelf or Shelf(etag='"a"')
        self.seen: list[tuple[str, str, str | None]] = []

    async def __call__(self, talk: Talk) -> None:
        path = talk.target.partition("?")[0]
        self.seen.append((talk.headers["host"], talk.target, talk.headers.get("x-key")))
        if path in {"/file", "/moved"}:
            await self.shelf(talk)
        else:
            await talk.respond(302, b"gone", location=self.location)


async def test_redirects_are_followed_and_secrets_stay_with_their_server() -> None:
    post, sink = Signpost("//other.example/file#part"), Memory()
    async with Web({"a": post}) as web:
        await fetch(web, sink, url=URL + "start", headers={"X-Key": "secret"})
    assert sink.data == DATA
    assert post.seen == [
        ("origin.example", "/start", "secret"),
        ("other.example", "/file", None),
    ]


async def test_redirects_without_an_end_are_given_up() -> None:
    post = Signpost("/next")
    async with Web({"a": post}) as web:
        with pytest.raises(CommandError, match="more than 10 redirects") as caught:
            await fetch(web, Memory(), url=URL + "start")
    assert caught.value.code is Exit.REFUSED
    assert len(post.seen) == MAX_HOPS + 1


async def test_the_same_tag_at_another_place_is_another_file() -> None:
    have = Have(offset=1000, version=Version(etag='"a"'), total=1024)
    sink = Memory(have, place="http://origin.example/file")
    async with Web({"a": Signpost("/moved", Shelf(NEW, etag='"a"'))}) as web:
        await fetch(web, sink, url=URL + "start")
    assert sink.data == NEW


async def test_a_query_that_is_signed_anew_is_the_same_place_for_a_tag() -> None:
    shelf = Shelf(etag='"a"')
    sink = Memory(HAVE, place="http://origin.example/file")
    async with Web({"a": Signpost("/file?signed=now", shelf)}) as web:
        await fetch(web, sink, url=URL + "start")
    assert (bytes(sink.data), shelf.ranges) == (DATA, ["bytes=1000-"])


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://example.com/", "redirects from https to"),
        ("ftp://example.com/", "redirects to 'ftp"),
        ("file:///etc/passwd", "redirects to 'file"),
        ("javascript:alert(1)", "redirects to"),
        ("", "redirects to ''"),
        ("https://exa mple.com/", "redirects to"),
        ("https://example.com:99999999/", "redirects to"),
        ("https://[", "redirects to"),
        ("\x00", "redirects to"),
    ],
)
def test_where_a_redirect_must_not_lead(location: str, words: str) -> None:
    with pytest.raises(CommandError, match=words) as caught:
        _next_hop(httpx.URL("https://example.com/a"), location)
    assert caught.value.code is Exit.REFUSED


def test_a_redirect_gives_no_password_to_anybody() -> None:
    there = _next_hop(httpx.URL("https://me:secret@example.com/a"), "https://x:y@example.net/b#c")
    assert str(there) == "https://example.net/b"


# --- URLs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("example.com/file", "did you mean https://example.com/file?"),
        ("", "is no URL that begins with"),
        ("ftp://example.com/", "is no URL that begins with"),
        ("https://", "is no URL: it names no host"),
        ("https:///file", "is no URL: it names no host"),
        ("HTTP:example.com", "is no URL: it names no host"),
        ("https://[::1/", "is no URL"),
        ("https://example.com:99999999/", "is no URL"),
        ("https://exa mple.com/", "is no URL: there is a blank in its host"),
        ("https://example.com:99999/a b", "is no URL: port 99999"),
        ("https://example.com/\x1b[31m", "is no URL"),
        ("x" * 70_000, "is no URL"),
    ],
)
def test_what_is_no_url_is_said(text: str, words: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_url(text)
    assert words in str(caught.value)
    assert caught.value.code is Exit.WRONG_USE


async def test_cancelling_keeps_what_came() -> None:
    async def slow(talk: Talk) -> None:
        await talk.begin(200, {"content-length": "1024", "etag": '"a"'}, False)
        for at in range(0, 1024, 100):
            await talk.send(DATA[at : at + 100])
            await anyio.sleep(1)

    sink = Memory()
    async with Web({"a": slow}) as web:
        with anyio.move_on_after(2.5):
            await fetch(web, sink)
        await web.settle()
    assert sink.data == DATA[:300]
    assert sink.have.can_go_on


async def test_a_route_that_falls_silent_in_a_censored_network_is_left_for_another() -> None:
    """The lab's own network and TLS: one address goes dark in the middle, its mirror has the rest."""
    asked: list[bytes] = []

    async def site(stream: anyio.abc.ByteStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive()
        asked.append(head)
        start = 400 if b"range: bytes=400-" in head.lower() else 0
        status, more = b"200 OK", b""
        if start:
            status, more = b"206 Partial Content", b"Content-Range: bytes 400-1023/1024\r\n"
        await stream.send(
            b'HTTP/1.1 %b\r\nETag: "a"\r\n%bContent-Length: %d\r\n\r\n'
            % (status, more, 1024 - start)
        )
        await stream.send(DATA[start:] if start else DATA[:400])
        if not start:
            await anyio.sleep_forever()

    network = lab.Network(seed=1)
    async with network:
        await network.add_site(
            "origin.example", "192.0.2.7", "198.51.100.7", authority=authority(), handler=site
        )
        ways = [
            Entrant(
                Direct(hosts={"origin.example": [address]}, dial_tcp=network.dial_tcp),
                name=name,
                start_delay=delay,
            )
            for name, address, delay in (("a", "192.0.2.7", 0.0), ("b", "198.51.100.7", 1.0))
        ]
        sink, notes = Memory(), Notes()
        context = authority().client_context()
        async with (
            Dialer(ways) as dialer,
            AsyncClient(dialer, ssl_context=context, http2=False) as client,
        ):
            url = parse_url("https://origin.example/file")
            await Download(client, url, sink, view=notes).run()
    assert sink.data == DATA
    assert notes.begun == [(0, "a"), (400, "b")]
    assert b'if-range: "a"' in asked[1].lower()
