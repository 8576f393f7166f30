"""`racer get` as people run it: real files, a real server on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from racer import RaceReport
from racer.cli import main
from racer.cli._progress import octets
from tests.racer.cli import guests

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = bytes(range(256)) * 4096  # 1 MiB
PROGRAM = (sys.executable, "-m", "racer", "get")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server  # type: ignore[mutable-override] # as it is given

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        server.asked.append((self.path, self.headers.get("Range")))
        if self.path == "/away":
            self.answer(302, b"", Location="/file.bin")
        elif self.path == "/missing":
            self.answer(404, b"no")
        elif self.path == "/text":
            self.answer(200, "h\u00e9llo \x1b[31mred\x07\r\nbye\n".encode())
        else:
            self.give_file()

    def give_file(self) -> None:
        server, start, status = self.server, 0, 200
        size, more = len(server.data), {}
        asked = self.headers.get("Range")
        if asked and self.headers.get("If-Range") == server.etag:
            start, status = int(asked[6:-1]), 206
            more = {"Content-Range": f"bytes {start}-{size - 1}/{size}"}
        end = server.breaks.pop(0) if server.breaks else size
        self.answer(status, server.data[start:end], size - start, ETag=server.etag, **more)
        if end < size:
            if server.hangs:
                server.reached.set()
                server.go_on.wait(50)
            self.close_connection = True

    def answer(self, status: int, body: bytes, length: int | None = None, **fields: str) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.data = DATA
        self.etag = '"a"'
        self.breaks: list[int] = []
        self.hangs = False
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.asked: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        pass  # clients that leave in the middle are the point


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.go_on.set()
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def here(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    return tmp_path


def names(here: Path) -> list[str]:
    return sorted(each.name for each in here.iterdir())


def timeless(text: str) -> str:
    return re.sub(r"\d[\d.e-]* m?s\b", "T", text)


# --- files ----------------------------------------------------------------------------------


def test_a_file_comes_and_the_winner_is_named(
    server: Server, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get", f"{server.url}/away", "-o", "x"]) == 0
    assert (here / "x").read_bytes() == DATA
    assert names(here) == ["x"]
    out, errors = capsys.readouterr()
    assert out == ""
    assert timeless(errors) == "by direct: 1.0 MiB\nx: 1.0 MiB in T, by direct\n"


def test_a_directory_gets_the_urls_last_name(server: Server, here: Path) -> None:
    assert main(["get", f"{server.url}/a/file%20one.bin?x=/y", "-o", ".", "-q"]) == 0
    assert main(["get", f"{server.url}/", "-o", str(here), "-q"]) == 0
    assert names(here) == ["file one.bin", "index.html"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a%2Fb", "b"),
        ("/..%2F..%2Fetc", "etc"),
        ("/x/..", "index.html"),
        ("/%252Fb", "%2Fb"),
        ("/.bashrc", ".bashrc"),
        ("/a%00b", None),
        ("/a%0Ab", None),
        ("/a%5Cb", None),
    ],
)
def test_no_name_leads_out_of_the_directory(
    server: Server, here: Path, path: str, name: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["get", f"{server.url}{path}", "-o", ".", "-q"])
    assert code == (2 if name is None else 0)
    assert ("is no good name for a file" in capsys.readouterr().err) is (name is None)
    assert names(here) == ([] if name is None else [name])


def test_what_exists_is_replaced_only_by_force(
    server: Server, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "x").write_bytes(b"mine")
    assert main(["get", f"{server.url}/file.bin", "-o", "x"]) == 2
    assert capsys.readouterr().err == "racer: x exists; --force replaces it\n"
    assert server.asked == []
    assert (here / "x").read_bytes() == b"mine"
    assert main(["get", f"{server.url}/file.bin", "-o", "x", "--force", "-q"]) == 0
    assert (here / "x").read_bytes() == DATA


def test_the_next_run_goes_on_where_the_last_one_stopped(
    server: Server, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # More than all buffers between the two hold: when it is sent, most of it was read.
    server.data = DATA * 24
    server.breaks, server.hangs = [len(server.data) - 1], True
    child = subprocess.Popen(
        [*PROGRAM, f"{server.url}/file.bin", "-o", "x"], stderr=subprocess.PIPE, text=True
    )
    assert server.reached.wait(50)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=50)
    assert child.returncode == 130
    assert errors.startswith("by direct: 24.0 MiB\n")
    assert errors.endswith("the same command goes on there\nracer: interrupted\n")
    size = (here / "x.part").stat().st_size
    assert 0 < size < len(server.data)
    assert names(here) == ["x.part", "x.part.json"]

    server.go_on.set()
    assert main(["get", f"{server.url}/file.bin", "-o", "x"]) == 0
    assert (here / "x").read_bytes() == server.data
    assert server.asked[-1] == ("/file.bin", f"bytes={size}-")
    assert names(here) == ["x"]
    assert timeless(capsys.readouterr().err) == (
        f"by direct: 24.0 MiB, going on at {octets(size)}\n"
        f"x: 24.0 MiB in T, by direct, {octets(size)} of it earlier\n"
    )


def test_a_changed_file_begins_again(
    server: Server, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("racer.cli._download.FIRST_WAIT", 0.0)
    server.breaks = [400_000, 0]
    assert main(["get", f"{server.url}/file.bin", "-o", "x", "-q", "--tries=1"]) == 1
    assert (here / "x.part").stat().st_size == 400_000
    server.etag, server.data = '"b"', DATA[::-1]
    assert main(["get", f"{server.url}/file.bin", "-o", "x", "-q"]) == 0
    assert (here / "x").read_bytes() == DATA[::-1]


def test_a_connection_that_breaks_is_made_again(
    server: Server, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("racer.cli._download.FIRST_WAIT", 0.0)
    server.breaks = [500_000]
    assert main(["get", f"{server.url}/file.bin", "-o", "x"]) == 0
    assert (here / "x").read_bytes() == DATA
    assert [asked for _, asked in server.asked] == [None, "bytes=500000-"]
    assert "direct: peer closed connection" in capsys.readouterr().err


def test_json_tells_all_of_it(
    server: Server, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get", f"{server.url}/away", "-o", "x", "--json"]) == 0
    out, errors = capsys.readouterr()
    told = json.loads(out)
    assert errors == ""
    (race,) = told.pop("races")
    assert RaceReport.from_json(json.dumps(race)).winner == "direct"
    assert told.pop("duration") > 0
    assert told == {
        "url": f"{server.url}/away",
        "file": "x",
        "status": 200,
        "size": len(DATA),
        "received": len(DATA),
        "resumed_at": 0,
        "kept": 0,
        "tries": 1,
        "transports": ["direct"],
        "error": None,
    }


def failed(told: str) -> dict[str, Any]:
    """Return what `--json` says of a download that is not whole, its races read as reports."""
    data: dict[str, Any] = json.loads(told)
    data["races"] = [RaceReport.from_json(json.dumps(race)) for race in data["races"]]
    return data


def test_json_tells_of_a_failure_what_standard_error_says(
    server: Server,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("racer.cli._download.FIRST_WAIT", 0.0)

    def get(url: str, *more: str, out: str = "x") -> tuple[int, dict[str, Any]]:
        code = main(["get", url, "-o", out, "--json", *more])
        told, errors = capsys.readouterr()
        data = failed(told)
        assert errors == f"racer: {data['error']['text']}\n"
        return code, data

    code, told = get("http://localhost:1/a")
    assert (code, told["error"]["type"], told["error"]["exit"]) == (
        1,
        "AllAttemptsFailed",
        "failed",
    )
    (race,) = told["races"]
    assert race["direct"].error_type == "connection_refused"
    assert (told["url"], told["file"], told["status"]) == ("http://localhost:1/a", "x", None)
    assert (told["size"], told["received"], told["tries"], told["transports"]) == (None, 0, 1, [])

    code, told = get(f"{server.url}/missing")
    assert (code, told["status"]) == (6, 404)
    assert told["error"] == {
        "type": None,
        "text": "127.0.0.1: it answered 404 Not Found",
        "exit": "refused",
    }
    assert [race.winner for race in told["races"]] == ["direct"]

    server.breaks = [400_000, 0]
    code, told = get(f"{server.url}/file.bin", "--tries=1")
    assert (code, told["error"]["exit"], told["kept"]) == (1, "failed", 400_000)
    assert (told["received"], told["size"]) == (400_000, len(DATA))
    assert told["tries"] == len(told["races"]) == 2
    assert told["duration"] > 0

    code, told = get(f"{server.url}/file.bin", out="/dev/full")
    assert (code, told["error"]["exit"], told["kept"]) == (5, "system", 0)


def test_json_tells_of_the_race_that_the_time_ended(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guests.install(here)
    monkeypatch.syspath_prepend(str(here))
    (here / "racer.toml").write_text('[[entrant]]\ntransport = "hangs"\n')
    options = ["-o", "x", "--json", "--config=racer.toml", "--timeout=0.3"]
    assert main(["get", "http://example.com/", *options]) == 3
    out, errors = capsys.readouterr()
    assert errors == "hanging\nracer: not done within 300 ms\n"
    told = failed(out)
    assert told["error"] == {"type": None, "text": "not done within 300 ms", "exit": "timeout"}
    (race,) = told["races"]
    assert (race.outcome, race["hangs"].outcome, race["hangs"].stage) == (
        "cancelled",
        "cancelled",
        "handshake",
    )


def test_json_tells_of_an_interrupt(server: Server, here: Path) -> None:
    server.data = DATA * 24
    server.breaks, server.hangs = [len(server.data) - 1], True
    with subprocess.Popen(
        [*PROGRAM, f"{server.url}/file.bin", "-o", "x", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert server.reached.wait(50)
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=50)
    assert (child.returncode, errors) == (130, "racer: interrupted\n")
    told = failed(out)
    assert told["error"]["exit"] == "interrupted"
    assert told["kept"] == (here / "x.part").stat().st_size
    assert 0 < told["kept"] <= told["received"] < told["size"] == len(server.data)
    assert [race.winner for race in told["races"]] == told["transports"] == ["direct"]


def test_what_never_began_is_told_on_standard_error_alone(
    server: Server, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "x").write_bytes(b"mine")
    (here / "y.part").write_bytes(b"mine")
    for file in ("x", "y", "missing/z"):
        assert main(["get", f"{server.url}/file.bin", "-o", file, "--json"]) in {2, 5}
        out, errors = capsys.readouterr()
        assert (out, errors.count("\n")) == ("", 1)
    assert server.asked == []


def test_why_it_failed_counts_more_than_that_nobody_reads_it(server: Server, here: Path) -> None:
    for output in ("closed", "/dev/full"):
        if output == "closed":
            reader, writer = os.pipe()
            os.close(reader)
        else:
            writer = os.open(output, os.O_WRONLY)
        done = subprocess.run(
            [*PROGRAM, f"{server.url}/missing", "-o", "x", "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=50,
            check=False,
        )
        os.close(writer)
        assert done.returncode == 6
        assert done.stderr == b"racer: 127.0.0.1: it answered 404 Not Found\n"


def test_the_last_winner_starts_first_unless_it_is_to_be_forgotten(
    server: Server,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guests.install(here)
    monkeypatch.syspath_prepend(str(here))
    delays = (("hangs", 0), ("loops", 0.2))
    config = here / "racer.toml"
    config.write_text(
        "".join(f'[[entrant]]\ntransport = "{name}"\nstart_delay = {s}\n' for name, s in delays)
    )
    starts = []
    for more in ([], [], ["--no-memory"]):
        options = ["-o", "x", "--force", "--json", f"--config={config}"]
        assert main(["get", f"{server.url}/text", *options, *more]) == 0
        (race,) = json.loads(capsys.readouterr().out)["races"]
        starts.append(RaceReport.from_json(json.dumps(race))["loops"].started_at or 0.0)
    assert starts[1] < 0.1 < min(starts[0], starts[2])


def test_names_choose_who_races(
    server: Server,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guests.install(here)
    monkeypatch.syspath_prepend(str(here))
    config = here / "racer.toml"
    names = ("crashes", "loops", "fails")
    config.write_text("".join(f'[[entrant]]\ntransport = "{name}"\n' for name in names))
    get = ["get", f"{server.url}/text", "-o", "x", "--force", "--json", f"--config={config}"]
    for options, racing in (
        (["--only=loops"], ["loops"]),
        (["--only=fails", "--only=loops"], ["loops", "fails"]),
        (["--exclude=crashes", "--exclude=fails"], ["loops"]),
        (["--only=loops", "--only=crashes", "--exclude=crashes"], ["loops"]),
    ):
        assert main([*get, *options]) == 0
        (race,) = json.loads(capsys.readouterr().out)["races"]
        assert [attempt["transport"] for attempt in race["attempts"]] == racing
    before = len(server.asked)
    for options, words in (
        (["--only=loop"], "no entrant is called 'loop'; did you mean 'loops'?"),
        (["--exclude=x"], "no entrant is called 'x'; there are 'crashes', 'loops', 'fails'"),
        (["--only=loops", "--exclude=loops"], "only and exclude leave none of 'crashes', "),
    ):
        assert main([*get, *options]) == 2
        out, errors = capsys.readouterr()
        assert (out, errors.startswith(f"racer: {words}")) == ("", True)
    assert len(server.asked) == before


# --- outputs --------------------------------------------------------------------------------


def test_without_a_file_the_body_goes_to_standard_output(
    server: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["get", f"{server.url}/file.bin"]) == 0
    out, errors = capfdbinary.readouterr()
    assert out == DATA
    assert errors.endswith(b", by direct\n")


def test_a_device_is_written_as_it_is(server: Server) -> None:
    assert main(["get", f"{server.url}/file.bin", "-o", os.devnull, "-q"]) == 0
    assert not Path(f"{os.devnull}.part").exists()


def test_a_terminal_shows_a_text_and_does_not_obey_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert main(["get", f"{server.url}/text", "-q"]) == 0
    assert capsys.readouterr().out == "h\u00e9llo \\x1b[31mred\\x07\nbye\n"


def test_a_full_disk_is_the_machines_fault(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get", f"{server.url}/file.bin", "-o", "/dev/full", "-q"]) == 5
    assert capsys.readouterr().err == "racer: No space left on device\n"


def test_who_stops_reading_is_not_told_off(server: Server) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, f"{server.url}/file.bin", "-q"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=50,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


# --- mistakes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["{url}/missing"], 6, "127.0.0.1: it answered 404 Not Found"),
        (
            ["http://127.0.0.1:1/"],
            1,
            "every attempt to reach 127.0.0.1:1 failed: direct: Connection",
        ),
        (["{url}/file.bin", "--max-bytes=100"], 6, "it is larger than --max-bytes 100"),
        (["{url}/file.bin", "--json"], 2, "--json needs --output"),
        (["{url}/file.bin", "--timeout=0"], 2, "--timeout must be a finite, positive"),
        (["{url}/file.bin", "--tries=0"], 2, "--tries"),
        (["{url}/file.bin", "--max-bytes=1k"], 2, "'1k' is not a valid whole number"),
        (["{url}/file.bin", "--timeout=1m"], 2, "'1m' is not a valid number of seconds"),
        (["{url}/file.bin", "-o", ""], 2, "--output names no file"),
        (
            ["{url}/file.bin", "-H", "no colon"],
            2,
            "of the form 'Name: value' (see racer get --help)",
        ),
        (["{url}/file.bin", "-H", "A: b\r\nC: d"], 2, "of the form 'Name: value'"),
        (["{url}/file.bin", "-H", "a b: c"], 2, "of the form 'Name: value'"),
        (["{url}/file.bin", "-o", "missing/x"], 5, "missing/x.part: No such file or directory"),
        (["example.com/file"], 2, "did you mean https://example.com/file?"),
        (["ftp://example.com/file"], 2, "no URL that begins with https:// or http://"),
        ([], 2, "Missing argument 'URL'"),
        (["{url}/x", "--config=none.toml"], 2, "none.toml: cannot be read"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_each_end_has_its_code_and_one_line(
    server: Server,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    code: int,
    words: str,
) -> None:
    assert main(["get", *(part.replace("{url}", server.url) for part in argv)]) == code
    out, errors = capsys.readouterr()
    assert out == ""
    assert words in errors
    assert errors.startswith("racer: ")
    assert errors.count("\n") == 1
    assert names(here) == []


def test_the_time_is_over(server: Server, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.breaks, server.hangs = [500_000], True
    assert main(["get", f"{server.url}/file.bin", "-o", "x", "--timeout=0.3"]) == 3
    assert capsys.readouterr().err.endswith("racer: not done within 300 ms\n")
    assert "x" not in names(here)
