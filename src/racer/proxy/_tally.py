"""What a proxy counts, as frozen data and as Prometheus reads it. No host and no user is ever a label."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._words import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from racer._report import RaceReport
    from racer.proxy._requests import Spoken

__all__ = ("CONTENT_TYPE", "ProxyStatus", "Tally", "metrics")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of Prometheus' text format."""

_MAX_TRANSPORTS: Final = 100  # entrants that are counted by name; a reload may bring others
_REST: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyStatus:
    """A proxy, as it is now.

    Attributes:
        address: where it listens, or did.
        is_accepting: whether new clients are taken.
        is_ready: whether, besides, the dialer is usable.
        clients: connections of clients that are open.
        racing: how many of them wait for a race.
        tunnels: how many of them have a stream to their target.
        accepted: connections of clients so far.
        requests: how often clients asked, by what they speak and what came of it: `connected`, `failed`, `refused`,
            `denied` (for want of a credential), `left` (the client went away) or `broken` (connected, and no way
            carried its ClientHello).
        attempts: attempts of races so far, by transport and outcome.
        sent: bytes carried from clients to their targets.
        received: bytes carried to clients.
    """

    address: tuple[str, int]
    is_accepting: bool
    is_ready: bool
    clients: int
    racing: int
    tunnels: int
    accepted: int
    requests: Mapping[tuple[str, str], int]
    attempts: Mapping[tuple[str, str], int]
    sent: int
    received: int


class Tally:
    """Counts.

    Attributes:
        accepted: connections of clients so far.
        racing: clients that wait for a race.
        tunnels: clients that have a stream.
        sent: bytes to targets.
        received: bytes to clients.
    """

    def __init__(self) -> None:
        """Begin at nothing."""
        self.accepted = 0
        self.racing = 0
        self.tunnels = 0
        self.sent = 0
        self.received = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.attempts: Counter[tuple[str, str]] = Counter()
        self._transports: set[str] = set()

    def request(self, spoken: Spoken, outcome: str) -> None:
        """Count what came of something a client asked for."""
        self.requests[spoken.value, outcome] += 1

    def race(self, report: RaceReport) -> None:
        """Count the attempts of a race that is over."""
        for attempt in report.attempts:
            name = attempt.transport
            if name not in self._transports:
                if len(self._transports) >= _MAX_TRANSPORTS:
                    name = _REST
                else:
                    self._transports.add(name)
            self.attempts[name, attempt.outcome.value] += 1


def metrics(status: ProxyStatus) -> str:
    """Return a status in Prometheus' text format."""
    return "".join([
        *_family("racer_proxy_up", "gauge", "Whether the proxy takes clients and its dialer is usable.",
                 [({}, int(status.is_ready))]),
        *_family("racer_proxy_clients", "gauge", "Connections of clients that are open.",
                 [({}, status.clients)]),
        *_family("racer_proxy_racing", "gauge", "Clients that wait for a race.",
                 [({}, status.racing)]),
        *_family("racer_proxy_tunnels", "gauge", "Clients that have a stream to their target.",
                 [({}, status.tunnels)]),
        *_family("racer_proxy_accepted_total", "counter", "Connections of clients so far.",
                 [({}, status.accepted)]),
        *_family("racer_proxy_requests_total", "counter", "What clients asked for, by what came of it.",
                 [({"protocol": protocol, "outcome": outcome}, count)
                  for (protocol, outcome), count in sorted(status.requests.items())]),
        *_family("racer_proxy_attempts_total", "counter", "Attempts of races, by transport and outcome.",
                 [({"transport": transport, "outcome": outcome}, count)
                  for (transport, outcome), count in sorted(status.attempts.items())]),
        *_family("racer_proxy_bytes_total", "counter", "Bytes carried; sent is towards targets.",
                 [({"direction": "sent"}, status.sent), ({"direction": "received"}, status.received)]),
    ])  # fmt: skip


def _family(
    name: str, kind: str, words: str, samples: Iterable[tuple[Mapping[str, str], int]]
) -> list[str]:
    lines = [f"# HELP {name} {words}\n", f"# TYPE {name} {kind}\n"]
    for labels, value in samples:
        told = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"{name}{{{told}}} {value}\n" if told else f"{name} {value}\n")
    return lines


def _escaped(label: str) -> str:
    return one_line(label).replace("\\", "\\\\").replace('"', '\\"')
