"""The doctor: finds out what is wrong between this machine and a host, and says in words what to try.

`racer doctor HOST` is this on the command line. A program examines a dialer of its own:

    async with racer.Dialer([...]) as dialer:
        diagnosis = await racer.doctor.examine(dialer, "news.example", resolvers=["udp://192.0.2.53"])
    print(diagnosis)

Resolvers, transports, the clock and the collector of telemetry are looked at side by side, each within its time. A guest
brings checks of its own by `racer.abc.Guest.diagnose`.
"""

from __future__ import annotations

from racer._finding import Finding, Verdict
from racer.doctor._asking import Resolver, Ways
from racer.doctor._configuration import check_configuration, resolvers_of
from racer.doctor._diagnosis import Diagnosis
from racer.doctor._examination import DEFAULT_HOST, DEFAULT_LIMIT, DEFAULT_REPEATS, examine

__all__ = (
    "DEFAULT_HOST",
    "DEFAULT_LIMIT",
    "DEFAULT_REPEATS",
    "Diagnosis",
    "Finding",
    "Resolver",
    "Verdict",
    "Ways",
    "check_configuration",
    "examine",
    "resolvers_of",
)
