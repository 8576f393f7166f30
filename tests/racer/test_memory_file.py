"""The file of a memory: whose it must be, what it may hold, and that no process spoils another's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer import Dialer, Memory, _memory_file
from racer._memory_file import MAX_BYTES, Stored, Unusable, digest, locked, read, write
from racer._memory_table import Key, Record
from racer.testing import ScriptedTransport, wins
from tests.racer.scene import Scene

if TYPE_CHECKING:
    from racer.testing import MemoryStream

NOW = 1_800_000_000.0
SALT = bytes(range(16))
HASH = "0123456789abcdef" * 2
ROW = [HASH, HASH, "soar", NOW, None, 0.0, NOW]
GOOD: dict[str, Any] = {"version": 1, "salt": SALT.hex(), "records": [ROW]}

posix = pytest.mark.skipif(sys.platform == "win32", reason="rights are the folder's there")


def at(folder: Path, data: object = GOOD, *, mode: int = 0o600) -> Path:
    path = folder / "memory.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    path.chmod(mode)
    return path


def here(path: Path, **options: Any) -> Memory:
    return Memory(path, tell_network=lambda: "home", clock=lambda: NOW, **options)


async def greet(stream: MemoryStream) -> None:
    await stream.send(b"!")


async def teach(memory: Memory, name: str, *hosts: str) -> None:
    """Have an entrant win races, and the dialer end."""
    async with Scene(ScriptedTransport(name, wins(), serve=greet), memory=memory) as scene:
        for host in hosts:
            async with await scene.dial(host) as connection:
                await connection.receive(1)


async def in_file(path: Path) -> list[Record]:
    return list((await anyio.to_thread.run_sync(read, path)).records.values())


async def recalled(memory: Memory, host: str = "example.com") -> list[str]:
    await memory.ready()
    async with Scene(ScriptedTransport("soar"), memory=memory) as scene:
        async with await scene.dial(host):
            pass
        (span,) = scene.spans.named("racer.dial")
    assert span.attributes is not None
    return [str(span.attributes["racer.memory"])]


# --- from run to run ------------------------------------------------------------------------------


async def test_what_one_run_learned_the_next_one_knows(tmp_path: Path) -> None:
    path = tmp_path / "state" / "racer" / "memory.json"
    await teach(here(path), "soar", "example.com")
    assert await recalled(here(path)) == ["soar"]
    assert await recalled(here(path), "example.net") == ["none"]


@posix
async def test_it_is_its_owner_s_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state" / "racer" / "memory.json"
    await teach(here(path), "soar", "example.com")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(one.name for one in path.parent.iterdir()) == [".memory.json.lock", "memory.json"]


async def test_it_is_no_history_of_what_was_visited(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    await teach(here(path), "soar", "secret.example.com")
    text = path.read_text()
    assert "secret" not in text
    assert "home" not in text
    assert digest("secret.example.com:80 raw", b"") not in text  # not without the salt
    other = tmp_path / "other.json"
    await teach(here(other), "soar", "secret.example.com")
    hosts = {json.loads(one.read_text())["records"][0][1] for one in (path, other)}
    assert len(hosts) == 2


async def test_a_repeated_win_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.json"
    memory = here(path)
    await teach(memory, "soar", "example.com")
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(_memory_file, "write", lambda *_: pytest.fail("written again"))
    await teach(memory, "soar", "example.com")
    assert path.stat().st_mtime_ns == before


async def test_forgetting_takes_the_file_along(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    memory = here(path)
    await teach(memory, "soar", "example.com")
    await memory.forget()
    assert not path.exists()
    assert len(memory) == 0
    assert await recalled(memory) == ["none"]


# --- what is not believed -------------------------------------------------------------------------

DAMAGED: dict[str, object] = {
    "empty": b"",
    "no JSON": b"{",
    "cut short": json.dumps(GOOD).encode()[:-10],
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a list": [],
    "no version": {"salt": SALT.hex(), "records": []},
    "an old version": GOOD | {"version": 0},
    "a version in words": GOOD | {"version": "1"},
    "a true version": GOOD | {"version": True},
    "one key more": GOOD | {"more": 1},
    "a short salt": GOOD | {"salt": "00"},
    "a salt that is none": GOOD | {"salt": "zz" * 16},
    "no list": GOOD | {"records": {}},
    "a row of six": GOOD | {"records": [ROW[:6]]},
    "a row that is none": GOOD | {"records": [7]},
    "a short hash": GOOD | {"records": [["00", *ROW[1:]]]},
    "no name": GOOD | {"records": [[HASH, HASH, "", *ROW[3:]]]},
    "a long name": GOOD | {"records": [[HASH, HASH, "x" * 101, *ROW[3:]]]},
    "no number": GOOD | {"records": [[*ROW[:6], None]]},
    "NaN": json.dumps(GOOD | {"records": [[*ROW[:6], float("nan")]]}).encode(),
    "infinity": json.dumps(GOOD | {"records": [[*ROW[:6], float("inf")]]}).encode(),
    "a huge number": json.dumps(GOOD | {"records": [[*ROW[:6], 10**400]]}).encode(),
    "a negative number": GOOD | {"records": [[*ROW[:5], -1, NOW]]},
    "too large": b" " * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("damage", DAMAGED)
async def test_a_damaged_file_counts_as_empty_is_said_once_and_replaced(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = at(tmp_path, DAMAGED[damage])
    memory = here(path)
    assert await recalled(memory) == ["none"]
    await teach(memory, "soar", "example.com")
    assert caplog.text.count("the file of the memory counts as empty, and will be replaced") == 1
    assert await recalled(here(path)) == ["soar"]


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
async def test_a_file_that_others_may_use_counts_as_empty(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = at(tmp_path, mode=mode)
    memory = here(path)
    await memory.ready()
    assert len(memory) == 0
    assert f"others may use it (mode {mode:04o}, and only 0600 is believed)" in caplog.text
    await teach(memory, "soar", "example.com")
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(await in_file(path)) == 1


@posix
async def test_somebody_else_s_file_counts_as_empty_and_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = at(tmp_path)
    before = path.read_bytes()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    memory = here(path)
    await teach(memory, "soar", "example.com")
    assert path.read_bytes() == before
    assert (
        caplog.text.count(f"left alone: it belongs to user {uid}, and this is user {uid + 1}") == 1
    )
    assert await recalled(memory) == ["soar"]  # in this process it remembers all the same


async def test_a_newer_racer_s_file_counts_as_empty_and_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = at(tmp_path, {"version": 2, "everything": "new"})
    before = path.read_bytes()
    memory = here(path)
    await teach(memory, "soar", "example.com")
    await memory.forget()
    assert path.read_bytes() == before
    assert caplog.text.count("left alone: version 2, and this racer knows 1") == 1


async def test_a_folder_in_its_place_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = here(tmp_path)
    await teach(memory, "soar", "example.com")
    assert "left alone: not a file" in caplog.text


@posix
async def test_a_pipe_in_its_place_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "memory.json"
    os.mkfifo(path, 0o600)
    await teach(here(path), "soar", "example.com")
    assert "left alone: not a file" in caplog.text


async def test_a_file_that_cannot_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_memory_file, "write", full)
    memory = here(tmp_path / "memory.json")
    await teach(memory, "soar", "example.com")
    await teach(memory, "soar", "example.net")
    told = "the file of the memory could not be written: No space left on device"
    assert caplog.text.count(told) == 1
    monkeypatch.undo()
    await memory.flush()
    assert len(await in_file(tmp_path / "memory.json")) == 2


@posix
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(tmp_path)

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output"):
        write(path, Stored(SALT, {}))
    assert len(read(path).records) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["memory.json"]


async def test_a_write_that_hangs_holds_up_the_end_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released, began = threading.Event(), threading.Event()

    def hangs(*_: object) -> None:
        began.set()
        released.wait(30)

    monkeypatch.setattr(_memory_file, "write", hangs)
    memory = here(tmp_path / "memory.json")
    try:
        await memory.ready()
        memory.learn("home", "example.com:80 raw", won="soar")
        # A deadline in the past: it begins, and nobody waits for it.
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: memory.flush(timeout=0.005))
    finally:
        released.set()
    assert "the memory was not written within 0.0 s" in caplog.text


@pytest.mark.virtual_time
async def test_what_was_learned_is_written_in_a_while_and_in_one_go(tmp_path: Path) -> None:
    written: list[tuple[float, int]] = []

    class Noted(Memory):
        async def flush(self, *, timeout: float = 0.9) -> None:
            written.append((anyio.current_time(), len(self)))

    memory = Noted(tmp_path / "memory.json", tell_network=lambda: "home", clock=lambda: NOW)
    memory._is_loaded = True  # a thread's time is real, and this clock's is not
    async with Scene(ScriptedTransport("soar", wins(), serve=greet), memory=memory) as scene:
        for number in range(5):
            async with await scene.dial(f"host{number}") as connection:
                await connection.receive(1)
            await anyio.sleep(0.25)
        await anyio.sleep(10.0)
        assert written == [(2.0, 5)]
        async with await scene.dial("host5") as connection:
            await connection.receive(1)
    assert written == [(2.0, 5), (11.25, 6)]  # the dialer's end waits for no while


async def test_a_connection_that_outlives_its_dialer_is_still_remembered(tmp_path: Path) -> None:
    memory = here(tmp_path / "memory.json")
    async with Scene(ScriptedTransport("soar", wins()), memory=memory) as scene:
        connection = await scene.dial()
        peer = scene.guests[0].attempts[0].peer
        await scene.dialer.aclose()
        await peer.send(b"!")
        await connection.receive(1)
        await connection.aclose()
    await memory.flush()
    assert len(await in_file(tmp_path / "memory.json")) == 1


async def test_which_network_this_is_is_looked_up_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[bool] = []

    def look() -> str:
        looked.append(threading.current_thread() is threading.main_thread())
        return "home"

    monkeypatch.setattr("racer._memory.network_id", look)
    memory = Memory()
    for _ in range(3):
        await memory.ready()
    assert looked == [False]  # once for all three, and not in the loop


# --- several processes ----------------------------------------------------------------------------


def test_threads_with_loops_of_their_own_may_share_it(tmp_path: Path) -> None:
    memory = here(tmp_path / "memory.json")

    async def dial(name: str) -> None:
        async with Dialer([ScriptedTransport(name, wins(), serve=greet)], memory=memory) as dialer:
            for number in range(20):
                async with await dialer.dial(f"{name}{number}", 80) as connection:
                    await connection.receive(1)
                if number % 5 == 0:
                    await memory.flush(timeout=30)

    threads = [
        threading.Thread(target=partial(anyio.run, dial, name, backend=backend))
        for name, backend in (("a", "asyncio"), ("b", "trio"), ("c", "asyncio"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory) == 60
    assert len(read(tmp_path / "memory.json").records) == 60


LEARN = """
import anyio, sys
from racer import Memory

async def main(path, name, first, last):
    memory = Memory(path, tell_network=lambda: "home")
    await memory.ready()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(first), int(last)):
        memory.learn("home", f"host{number}:80 raw", won=name)
        await memory.flush(timeout=30)

anyio.run(main, *sys.argv[1:])
"""


@posix
def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Also where there was no file before, so that each of the two begins with a salt of its own."""
    path = tmp_path / "memory.json"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", LEARN, str(path), name, str(first), str(first + 15)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, first in (("soar", 0), ("direct", 15))
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    partial = []
    while any(child.poll() is None for child in children):
        try:
            read(path)
        except FileNotFoundError:
            pass
        except Unusable as exc:
            partial.append(exc)
    for child in children:
        child.communicate()
        assert child.returncode == 0
    assert partial == []
    stored = read(path)
    expected = {
        Key(digest("home", stored.salt), digest(f"host{n}:80 raw", stored.salt), name)
        for n, name in [*((n, "soar") for n in range(15)), *((n, "direct") for n in range(15, 30))]
    }
    assert set(stored.records) == expected


async def test_of_two_writers_the_last_one_wins_each_entry(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    one, other = [
        Memory(path, tell_network=lambda: "home", clock=clock)
        for clock in (lambda: NOW, lambda: NOW + 1)
    ]
    for memory in (one, other):
        await memory.ready()
        memory.learn("home", "example.com:80 raw", won="direct")
        memory.learn("home", "example.com:80 raw", won="soar")
    await other.flush()
    await one.flush()
    assert [record.won_at for record in await in_file(path)] == [NOW + 1, NOW + 1]


@posix
def test_who_holds_the_lock_for_ever_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
    with locked(path) as third:
        assert third


# --- any bytes ------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=30,
)
rows = st.lists(scalars | st.just(HASH) | st.just(NOW), min_size=6, max_size=8)
shaped = st.fixed_dictionaries(
    {
        "version": st.just(1) | scalars,
        "salt": st.just(SALT.hex()) | scalars,
        "records": st.lists(rows),
    }
)


@given(st.binary() | (anything | shaped).map(lambda data: json.dumps(data).encode()))
@settings(max_examples=60)
def test_garbage_is_a_memory_or_unusable(data: bytes) -> None:
    try:
        stored = _memory_file._parsed(data)
    except Unusable:
        return
    assert len(stored.salt) == 16
    for record in stored.records.values():
        assert record.doubt >= 0
        assert record.changed_at >= 0


numbers = st.floats(0, 1e17)
records = st.builds(
    Record,
    won_at=st.none() | numbers,
    failed_at=st.none() | numbers,
    doubt=st.floats(0, 8).map(lambda value: round(value, 6)),
    used_at=numbers,
)
hashes = st.binary(min_size=16, max_size=16).map(bytes.hex)
names = st.text(min_size=1, max_size=100)


@given(st.dictionaries(st.builds(Key, hashes, hashes, names), records, max_size=5))
@settings(max_examples=40)
def test_what_is_written_is_read(known: dict[Key, Record]) -> None:
    stored = Stored(SALT, known)
    assert _memory_file._parsed(_memory_file._to_data(stored)) == stored


def test_a_full_memory_fits(tmp_path: Path) -> None:
    known = {
        Key(f"{n:032x}", HASH, "é" * 100): Record(won_at=NOW + n / 7, used_at=NOW + n / 7)
        for n in range(10_000)
    }
    data = _memory_file._to_data(Stored(SALT, known))
    assert len(data) <= MAX_BYTES
    assert len(_memory_file._parsed(data).records) == 10_000


# --- where it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_STATE_HOME": "/state"}, "/state/racer/memory.json"),
        ("linux", {"XDG_STATE_HOME": "state"}, "/users/me/.local/state/racer/memory.json"),
        ("linux", {}, "/users/me/.local/state/racer/memory.json"),
        ("darwin", {}, "/users/me/Library/Application Support/racer/memory.json"),
        ("win32", {}, "/users/me/AppData/Local/racer/memory.json"),
        ("win32", {"LOCALAPPDATA": "/data"}, "/data/racer/memory.json"),
    ],
)
def test_programs_keep_it_in_the_user_s_state_directory(
    platform: str,
    variables: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/users/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert Memory.default_path() == Path(expected)


def test_without_a_home_there_is_no_default_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(RuntimeError, match="'relative', which is relative"):
        Memory.default_path()
