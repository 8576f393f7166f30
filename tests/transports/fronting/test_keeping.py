"""What outlives a request: newer lists, fetched from several places at once, and the fronts that worked."""

from __future__ import annotations

import gzip
import http.server
import json
import logging
import ssl
import stat
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme

from racer.abc import Origin, Target
from racer.errors import ConfigError, NetworkError
from racer.testing import LocalHost
from tests.transports.fronting.cdn import ORIGIN, Network, hidden
from transports.fronting import Fronting, _updates
from transports.fronting._updates import UpdateURL, first_usable, read_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LISTS = "lists.example.com"


class Lists(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, data = self.server.files.get(self.path, (404, b"no"))
        self.send_response(status)
        if data is None:  # without end
            self.end_headers()
            self.close_connection = True
            try:
                while True:
                    self.wfile.write(bytes(1 << 20))
            except OSError:
                return
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def lists(**files: tuple[int, bytes | None]) -> Iterator[Any]:
    """Serve files with TLS under `localhost`; yields the server, with a client's context."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    server.daemon_threads, server.block_on_close = True, False
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.files = {f"/{name}": file for name, file in files.items()}
    server.asked = []
    server.trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(server.trust)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def urls(server: Any, *names: str) -> list[str]:
    return [f"https://localhost:{server.server_address[1]}/{name}" for name in names]


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def newer(cdn: Network) -> bytes:
    """Return a list that serves one host more."""
    document = cdn.document("good", "plain")
    for name, one in document["providers"].items():
        one["hostaliases"]["new.example.com"] = hidden(name)
    return gzip.compress(json.dumps(document).encode())


NEW = Target("new.example.com")


@pytest.mark.parametrize(
    "broken",
    [(404, b"no"), (200, b"torn: ["), (200, b"{}"), (200, None), (500, b""), (200, b"\x1f\x8b\x08torn")],
)  # fmt: skip
async def test_the_first_usable_list_wins(
    cdn: Network, tmp_path: Path, broken: tuple[int, bytes | None]
) -> None:
    good = newer(cdn)
    with lists(first=broken, second=(200, good)) as server:
        transport = Fronting(
            cdn.fronts("good"),
            state_dir=tmp_path / "state",
            update_urls=["", *urls(server, "first", "second")],
            update_tls=server.trust,
        )
        assert transport.serves(NEW) is not None
        await transport.update()
        assert transport.serves(NEW) is None
    kept = tmp_path / "state" / "fronts.yaml.gz"
    assert kept.read_bytes() == good  # in the very octets it came in
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # From now on it is preferred to the one that the program brings.
    async with LocalHost() as host:
        later = Fronting(cdn.fronts("good"), state_dir=tmp_path / "state")
        await later.start(host)
        assert later.serves(NEW) is None
        await later.aclose()


async def test_when_no_list_can_be_had_all_stays_as_it_was(cdn: Network, tmp_path: Path) -> None:
    with lists(torn=(200, b"torn: [")) as server:
        transport = Fronting(
            cdn.fronts("good"),
            state_dir=tmp_path,
            update_urls=urls(server, "torn", "absent"),
            update_tls=server.trust,
        )
        with pytest.raises(NetworkError, match="no list of fronts could be had") as caught:
            await transport.update()
    text = str(caught.value)
    assert "not YAML" in text
    assert "answered with 404" in text
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert transport.serves(Target(ORIGIN)) is None
    assert names_in(tmp_path) == []


async def test_a_bad_authority_leaves_the_old_list_whole(cdn: Network) -> None:
    """X11: nothing of a list is applied unless all of it is."""
    document = json.loads(gzip.decompress(newer(cdn)))
    document["trustedcas"].append({"commonname": "bad", "cert": "junk"})
    with lists(bad=(200, json.dumps(document).encode())) as server:
        transport = Fronting(
            cdn.fronts("good"), update_urls=urls(server, "bad"), update_tls=server.trust
        )
        with pytest.raises(NetworkError, match=r"trustedcas\[1\]"):
            await transport.update()
    assert transport.serves(NEW) is not None
    async with LocalHost() as host:
        await transport.start(host)
        await (await transport.prepare(Origin("https", ORIGIN, 443))).aclose()
        await transport.aclose()


async def test_a_list_comes_through_a_front_where_its_own_host_is_blocked(cdn: Network) -> None:
    aliases = {ORIGIN: hidden("good"), LISTS: hidden("good")}
    transport = Fronting(
        cdn.fronts("good", hostaliases=aliases), update_urls=[f"https://{LISTS}/list"]
    )

    class Blocked:
        async def connect(self, host: str, port: int, progress: Any) -> Any:
            if host == LISTS:
                raise ConnectionResetError
            return await anyio.connect_tcp(host, port)

    transport._connector = Blocked()  # type: ignore[assignment]
    with pytest.raises(NetworkError, match=r"not one front|a mapping|not YAML"):
        await transport.update()  # the origin answers with its own words, which are no list
    assert [path for _, path, *_ in cdn.origin.asked] == ["/list"]


async def test_a_running_transport_updates_itself(cdn: Network, tmp_path: Path) -> None:
    with lists(list=(200, newer(cdn))) as server:
        async with LocalHost() as host:
            transport = Fronting(
                cdn.fronts("good"),
                state_dir=tmp_path,
                update_urls=urls(server, "list"),
                update_tls=server.trust,
            )
            await transport.start(host)
            with anyio.fail_after(30):
                while "fronts.yaml.gz" not in names_in(tmp_path):  # noqa: ASYNC110 - a file tells nobody
                    await anyio.sleep(0.005)
            assert transport.serves(NEW) is None
            await transport.aclose()
        assert host.errors == []


@pytest.mark.parametrize("content", [b"torn: [", b"", b"\x1f\x8b\x08\x00", bytes(9_000_000)])
async def test_a_kept_list_that_is_torn_counts_for_nothing(
    cdn: Network, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "fronts.yaml.gz").write_bytes(content)
    (tmp_path / "fronts.json").write_bytes(content)
    async with LocalHost() as host:
        transport = Fronting(cdn.fronts("good"), state_dir=tmp_path)
        with caplog.at_level(logging.WARNING, "racer.fronting"):
            await transport.start(host)
        await (await transport.prepare(Origin("https", ORIGIN, 443))).aclose()
        await transport.aclose()
    assert "cannot be" in caplog.text


async def test_both_lists_bad_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "fronts.yaml.gz").write_bytes(b"torn: [")
    (tmp_path / "seed").write_bytes(b"torn as well: [")
    async with LocalHost() as host:
        transport = Fronting(tmp_path / "seed", state_dir=tmp_path)
        with pytest.raises(ConfigError, match=r"fronts: line \d: not YAML"):
            await transport.start(host)


async def test_fronts_that_worked_are_remembered(cdn: Network, tmp_path: Path) -> None:
    fronts = cdn.fronts("good", edges=3)
    async with LocalHost() as host:
        transport = Fronting(fronts, state_dir=tmp_path)
        await transport.start(host)
        route = await transport.prepare(Origin("https", ORIGIN, 443))
        await route.aclose()
        await transport.aclose()
    file = tmp_path / "fronts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    known = {entry["address"] for entry in json.loads(file.read_bytes())["fronts"]}
    assert known
    async with LocalHost() as host:
        later = Fronting(fronts, state_dir=tmp_path)
        await later.start(host)
        assert later._pool is not None
        choice = later._pool.choose(ORIGIN, anyio.current_time())
        assert choice is not None
        assert choice.front.key[2] in known
        await later.aclose()


async def test_a_folder_that_cannot_be_written_is_a_warning(
    cdn: Network, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    async with LocalHost() as host:
        transport = Fronting(cdn.fronts("good"), state_dir=tmp_path / "file" / "below")
        await transport.start(host)
        with caplog.at_level(logging.WARNING, "racer.fronting"):
            await transport.aclose()
    assert "cannot be written, and the old one stands" in caplog.text


@pytest.mark.virtual_time
async def test_an_update_takes_no_longer_than_twenty_seconds() -> None:
    async def hangs() -> bytes:
        await anyio.sleep(1000)
        return b""

    async def fails() -> bytes:
        raise NetworkError("no way")

    async def read(data: bytes) -> bytes:
        return data

    with pytest.raises(NetworkError, match="no way"):
        await first_usable([hangs, fails], read)
    assert anyio.current_time() == _updates.UPDATE_TIMEOUT
    with pytest.raises(NetworkError, match="nobody answered"):
        await first_usable([], read)


@pytest.mark.virtual_time
async def test_the_first_list_ends_the_race() -> None:
    async def gives(after: float, data: bytes) -> bytes:
        await anyio.sleep(after)
        return data

    async def read(data: bytes) -> bytes:
        if data == b"bad":
            raise ConfigError("bad")
        return data

    fetches = [lambda: gives(3, b"late"), lambda: gives(1, b"bad"), lambda: gives(2, b"good")]
    assert await first_usable(fetches, read) == b"good"
    assert anyio.current_time() == 2


def test_urls_of_lists() -> None:
    url = read_url("https://lists.example.com/a?b=secret")
    assert (url.host, url.port, url.target) == (LISTS, 443, "/a?b=secret")
    assert "secret" not in repr(url)
    assert read_url("https://lists.example.com:8443").authority == "lists.example.com:8443"
    assert isinstance(url, UpdateURL)
    for wrong in ("http://a.example/", "https:///x", "https://a.example:99999/", "https://[x/", "a", 5, "https://a.example/\r\n"):  # fmt: skip
        with pytest.raises(ConfigError, match="update_urls"):
            read_url(wrong)
