"""The benchmark of Soar through real resolvers: it measures, checks what came, and says in a sentence what cannot be."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import select
import socket
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from benchmarks import _soar_lab as soar_lab
from benchmarks import _soar_peers as soar_peers
from benchmarks import soar
from benchmarks._command import COLUMNS
from benchmarks._results import Results
from benchmarks._soar_lab import (
    Ground,
    chosen_ground,
    compile_sources,
    free_ports,
    in_turns,
    running,
    said,
)
from benchmarks._soar_links import LINKS
from benchmarks._soar_relay import Relay
from benchmarks._soar_resolvers import installed_resolvers
from benchmarks._soar_samples import Row, Sample, Spread, figures_of, rows_of
from benchmarks._soar_transfers import checksum, download, pieces, upload
from racer.testing import stream_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
needs_a_resolver = pytest.mark.skipif(
    not installed_resolvers(), reason="no resolver is installed (Debian: apt-get install unbound)"
)


def run(*options: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert soar.main(options) == 0
    return printed.getvalue()


# --- links ----------------------------------------------------------------------------------


def test_links_are_those_of_the_design() -> None:
    told = {name: (round(1000 * link.round_trip), link.near.loss) for name, link in LINKS.items()}
    assert told == {
        "T2": (0, 0),
        "T3": (70, 0),
        "T4": (70, 0.01),
        "T5": (200, 0),
        "T6": (200, 0.025),
    }
    assert all(link.near.loss == link.far.loss for link in LINKS.values())
    assert LINKS["T6"].words == "round trips of 20 + 180 ms, 2.5% lost each way on each link"


def ask(relay: Relay, message: bytes) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.sendto(message, relay.address)
        select.select([relay._front], [], [], 5)
        relay._take_questions()


def relay_before(upstream: socket.socket, *, loss: float = 0.0) -> Relay:
    upstream.bind(("127.0.0.1", 0))
    address = upstream.getsockname()
    return Relay(("127.0.0.1", free_ports(1)[0]), address, delay=0.0, loss=loss, seed=1)


@contextlib.contextmanager
def closing(relay: Relay) -> Any:
    try:
        yield relay
    finally:
        for sock in (relay._front, relay._behind, relay._streams):
            sock.close()


def test_a_relay_asks_under_ids_of_its_own_and_gives_the_first_ones_back() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as server,
        socket.socket(type=socket.SOCK_DGRAM) as client,
        closing(relay_before(server)) as relay,
    ):
        server.settimeout(5)
        client.settimeout(5)
        asked = []
        for number in (b"\x12\x34", b"\x12\x34"):  # two of the same id are two questions
            client.sendto(number + bytes(20), relay.address)
            select.select([relay._front], [], [], 5)
            relay._take_questions()
            relay._deliver()
            asked.append(server.recvfrom(100))
        assert asked[0][0][:2] != asked[1][0][:2]
        for message, address in asked:
            server.sendto(message[:2] + b"answer", address)
            select.select([relay._behind], [], [], 5)
            relay._take_answers()
            relay._deliver()
            assert client.recv(100) == b"\x12\x34answer"
        assert relay.counts == [2, 44, 2, 16, 0]


def test_a_relay_loses_what_it_should_and_counts_it() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as server,
        closing(relay_before(server, loss=0.5)) as relay,
    ):
        for _ in range(200):
            ask(relay, bytes(20))
        assert relay.counts[0] == 200
        assert relay.counts[4] == 200 - len(relay._up)
        assert 60 < relay.counts[4] < 140


# --- transfers ------------------------------------------------------------------------------


def test_the_octets_do_not_come_again_and_have_a_checksum() -> None:
    blocks = list(itertools.islice(pieces(), 40))
    assert len(set(blocks)) == 40
    size = 20 * len(blocks[0]) + 17  # more than one turn of them
    assert checksum(size) == hashlib.sha256(b"".join(blocks)[:size]).hexdigest()


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_right", [True, False])
async def test_a_download_is_checked(is_right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks._soar_transfers.time.monotonic", anyio.current_time)
    near, far = stream_pair()
    found: list[dict[str, Any]] = []

    async def take() -> None:
        found.append(await download(near, 4.0, anyio.current_time()))

    async with near, far, anyio.create_task_group() as group:
        group.start_soon(take)
        assert await far.receive() == b"G\n"
        for number, piece in enumerate(itertools.islice(pieces(), 3)):
            await anyio.sleep(1)
            await far.send(piece if is_right or number != 1 else bytes(len(piece)))
    (told,) = found
    assert (told["octets"], told["right"]) == (3 * 65_536, is_right)
    assert told["seconds"] == pytest.approx(4.0)
    assert told["settled"] == pytest.approx(
        2 * 65_536 / 2
    )  # what came in two seconds after the first


@pytest.mark.virtual_time
async def test_a_download_goes_on_until_something_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks._soar_transfers.time.monotonic", anyio.current_time)
    near, far = stream_pair()
    found: list[dict[str, Any]] = []

    async def take() -> None:
        found.append(await download(near, 1.0, anyio.current_time()))

    async with near, far, anyio.create_task_group() as group:
        group.start_soon(take)
        await anyio.sleep(7)
        await far.send(next(pieces())[:100])
    assert (found[0]["octets"], found[0]["right"]) == (100, True)
    assert found[0]["seconds"] == pytest.approx(7.0)


@pytest.mark.virtual_time
async def test_an_upload_counts_what_the_origin_received(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = stream_pair()
    found: list[dict[str, Any]] = []

    async def give() -> None:
        found.append(await upload(near, 2.0, began=10.0))

    async with near, far, anyio.create_task_group() as group:
        group.start_soon(give)
        head, _, octets = (await far.receive()).partition(b"\n")
        assert head == b"P2.000"
        while len(octets) < 100_000:
            octets += await far.receive()
        report = {
            "octets": 100_000,
            "ended": 12.5,
            "settled": 40_000,
            "settled_at": 10.5,
            "checksum": hashlib.sha256(octets[:100_000]).hexdigest(),
        }
        await far.send(json.dumps(report).encode() + b"\n")
    assert found == [{"octets": 100_000, "seconds": 2.5, "settled": 30_000.0, "right": True}]


# --- samples --------------------------------------------------------------------------------

START = Sample(
    link="T3", resolver="unbound", tunnel="soar", what="start", run=0, cold=0.1, spawn=0.3
)
DOWN = Sample(
    link="T3",
    resolver="unbound",
    tunnel="soar",
    what="down",
    run=0,
    octets=2_000_000,
    seconds=4.0,
    questions=3_000,
    client_cpu=0.4,
)


def changed(sample: Sample, **values: Any) -> Sample:
    return Sample(**{**sample.to_dict(), **values})


def test_a_row_has_medians_and_what_a_kilobyte_costs() -> None:
    samples = [changed(START, run=n, cold=cold) for n, cold in enumerate((0.1, 0.3, 0.2))]
    (row,) = rows_of([*samples, DOWN])
    assert row.cold == Spread(p50=0.2, p95=0.3, least=0.1, most=0.3)
    assert row.down is not None
    assert row.down.p50 == 500_000
    assert row.down_questions is not None
    assert row.down_questions.p50 == 1.5
    assert row.cpu["down client"].p50 == pytest.approx(0.2)
    assert (row.runs, row.failures, row.why) == (3, {}, "")


def test_what_failed_or_came_wrong_or_not_at_all_is_no_figure() -> None:
    samples = [
        changed(START, failed="did not come up"),
        changed(DOWN, right=False),
        changed(DOWN, what="up", octets=0),
    ]
    (row,) = rows_of(samples)
    assert (row.cold, row.down, row.up) == (None, None, None)
    assert row.failures == {
        "start": ["did not come up"],
        "down": ["octets came that were not sent"],
        "up": ["nothing arrived"],
    }
    assert row.why == "did not come up"
    names = {figure.name.partition(": ")[2] for figure in figures_of(samples)}
    assert names == {"failed"}


def test_of_a_transfer_of_little_it_is_not_told_what_a_megabyte_costs() -> None:
    (row,) = rows_of([changed(DOWN, octets=10_000)])
    assert row.down is not None
    assert (row.down_questions, row.cpu) == (None, {})


def test_tunnels_are_apart_and_rates_are_better_when_greater() -> None:
    figures = figures_of([START, DOWN, changed(DOWN, tunnel="other")])
    better = {figure.name: figure.lower_is_better for figure in figures}
    assert better["T3/unbound/soar: down"] is False
    assert better["T3/unbound/other: down"] is False
    assert better["T3/unbound/soar: cold"] is True
    assert "T3/unbound/other: cold" not in better


# --- peers ----------------------------------------------------------------------------------


def test_peers_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks._soar_peers.shutil.which", lambda program, path: None)
    there, missing = soar_peers.found_peers()
    assert there == []
    assert missing == ["dnstt", "slipstream-bbr", "slipstream-dcubic", "iodine", "dns2tcp"]


def test_every_peer_is_told_zone_resolver_and_origin(tmp_path: Path) -> None:
    from benchmarks._soar_lab import Address

    place = soar_peers.Place(
        folder=tmp_path,
        zone="t.example.com",
        listens=Address("127.0.0.3", 53),
        asks=Address("127.0.0.2", 53),
        origin=Address("127.0.0.3", 7777),
        local=7000,
    )
    for peer in soar_peers.PEERS:
        client = " ".join(peer.client(place))
        assert client.split()[0] == peer.programs[0]
        assert peer.server(place)[0] == peer.programs[1]
        assert "t.example.com" in client
        assert "127.0.0.2" in client
        assert peer.fixed_port or ":53" in client
        assert peer.target(place)[1] in {7000, 7777}


# --- what a start is measured with ----------------------------------------------------------


def test_sources_are_compiled_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soar_lab, "_ROOT", tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    sources = [tmp_path / "src" / "one.py", tmp_path / "benchmarks" / "two.py"]
    for source in sources:
        source.parent.mkdir()
        source.write_text("ONE = 1\n")
    assert compile_sources()
    assert all(Path(cache_from_source(source)).exists() for source in sources)
    (tmp_path / "src" / "wrong.py").write_text("ONE = \n")
    assert not compile_sources()


async def test_programs_use_bytecode_whatever_the_shell_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    command = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    async with running(command) as process:
        assert await said(process) == "False"


# --- what cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--link", "T9"), "there is no link 'T9'; there are T2, T3, T4, T5, T6"),
        (("--resolver", "unbund"), "no resolver 'unbund'; did you mean 'unbound'?"),
        (("--runs", "0"), "'0' is no whole number"),
        (("--network", "moon"), "'moon'"),
        (("--seed", "x"), "'x'"),
    ],
)
def test_a_wrong_option_is_named(
    options: Sequence[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        soar.main(options)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("soar: ")
    assert said.count("\n") == 1
    assert words in said


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert soar.main(options) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_without_a_resolver_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soar, "installed_resolvers", list)
    assert "apt install unbound bind9" in refused(capsys, "--network", "relays")
    monkeypatch.setattr(soar, "installed_resolvers", lambda: ["bind"])
    said = refused(capsys, "--network", "relays", "--resolver", "knot")
    assert "knot is not installed (Debian: apt install knot-resolver); there are bind" in said


def test_namespaces_that_cannot_be_had_are_refused_with_the_reason_or_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks._soar_lab.why_unavailable", lambda: "it needs root")
    assert "it needs root" in refused(capsys, "--network", "namespaces")
    assert chosen_ground(None) == (Ground.RELAYS, "it needs root")
    monkeypatch.setattr("benchmarks._soar_lab.why_unavailable", lambda: None)
    monkeypatch.setattr("benchmarks._soar_lab.shutil.which", lambda program: None)
    ground, why = chosen_ground(None)
    assert ground is Ground.RELAYS
    assert "no C compiler" in str(why)


@needs_a_resolver
def test_where_nothing_can_be_written_it_says_so_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    out = str(tmp_path / "file" / "out")
    said = refused(capsys, "--network", "relays", "--output", out)
    assert "choose another folder with --output" in said


def test_files_of_another_benchmark_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}", encoding="utf-8")
    assert "is no benchmark's file" in refused(capsys, "--compare", str(file), str(file))


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has policies")
def test_programs_are_started_under_the_batch_policy_and_ours_stays() -> None:
    ask = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
    before = os.sched_getscheduler(0)
    with in_turns():
        told = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=30)
    assert int(told.stdout) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


# --- the program ----------------------------------------------------------------------------

LEAST = ("--quick", "--link", "T2", "--no-peers")


@needs_a_resolver
@pytest.mark.timeout(120)
def test_a_small_run_on_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soar, "QUICK_SECONDS", 0.3)
    monkeypatch.setattr(soar, "WARM", 1)
    text = run(*LEAST, "--network", "relays", "--output", str(tmp_path), "--no-pictures")
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "by relays for datagrams on loopback" in text
    results = Results.read(tmp_path / "soar.json", benchmark="soar")
    assert results.setting["network"] == "relays"
    samples = [Sample(**one) for one in results.details["samples"]]
    assert [(one.what, one.failed, one.right) for one in samples] == [
        (what, None, True) for what in ("start", "down", "up")
    ]
    start, *transfers = samples
    assert 0 < start.cold < start.spawn
    assert len(start.warm) == 1
    for one in transfers:
        assert one.octets > 0
        assert one.questions > 0
        assert math.isfinite(one.rate)
    page = (tmp_path / "soar.html").read_text(encoding="utf-8")
    assert "through" in page
    assert "no delay" in page


@pytest.mark.parametrize("end", [RuntimeError("the lab fell down"), KeyboardInterrupt()])
def test_what_was_measured_before_a_run_is_cut_short_is_kept(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(*_: object, tell: Callable[[str, list[Sample]], None], **__: object) -> None:
        await anyio.lowlevel.checkpoint()
        tell("unbound", [START])
        raise end

    monkeypatch.setattr(soar, "installed_resolvers", lambda: ["unbound"])
    monkeypatch.setattr(soar, "measure", measure)
    argv = [*LEAST, "--network", "relays", "--output", str(tmp_path), "--no-pictures"]
    if isinstance(end, Exception):
        with pytest.raises(RuntimeError, match="fell down"):
            soar.main(argv)
    else:
        assert soar.main(argv) == 130
    kept = Results.read(tmp_path / "soar.json", benchmark="soar")
    assert [sample["what"] for sample in kept.details["samples"]] == ["start"]
    assert kept.details["cut short by"] == type(end).__name__
    assert "cut short by" in (tmp_path / "soar.html").read_text(encoding="utf-8")


@needs_a_resolver
@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("ground", ["namespaces", "relays"])
def test_all_of_a_quick_run(ground: str, tmp_path: Path) -> None:
    if ground == "namespaces" and chosen_ground(None)[0] is not Ground.NAMESPACES:
        pytest.skip("network namespaces cannot be had here")
    command = [sys.executable, "-m", "benchmarks.soar", "--quick", "--resolver", "all"]
    command += ["--network", ground, "--link", "T3", "--output", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert (done.returncode, done.stderr) == (0, "")
    results = Results.read(tmp_path / "soar.json")
    rows = {row["resolver"]: row for row in results.details["rows"] if row["tunnel"] == "soar"}
    assert list(rows) == installed_resolvers()
    for row in rows.values():
        assert row["failures"] == {}
        assert row["cold"]["least"] > LINKS["T3"].round_trip  # nothing is faster than the link
    for name in ("soar.png", "soar-cpu.png", "soar-questions.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_row_can_be_written_and_pictures_are_whole(tmp_path: Path) -> None:
    from benchmarks._soar_pages import draw

    rows = rows_of(
        [START, changed(START, cold=0.15, run=1), DOWN, changed(START, tunnel="x", failed="no")]
    )
    assert [type(row) for row in rows] == [Row, Row]
    for picture in draw(rows, tmp_path):
        assert picture.png.startswith(b"\x89PNG")
