"""curl, pip and a browser through the proxy, to sites whose names nobody else can look up."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from racer import lab
from tests.racer.proxy.programs import binary, wheel, world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.racer.proxy.programs import World

pytestmark = pytest.mark.timeout(120)

PAGE = b"<html><head><title>News</title></head><body><p id=told>all the news</p></body></html>"
USERS = {"alice": "s3cret:with%signs"}


@pytest.fixture
def curl() -> str:
    return binary("curl", "curl")


async def get(it: World, curl: str, home: Path, *options: str) -> tuple[int, str, str]:
    """Return curl's exit code, what it got, and what it complained of."""
    (home / "ca.pem").write_bytes(it.authority)
    done = await it.run(curl, "-sS", "--max-time", "30", "--cacert", "ca.pem", *options, home=home)
    return done.returncode, done.stdout, done.stderr


async def test_curl_gets_there_by_every_scheme_it_knows(curl: str, tmp_path: Path) -> None:
    async with world({"/": PAGE}, admin=True) as it:
        for scheme in ("socks5h", "http"):
            for url in ("https://news.example/", "http://news.example/"):
                assert await get(it, curl, tmp_path, "-x", f"{scheme}://{it.place}", url) == (
                    0,
                    PAGE.decode(),
                    "",
                )
        assert {asked.name for asked in it.zone.asked} == {"news.example"}
        # Two requests in one run take one connection to the proxy, and one to the site.
        urls = ["http://news.example/"] * 2
        code, got, _ = await get(it, curl, tmp_path, "-x", f"http://{it.place}", *urls)
        assert (code, got) == (0, PAGE.decode() * 2)
        assert dict(it.proxy.status().requests) == {
            ("socks5", "connected"): 2,
            ("http_connect", "connected"): 1,
            ("http", "connected"): 3,
        }
        assert it.proxy.status().accepted == 5
        assert await get(it, curl, tmp_path, f"http://{it.place}/readyz") == (0, "ready\n", "")
        assert it.failures == []


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
async def test_curl_gets_past_a_censor_that_reads_its_hello(
    curl: str, tmp_path: Path, scheme: str
) -> None:
    async with world({"/": PAGE}, censor=[lab.ResetOnName(names=("news.*",))]) as it:
        got = await get(it, curl, tmp_path, "-x", f"{scheme}://{it.place}", "https://news.example/")
        assert got == (0, PAGE.decode(), "")
        attempts = it.proxy.status().attempts
        assert attempts["direct", "connected"] == attempts["tunnel", "connected"] == 1
        assert it.failures == []


async def test_curl_is_told_why_it_gets_nothing(curl: str, tmp_path: Path) -> None:
    async with world({}) as it:
        code, _, words = await get(
            it, curl, tmp_path, "-x", f"socks5h://{it.place}", "https://nowhere.example/"
        )
        assert (code, "(4)" in words) == (97, True)
        code, _, words = await get(
            it, curl, tmp_path, "-x", f"http://{it.place}", "https://nowhere.example/"
        )
        assert (code, "502" in words) == (56, True)
        code, told, _ = await get(
            it, curl, tmp_path, "-x", f"http://{it.place}", "http://nowhere.example/"
        )
        assert code == 0
        assert told.startswith("racer: could not connect to nowhere.example:80:\n  direct: ")
        code, _, words = await get(
            it, curl, tmp_path, "-x", f"socks4a://{it.place}", "http://news.example/"
        )
        assert (code, "SOCKS4" in words) == (97, True)
        code, _, words = await get(
            it, curl, tmp_path, "-x", f"https://{it.place}", "http://news.example/"
        )
        assert (code, "wrong version number" in words) == (35, True)
        assert len(it.failures) == 5


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
async def test_curl_says_who_it_is(curl: str, tmp_path: Path, scheme: str) -> None:
    async with world({"/": PAGE}, users=USERS) as it:
        through = ("-x", f"{scheme}://{it.place}")
        for url in ("https://news.example/", "http://news.example/"):
            right = await get(
                it, curl, tmp_path, *through, "--proxy-user", "alice:s3cret:with%signs", url
            )
            assert right == (0, PAGE.decode(), "")
            for wrong in (["--proxy-user", "alice:wrong"], ["--proxy-user", "bob:s3cret"], []):
                code, got, _ = await get(it, curl, tmp_path, *through, *wrong, "-f", url)
                assert code in {97, 56, 22}
                assert got == ""
        assert it.proxy.status().requests["socks5" if scheme == "socks5h" else "http", "denied"] > 0
        assert not any("s3cret" in failure.words for failure in it.failures)


def run_pip(folder: Path, backend: str) -> None:
    async def story() -> None:
        pages = {
            "/simple/tiny/": b'<a href="/files/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>',
            "/files/tiny-1.0-py3-none-any.whl": wheel("tiny"),
        }
        async with world(pages) as it:
            (folder / "ca.pem").write_bytes(it.authority)
            done = await it.run(
                *(sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps"),
                *("--disable-pip-version-check", "--isolated", "--cert", "ca.pem"),
                *("--index-url", "https://index.example/simple", "--proxy", f"http://{it.place}"),
                *("--dest", "got", "tiny"),
                home=folder,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            got = folder / "got" / "tiny-1.0-py3-none-any.whl"
            assert got.read_bytes() == pages["/files/tiny-1.0-py3-none-any.whl"]
            assert it.proxy.status().requests["http_connect", "connected"] >= 1
            assert it.failures == []

    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed in this environment")
    anyio.run(story, backend=backend)


# pip speaks SOCKS only where PySocks is installed; its HTTP proxies need nothing.
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.soak)])
def test_pip_downloads_a_wheel(tmp_path: Path, backend: str) -> None:
    run_pip(tmp_path, backend)


@pytest.mark.parametrize(
    ("scheme", "backend"),
    [
        ("socks5", "asyncio"),
        pytest.param("http", "asyncio", marks=pytest.mark.soak),
        pytest.param("socks5", "trio", marks=pytest.mark.soak),
        pytest.param("http", "trio", marks=pytest.mark.soak),
    ],
)
def test_a_browser_shows_a_page(tmp_path: Path, scheme: str, backend: str) -> None:
    chromium = binary("chromium", "chromium")

    async def story() -> None:
        async with world({"/": PAGE}) as it:
            for url in ("https://news.example/", "http://news.example/")[
                : 1 if backend == "asyncio" else 2
            ]:
                done = await it.run(
                    chromium,
                    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
                    f"--user-data-dir={tmp_path / 'profile'}",
                    f"--proxy-server={scheme}://{it.place}",
                    f"--ignore-certificate-errors-spki-list={it.key_hash}",
                    *("--dump-dom", url),
                    home=tmp_path,
                )
                assert "all the news" in done.stdout, done.stdout + done.stderr
            # Its name was looked up behind the proxy, where alone it has an address.
            assert "news.example" in {asked.name for asked in it.zone.asked}

    anyio.run(story, backend=backend)
