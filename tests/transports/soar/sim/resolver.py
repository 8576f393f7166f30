"""A recursive resolver between a client and the authority, with the quirks of a real one."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.transports.soar.sim.dns import SOA, Message, Query, name_labels, reply
from tests.transports.soar.sim.quirks import Full, Quirks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from tests.transports.soar.sim.world import Timer, World

__all__ = ("Resolver",)

NXDOMAIN, SERVFAIL, REFUSED = 3, 2, 5
SLOT = 10.0  # for how long dnsmasq keeps the place of a question that nobody answers


class Job:
    """One (name, type) under way: who waits for it, and which copy may still be answered."""

    __slots__ = (
        "attempt",
        "begun",
        "copies",
        "current",
        "key",
        "plan",
        "query",
        "sent_at",
        "timer",
        "wait",
        "waiting",
    )

    def __init__(self, query: Query, plan: list[tuple[int, int]], begun: float) -> None:
        self.query = query
        self.key = query.key
        self.plan = plan
        self.begun = begun
        self.waiting: list[tuple[Hashable, Query]] = []
        self.current: Query | None = None
        self.attempt = 0
        self.copies = 0
        self.sent_at = begun
        self.wait = 0.0
        self.timer: Timer | None = None


class Resolver:
    """Takes questions from clients, asks the authority in its own manner, and passes answers on.

    Args:
        world: where it lives.
        quirks: its kind.
        zone_labels: labels of the zone whose authority it asks.
        ask: sends (message, by TCP) to the authority.
        tell: sends (client, message) back.
        round_trip: of a TCP connection to the authority, seconds.
    """

    def __init__(
        self,
        world: World,
        quirks: Quirks,
        *,
        name: str,
        zone_labels: int,
        ask: Callable[[bytes, bool], None],
        tell: Callable[[Hashable, bytes], None],
        round_trip: float,
    ) -> None:
        self.quirks = quirks
        self.alive = True
        self.copies = 0
        self.refused = self.failed = 0
        self._world = world
        self._dice = world.dice(f"resolver {name}")
        self._zone_labels = zone_labels
        self._ask = ask
        self._tell = tell
        self._round_trip = round_trip
        self._jobs: dict[tuple[bytes, int], Job] = {}
        self._by_id: dict[int, Job] = {}
        self._kept: dict[tuple[bytes, int], tuple[float, Message]] = {}
        self._srtt = self._var = 0.0
        self._rto = 0.376  # Unbound's for a server that it doesn't know
        self._silent = 0
        self._throttled_until = 0.0

    # --- clients

    def receive(self, client: Hashable, message: bytes) -> None:
        if not self.alive:
            return
        query = Query.from_wire(message)
        if query is None or len(query.name) > self.quirks.longest_name:
            return
        if not self.quirks.knows_edns:
            query = replace(query, edns=None)
        if self._world.time < self._throttled_until:
            self.failed += 1
            self._tell(client, reply(query, rcode=SERVFAIL))
            return
        if (kept := self._cached(query)) is not None:
            self._finish_one(client, query, kept)
            if self.quirks.prefetches and query.key not in self._jobs:
                self._begin(query)
            return
        job = self._jobs.get(query.key)
        if job is not None:
            if any(who == client and waiting.id == query.id for who, waiting in job.waiting):
                if self.quirks.passes_repeats:
                    self._send(job)
                return
            job.waiting.append((client, query))
            return
        if len(self._jobs) >= self.quirks.limit and not self._make_room(client, query):
            return
        self._begin(query).waiting.append((client, query))

    def _make_room(self, client: Hashable, query: Query) -> bool:
        match self.quirks.full:
            case Full.IGNORES:
                return False
            case Full.REFUSES:
                self.refused += 1
                self._tell(client, reply(query, rcode=REFUSED))
                return False
            case Full.DROPS_OLDEST:
                self._fail(next(iter(self._jobs.values())))
                return True

    def _cached(self, query: Query) -> Message | None:
        for key in (query.key, (query.key[0], 0)):
            kept = self._kept.get(key)
            if kept is not None and kept[0] > self._world.time:
                return kept[1]
        return None

    # --- the authority

    def _begin(self, query: Query) -> Job:
        labels = len(name_labels(query.name)) - self._zone_labels
        job = Job(query, self.quirks.probes(labels, query.qtype), self._world.time)
        self._jobs[job.key] = job
        self._next_question(job)
        return job

    def _next_question(self, job: Job) -> None:
        job.attempt = 0
        job.begun = self._world.time
        self._send(job)

    def _send(self, job: Job, *, tcp: bool = False) -> None:
        query = job.query
        name, qtype = query.name, query.qtype
        if job.plan:
            count, qtype = job.plan[0]
            name = b"".join(name_labels(name)[-(count + self._zone_labels) :]) + b"\0"
        if self.quirks.shuffles_case:
            name = bytes(
                octet ^ 0x20 if chr(octet).isalpha() and self._dice.random() < 0.5 else octet
                for octet in name
            )
        if job.current is not None:
            self._by_id.pop(job.current.id, None)
        identity = self._dice.randrange(65536)
        while identity in self._by_id:
            identity = self._dice.randrange(65536)
        edns: int | None = query.edns if self.quirks.passes_edns else 1232
        if not self.quirks.knows_edns:
            edns = None
        elif job.attempt == 1 and self.quirks.second_edns:
            edns = self.quirks.second_edns
        job.current = Query(identity, name, qtype, edns)
        self._by_id[identity] = job
        job.sent_at = self._world.time
        job.copies += 1
        self.copies += 1
        self._ask(job.current.to_wire(rd=False), tcp)
        self._schedule(job)

    def _schedule(self, job: Job) -> None:
        if job.timer is not None:
            job.timer.cancel()
        quirks = self.quirks
        if quirks.repeats is None:
            if job.attempt % 2 == 0:
                job.wait = self._rto
            job.timer = self._world.after(job.wait, lambda: self._repeat(job))
            return
        after: float | None = None
        if job.attempt < len(quirks.repeats):
            after = quirks.repeats[job.attempt]
        elif quirks.tcp_after is not None and job.attempt == len(quirks.repeats):
            after = quirks.tcp_after
        if after is not None:
            job.timer = self._world.at(job.begun + after, lambda: self._repeat(job))
        elif quirks.gives_up is not None:
            job.timer = self._world.at(job.begun + quirks.gives_up, lambda: self._give_up(job))
        else:
            job.timer = self._world.at(job.begun + SLOT, lambda: self._forget(job))

    def _repeat(self, job: Job) -> None:
        job.attempt += 1
        quirks = self.quirks
        if quirks.repeats is None:
            if job.attempt % 2 == 0:
                self._rto = min(max(self._rto, 2 * job.wait), 120.0)
            crowd = sum(1 for other in self._jobs.values() if other.attempt) > 20
            if job.attempt >= (5 if crowd else 10):
                self._give_up(job)
                return
        self._send(
            job, tcp=quirks.tcp_after is not None and job.attempt > len(quirks.repeats or ())
        )

    def _give_up(self, job: Job) -> None:
        self._silent += 1
        if self.quirks.throttles is not None and self._silent >= self.quirks.throttles:
            self._throttled_until = self._world.time + self.quirks.throttled
            self._silent = 0
        self._fail(job)

    def _fail(self, job: Job) -> None:
        self._drop(job)
        for client, query in job.waiting:
            self.failed += 1
            self._tell(client, reply(query, rcode=SERVFAIL))

    def _forget(self, job: Job) -> None:
        self._drop(job)

    def _drop(self, job: Job) -> None:
        if job.timer is not None:
            job.timer.cancel()
        if job.current is not None:
            self._by_id.pop(job.current.id, None)
        self._jobs.pop(job.key, None)

    def answer(self, message: bytes, tcp: bool) -> None:
        """Take what the authority says; only the newest copy's answer counts."""
        if not self.alive:
            return
        told = Message.from_wire(message)
        if told is None:
            return
        job = self._by_id.get(told.id)
        if job is None or job.current is None:
            return
        if told.name != job.current.name or told.qtype != job.current.qtype:
            return
        self._silent = 0
        self._learn(self._world.time - job.sent_at)
        if told.truncated and not tcp:
            self._world.after(self._round_trip, lambda: self._send_tcp(job))
            return
        if job.plan and not (self.quirks.punishes and told.rcode == REFUSED):
            if told.rcode in (NXDOMAIN, SERVFAIL, REFUSED):
                self._end_probes(job, told)
            else:
                job.plan.pop(0)
            self._next_question(job)
            return
        if told.rcode in (SERVFAIL, REFUSED):
            self._fail(job)
            return
        self._drop(job)
        self._keep(job, told)
        for client, query in job.waiting:
            self._finish_one(client, query, told)

    def _end_probes(self, job: Job, told: Message) -> None:
        is_partial = len(told.name) < len(job.query.name)
        job.plan.clear()
        if self.quirks.checks_nxdomain and is_partial and told.rcode == NXDOMAIN:
            partial = replace(job.query, name=told.name, qtype=told.qtype)
            if partial.key not in self._jobs:
                # It is asked for as it is, whatever else would be minimised.
                self._jobs[partial.key] = check = Job(partial, [], self._world.time)
                self._next_question(check)

    def _send_tcp(self, job: Job) -> None:
        if self._jobs.get(job.key) is job:
            self._send(job, tcp=True)

    def _learn(self, sample: float) -> None:
        if self._srtt:
            self._var += (abs(sample - self._srtt) - self._var) / 4
            self._srtt += (sample - self._srtt) / 8
        else:
            self._srtt, self._var = sample, sample / 2
        # On a link without jitter the first repeat came 30 ms after the round trip.
        self._rto = max(0.05, self._srtt + max(4 * self._var, 0.03))

    def _keep(self, job: Job, told: Message) -> None:
        if self.quirks.keeps:
            key = (job.key[0], 0) if self.quirks.keeps_all_types and not told.answers else job.key
            self._kept[key] = (self._world.time + self.quirks.keeps, told)
            if len(self._kept) > 20_000:
                now = self._world.time
                self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > now}

    def _finish_one(self, client: Hashable, query: Query, told: Message) -> None:
        records = told.records
        if self.quirks.lowers_soa and not told.answers:
            records = _lowered(records)
        whole = reply(query, rcode=told.rcode, source=told, records=records)
        limit = query.edns or (512 if self.quirks.limits_plain else 65_535)
        if len(whole) > min(limit, 1232 if self.quirks.limits_plain else 65_535):
            whole = reply(query, rcode=told.rcode, truncated=True)
        self._tell(client, whole)


def _lowered(records: bytes) -> bytes:
    """Return one SOA record with the names inside it in lower case; pointers, and what is damaged, stay as they are."""
    try:
        return _lower(bytearray(records))
    except (IndexError, struct.error):
        return records


def _lower(out: bytearray) -> bytes:
    at = 0
    while out[at] and out[at] < 0xC0:
        at += 1 + out[at]
    at += 2 if out[at] else 1
    if struct.unpack_from("!H", out, at)[0] != SOA:
        return bytes(out)
    at += 10
    for _ in range(2):
        while out[at] and out[at] < 0xC0:
            label = slice(at + 1, at + 1 + out[at])
            out[label] = bytes(out[label]).lower()
            at = label.stop
        at += 2 if out[at] else 1
    return bytes(out)
