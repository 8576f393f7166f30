"""racer and a plain connect in networks of packets, as samples of the race."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING

from benchmarks import _packet_race, race
from benchmarks._wire import NETWORKS
from tests.racer.lab.packets.worlds import needs_packets

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RACE = ["--virtual", "--runs", "1", "--network", "clean", "--packets", "--no-pictures"]


@needs_packets
def test_racer_connects_where_a_plain_connect_is_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_packet_race, "NETWORKS", (NETWORKS[0], NETWORKS[1]))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert race.main([*RACE, "--output", str(tmp_path)]) == 0
    assert "packets: segment: reads TLS in each segment alone" in printed.getvalue()
    told = json.loads((tmp_path / "race.json").read_text(encoding="utf-8"))["details"]
    rows = {(row["network"], row["dialer"]): row for row in told["rows"]}
    assert rows["packets: segment", "racer"]["outcomes"] == {"proxyless": 1}
    assert rows["packets: segment", "connect_tcp"]["outcomes"] == {"connection_reset": 1}
    assert rows["packets: free", "connect_tcp"]["outcomes"] == {"direct": 1}
    assert rows["packets: free", "racer"]["failed"] == 0
