"""A program that reads its configuration anew: what changes, what takes a new start, and what changes nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from racer import config
from racer.abc import Target
from racer.errors import ConfigError, DialerClosed
from tests.racer import plugins
from tests.racer.plugins import install

if TYPE_CHECKING:
    from pathlib import Path

    import racer
    from racer.abc import Guest

HOST = "192.0.2.1:80"
DIRECT = '[[entrant]]\ntransport = "direct"\n'
SOAR = '[[entrant]]\ntransport = "soar"\noptions.after = 0.0\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch, "direct", "soar")
    path = tmp_path / "racer.toml"
    write(path, DIRECT + SOAR)
    return path


def write(file: Path, text: str | None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    if text is not None:
        file.write_text(text)


async def read(file: Path | None) -> config.Configuration:
    """Read in a thread: on the loop it would be a blocking call."""
    return await anyio.to_thread.run_sync(config.read, file)


def guests_of(dialer: racer.Dialer) -> dict[str, Guest]:
    return dialer.eligible(Target.parse(HOST))


def texts_of(error: BaseException | None) -> str:
    return (
        "" if error is None else f"{error}{texts_of(error.__cause__)}{texts_of(error.__context__)}"
    )


async def test_what_the_file_says_now_holds_for_the_next_dial(file: Path) -> None:
    before = await read(file)
    async with before.dialer() as dialer:
        old = guests_of(dialer)
        conn = await dialer.dial(HOST)
        write(file, f"timeout = 5\n{SOAR}name = 'new'\n{DIRECT}\n[proxy]\nlisten = '127.0.0.1:1'")
        after = await config.reload(dialer, before)
        new = guests_of(dialer)
        assert list(new) == ["new", "direct"]
        assert new["direct"] is old["direct"]
        assert (after.timeout, after.proxy.port, after.file) == (5, 1, file)
        assert dialer.status().generation == 2
        await conn.send(b"still there")
        await conn.aclose()
        async with await dialer.dial(HOST) as conn:
            assert conn.report.timeout == 5
        assert len(plugins.made) == 4  # each reading makes all of them, and a reload nothing more


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SOAR}{DIRECT}tier = -1", "racer.toml:6: entrant 2 'direct': tier"),
        ("timeout = ", "racer.toml:1: not TOML"),
        ("", "entrant: at least one"),
        (f"redact = true\n{SOAR}", "racer.toml: redact cannot change while a dialer lives"),
        (
            f"{SOAR}[memory]\nenabled = true",
            "racer.toml: memory: cannot change while the program runs",
        ),
        (None, "racer.toml: cannot be read: No such file"),
    ],
)
async def test_what_is_wrong_changes_nothing(file: Path, text: str | None, words: str) -> None:
    before = await read(file)
    async with before.dialer() as dialer:
        old = guests_of(dialer)
        write(file, text)
        with pytest.raises(ConfigError, match=words):
            await config.reload(dialer, before)
        assert guests_of(dialer) == old
        assert dialer.status().generation == 1


async def test_a_reload_that_is_cancelled_changes_nothing(file: Path) -> None:
    before = await read(file)
    async with before.dialer() as dialer:
        write(file, SOAR)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await config.reload(dialer, before)
        assert list(guests_of(dialer)) == ["direct", "soar"]


async def test_a_dialer_that_has_ended(file: Path) -> None:
    before = await read(file)
    async with before.dialer() as dialer:
        pass
    with pytest.raises(DialerClosed):
        await config.reload(dialer, before)


async def test_a_secret_that_changed_exchanges_the_guest_and_is_shown_nowhere(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "first-secret")
    write(file, f"{DIRECT}options.ports = '${{SECRET}}'")
    before = await read(file)
    async with before.dialer() as dialer:
        old = guests_of(dialer)["direct"]
        same = await config.reload(dialer, before)
        assert guests_of(dialer)["direct"] is old
        monkeypatch.setenv("SECRET", "second-secret")
        after = await config.reload(dialer, same)
        assert guests_of(dialer)["direct"] is not old
        write(file, f"{DIRECT}options.ports = '${{SECRET}}'\noptions.x = 1")
        with pytest.raises(ConfigError) as caught:
            await config.reload(dialer, after)
    assert "-secret" not in f"{texts_of(caught.value)}{before!r}{after!r}"


async def test_a_configuration_that_came_later_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "direct", "soar")
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    before = await read(None)
    async with before.dialer() as dialer:
        path = config.default_path()
        write(path, SOAR)
        after = await config.reload(dialer, before)
        assert (list(guests_of(dialer)), after.file) == (["soar"], path)
