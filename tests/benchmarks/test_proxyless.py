"""The benchmark of tricks and censors: it measures, prints and writes what it should, and says why it cannot."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import proxyless
from benchmarks._wire import CENSORS, NETWORKS
from tests.racer.lab.packets.worlds import needs_packets

if TYPE_CHECKING:
    from pathlib import Path


@needs_packets
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxyless, "STRATEGIES", ("", "split:1"))
    monkeypatch.setattr(proxyless, "CENSORS", (CENSORS[0], CENSORS[1], CENSORS[-1]))
    monkeypatch.setattr(proxyless, "NETWORKS", (NETWORKS[0], NETWORKS[-2]))
    monkeypatch.setattr(proxyless, "QUICK_RUNS", 1)
    monkeypatch.setattr(proxyless, "QUICK_CONNECTIONS", 2)
    told, wire = tmp_path / "told.json", tmp_path / "wire.pcap"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert proxyless.main(["--quick", "--json", str(told), "--pcap", str(wire)]) == 0
    text = printed.getvalue()
    assert "no trick  ✓  ·  ·" in text.replace("   ", "  ")
    assert "split:sni: 2 of 2 connections left as the first one did" in text
    assert max(map(len, text.splitlines())) <= 120
    data = json.loads(told.read_text())
    passes = {(each["censor"], each["strategy"]): each["passes"] for each in data["matrix"]}
    assert passes == {
        ("free", ""): True,
        ("free", "split:1"): True,
        ("segment", ""): False,
        ("segment", "split:1"): True,
        ("full", ""): False,
        ("full", "split:1"): False,
    }
    plain, split = data["costs"]
    assert len(plain["flight"]["segments"]) == 1
    assert split["flight"]["segments"][0] == 1
    free, full = data["searches"]
    assert (free["network"], free["resolver"]) == ("free", "system")
    assert (full["network"], full["strategy"], full["later"]) == ("full", None, None)
    assert wire.read_bytes()[:4].hex() == "a1b2c3d4"


@needs_packets
@pytest.mark.soak
@pytest.mark.timeout(400)
def test_all_of_a_quick_run(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    with contextlib.redirect_stdout(io.StringIO()):
        assert proxyless.main(["--quick", "--json", str(told)]) == 0
    data = json.loads(told.read_text())
    assert {each["censor"] for each in data["matrix"]} == {censor.name for censor in CENSORS}


def test_without_root_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proxyless, "why_unavailable", lambda: "needs root")
    assert proxyless.main([]) == 1
    assert "no packet network here: needs root" in capsys.readouterr().err
