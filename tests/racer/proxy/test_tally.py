from __future__ import annotations

import re
from types import MappingProxyType

from racer import Attempt, Outcome, RaceReport
from racer.proxy import ProxyStatus
from racer.proxy._requests import Spoken
from racer.proxy._tally import Tally, metrics


def status(tally: Tally) -> ProxyStatus:
    return ProxyStatus(
        address=("127.0.0.1", 1080),
        is_accepting=True,
        is_ready=True,
        clients=3,
        racing=1,
        tunnels=2,
        accepted=9,
        requests=MappingProxyType(dict(tally.requests)),
        attempts=MappingProxyType(dict(tally.attempts)),
        sent=10,
        received=20,
    )


def report(*names: str) -> RaceReport:
    return RaceReport(
        target="secret.example:443",
        tls=False,
        outcome=Outcome.CONNECTED,
        winner=names[0],
        duration=1.0,
        timeout=80.0,
        started=0.0,
        attempts=tuple(Attempt(transport=name, outcome=Outcome.LOST_RACE) for name in names),
    )


def test_metrics_are_as_prometheus_reads_them() -> None:
    tally = Tally()
    tally.request(Spoken.SOCKS5, "connected")
    tally.race(report("direct"))
    text = metrics(status(tally))
    assert text.endswith("\n")
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? \d+\Z')
    described: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            described.add(line.split()[2])
        else:
            assert sample.match(line), line
            assert re.split(r"[ {]", line)[0] in described
    assert "racer_proxy_up 1" in text
    assert 'racer_proxy_requests_total{protocol="socks5",outcome="connected"} 1' in text
    assert 'racer_proxy_attempts_total{transport="direct",outcome="lost_race"} 1' in text
    assert 'racer_proxy_bytes_total{direction="received"} 20' in text
    assert "secret" not in text


def test_a_name_cannot_break_out_of_its_label() -> None:
    tally = Tally()
    tally.race(report('a"} 1\nracer_proxy_up 0\n# \\'))
    lines = metrics(status(tally)).splitlines()
    (line,) = [line for line in lines if "lost_race" in line]
    assert line == (
        'racer_proxy_attempts_total{transport="a\\"} 1 racer_proxy_up 0 # \\\\",outcome="lost_race"} 1'
    )


def test_there_are_no_more_labels_than_anybody_stores() -> None:
    tally = Tally()
    for number in range(300):
        tally.race(report(f"t{number}"))
    assert len(tally.attempts) == 101
    assert tally.attempts["other", "lost_race"] == 200
