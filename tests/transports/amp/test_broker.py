"""The broker against whoever asks: what it serves, performs once, bounds, and refuses."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer.errors import ConfigError
from tests.transports.amp.keys import PRIVATE, PRIVATE_PEM, PUBLIC
from tests.transports.fronting.cdn import Origin, free_port, origin_server
from transports.amp import Amp, AmpBroker, public_key_of
from transports.amp import __main__ as program
from transports.amp._allow import AllowList
from transports.amp._armor import unarmor
from transports.amp._crypto import open_answer, seal_request
from transports.amp._ledger import KEPT_FOR, Ledger, digest_of
from transports.amp._messages import InnerRequest, InnerResponse
from transports.amp._urls import BUSTER, encode_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

KEY, NONCE = bytes(range(32)), bytes(12)


def path_of(inner: InnerRequest, *, nonce: bytes = NONCE) -> str:
    payload = seal_request(inner.to_json(), PUBLIC, key=KEY, nonce=nonce)
    return "/amp/client/" + encode_path(payload, os.urandom(BUSTER))


def answer_in(page: bytes) -> InnerResponse:
    return InnerResponse.from_json(open_answer(unarmor(page), key=KEY, nonce=NONCE))


@pytest.fixture(scope="module")
def running_origin() -> Iterator[Origin]:
    with origin_server() as origin:
        yield origin


@pytest.fixture
def origin(running_origin: Origin) -> Origin:
    running_origin.asked.clear()
    return running_origin


@pytest.fixture
async def broker(origin: Origin, anyio_backend: Any) -> AsyncIterator[AmpBroker]:
    async with AmpBroker(key=PRIVATE, allow=[f"http://127.0.0.1:{origin.port}"]) as running:
        yield running


async def raw(broker: AmpBroker, data: bytes) -> bytes:
    """Return all that the broker answers to some octets."""
    async with await anyio.connect_tcp(*broker.address) as stream:
        await stream.send(data)
        await stream.send_eof()
        answer = b""
        async for chunk in stream:
            answer += chunk
        return answer


async def get(broker: AmpBroker, path: str, method: str = "GET") -> tuple[int, bytes, str]:
    head = f"{method} {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"
    answer = await raw(broker, head.encode("latin-1"))
    top, _, body = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), body, top.decode().lower()


async def test_a_page_is_html_that_is_fresh_for_a_while(broker: AmpBroker, origin: Origin) -> None:
    request = InnerRequest(method="POST", url=f"http://127.0.0.1:{origin.port}/x", body=b"hi")
    status, page, head = await get(broker, path_of(request))
    assert status == 200
    assert "content-type: text/html" in head
    assert "cache-control: max-age=15" in head
    answer = answer_in(page)
    assert (answer.status, answer.body) == (200, b"POST hi")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 404),
        ("/amp/other", "GET", 404),
        ("/amp/client/", "GET", 400),
        ("/amp/client/0x/YQ", "GET", 400),
        ("/amp/client/1x/YQ", "GET", 400),
        ("/amp/client/0x/!!", "GET", 400),
        ("/amp/client/0x/YQ", "POST", 405),
        ("/\xe9", "GET", 400),
    ],
)
async def test_what_is_no_page(broker: AmpBroker, path: str, method: str, status: int) -> None:
    assert (await get(broker, path, method))[0] == status


@pytest.mark.parametrize(
    "data",
    [b"", b"\r\n", b"SSH-2.0-x\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /" + b"a" * 60_000, b"\x16\x03\x01\x00\x00",
     b"POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 9999\r\n\r\n" + bytes(9999)],
)  # fmt: skip
async def test_what_is_no_request_ends_its_own_connection_alone(
    broker: AmpBroker, data: bytes
) -> None:
    answer = await raw(broker, data)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert (await get(broker, "/"))[0] == 404


async def test_a_page_is_performed_once_and_kept_for_who_asks_again(
    broker: AmpBroker, origin: Origin
) -> None:
    request = InnerRequest(method="POST", url=f"http://127.0.0.1:{origin.port}/x", body=b"hi")
    path = path_of(request)
    buster, _, payload = path.rpartition("/")
    pages: list[bytes] = []

    async def fetch(one: str) -> None:
        status, page, _ = await get(broker, one)
        assert status == 200
        pages.append(page)

    async with anyio.create_task_group() as group:
        for number in range(4):  # at once, and under paths that differ in what means nothing
            group.start_soon(fetch, f"{buster}{number}/{payload}")
    await fetch(path)
    assert len(set(pages)) == 1
    assert len(origin.asked) == 1
    assert broker.status()["known"] == 1
    # Long after, it is neither answered nor performed again.
    broker._ledger._let_go(anyio.current_time() + KEPT_FOR)
    assert broker.status()["kept_bytes"] == 0
    assert (await get(broker, path))[0] == 410
    assert len(origin.asked) == 1


async def test_a_cache_that_hangs_up_comes_back_for_the_answer(
    broker: AmpBroker, origin: Origin
) -> None:
    path = path_of(InnerRequest(method="POST", url=f"http://127.0.0.1:{origin.port}/x"))
    stream = await anyio.connect_tcp(*broker.address)
    await stream.send(f"GET {path} HTTP/1.1\r\nHost: b\r\n\r\n".encode())
    with anyio.fail_after(20):
        while not broker.status()["known"]:
            await anyio.lowlevel.checkpoint()
    await anyio.aclose_forcefully(stream)
    assert (await get(broker, path))[0] == 200
    assert len(origin.asked) == 1


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("http://127.0.0.1:{other}/", 403, b"not on its list"),
        ("https://127.0.0.1:{port}/", 403, b"not on its list"),
        ("http://localhost:{port}/", 403, b"not on its list"),
        ("http://127.0.0.1:{port}@evil.example/", 403, b"cannot be asked for"),
        ("file:///etc/passwd", 403, b"cannot be asked for"),
        ("http://[x/", 403, b"cannot be asked for"),
        ("//127.0.0.1:{port}/", 403, b"cannot be asked for"),
        ("http://127.0.0.1:99999/", 403, b"cannot be asked for"),
    ],
)
async def test_what_is_not_on_the_list(
    broker: AmpBroker, origin: Origin, url: str, status: int, words: bytes
) -> None:
    asked = url.format(port=origin.port, other=free_port())
    _, page, _ = await get(broker, path_of(InnerRequest(method="GET", url=asked)))
    answer = answer_in(page)
    assert answer.status == status
    assert words in dict(answer.fields)[b"x-amp-broker"]
    assert origin.asked == []


async def test_an_origins_error_is_its_own(broker: AmpBroker, origin: Origin) -> None:
    url = f"http://127.0.0.1:{origin.port}/marked/503"
    _, page, _ = await get(broker, path_of(InnerRequest(method="GET", url=url)))
    answer = answer_in(page)
    assert answer.status == 503
    assert b"x-amp-broker" not in dict(answer.fields)


async def test_an_origin_that_takes_too_long(origin: Origin) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as mute:
        port = mute.extra(anyio.abc.SocketAttribute.local_port)
        allow = [f"http://127.0.0.1:{port}"]
        async with AmpBroker(key=PRIVATE, allow=allow, timeout=0.01) as broker:
            path = path_of(InnerRequest(method="GET", url=f"http://127.0.0.1:{port}/"))
            answer = answer_in((await get(broker, path))[1])
    assert answer.status == 504
    assert b"within 0.01 s" in answer.body


async def test_a_broker_that_has_too_much_to_do(broker: AmpBroker, origin: Origin) -> None:
    broker._requests = 1000
    path = path_of(InnerRequest(method="GET", url=f"http://127.0.0.1:{origin.port}/"))
    assert (await get(broker, path))[0] == 503
    broker._requests = 0
    assert (await get(broker, path))[0] == 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "junk"}, "private key"),
        ({"allow": []}, "1 to 1000"),
        ({"allow": "https://x.example"}, "a list of origins"),
        ({"timeout": 0}, "timeout"),
        ({"max_response": 0}, "max_response"),
        ({"max_response": 1 << 30}, "max_response"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    given = {"key": PRIVATE, "allow": ["https://x.example"], **options}
    with pytest.raises(ConfigError, match=words):
        AmpBroker(**given)


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port", "allowed"),
    [
        ("https://api.example.com", "https", "API.example.com.", 443, True),
        ("https://api.example.com", "http", "api.example.com", 80, False),
        ("https://api.example.com", "https", "api.example.com", 8443, False),
        ("https://api.example.com", "https", "x.api.example.com", 443, False),
        ("https://*.example.com:8443/", "https", "a.b.example.com", 8443, True),
        ("https://*.example.com", "https", "example.com", 443, False),
        ("https://*.example.com", "https", "evilexample.com", 443, False),
        ("https://*.example.com", "https", ".example.com", 443, False),
        ("http://[::1]:8080", "http", "::1", 8080, True),
        ("http://127.0.0.1", "http", "127.0.0.1", 80, True),
    ],
)
def test_which_origins_are_allowed(
    entry: str, scheme: str, host: str, port: int, allowed: bool
) -> None:
    assert AllowList([entry]).allows(scheme, host, port) == allowed


@pytest.mark.parametrize(
    "entry",
    ["", "example.com", "*", "https://*", "https://*.*.example", "https://u@x.example", "https://x.example/path", "https://x.example?q",
     "https://x.example:0", "https://x.example:99999", "ftp://x.example", "https://a b", None, 5],
)  # fmt: skip
def test_what_is_no_origin(entry: Any) -> None:
    with pytest.raises(ConfigError, match="is no origin such as"):
        AllowList([entry])


def test_the_ledger_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transports.amp._ledger.KNOWN_MOST", 3)
    monkeypatch.setattr("transports.amp._ledger.KEPT_MOST", 25)
    ledger = Ledger()
    for number in range(5):
        digest = digest_of(bytes([number]))
        assert ledger.find(digest, 0.0) is None
        ledger.take_on(digest)
        ledger.finish(digest, bytes(10), 0.0)
    assert len(ledger) == 3
    assert ledger.octets == 20
    newest = ledger.find(digest_of(b"\x04"), KEPT_FOR - 1)
    assert newest is not None
    assert newest.page == bytes(10)
    ledger.find(digest_of(b"\x04"), KEPT_FOR)
    assert newest.page is None
    assert newest.is_done
    ledger.finish(digest_of(b"\x00"), b"late", 0.0)  # forgotten meanwhile
    assert ledger.octets == 0


def test_the_program_makes_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broker.pem"
    assert program.main(["keygen", str(file)]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    public = capsys.readouterr().out
    assert public == public_key_of(file.read_bytes())
    Amp("https://broker.example.com", public)
    assert program.main(["keygen", str(file)]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert program.main(["broker", "--key", str(tmp_path / "absent"), "--allow", "https://x.example"]) == 2  # fmt: skip
    assert program.main(["broker", "--key", str(file), "--allow", "x"]) == 2
    assert "no origin" in capsys.readouterr().err


def test_the_program_serves_until_it_is_told_to_end(tmp_path: Path, origin: Origin) -> None:
    file = tmp_path / "broker.pem"
    file.write_text(PRIVATE_PEM)
    command = [sys.executable, "-m", "transports.amp", "broker", "--key", str(file), "--listen", f"127.0.0.1:{free_port()}",
               "--allow", f"http://127.0.0.1:{origin.port}"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        path = path_of(InnerRequest(method="GET", url=f"http://127.0.0.1:{origin.port}/"))
        page = httpx.get(f"http://{address}{path}", timeout=30)
        assert answer_in(page.content).body == b"GET "
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
