"""What must hold of every run: the ten invariants, each by its number.

1. No key and nonce seals two texts: `seals.watched_seals`, around every run.
2. Octets arrive whole, in order, once (`pattern.Checker`), or the flow fails for a reason that can be: `check_ends`.
3. Every dial and every flow comes to an end: `check_ends`.
4. An unproven message changes no session: `check_unchanged`, by `ClientHost.inject`.
5. A target is met once for each dial, unless the dial was replay safe and says that it was repaired: `check_visits`.
6. Streams open only on sessions that may take them: `check_session_of`, at each dial and each repair.
7. What is idle asks nothing: `check_quiet`; an idle stream asks seldom: `check_idle_stream`.
8. Memory is bounded: `check_memory`.
9. A server ends no session whose client still asks: `check_end_of`, at each end.
10. Every question is answered in time: `check_answers`; octets go on: `check_pace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transports.soar.core.client.questions import Fate
from transports.soar.core.client.reasons import EndReason, Failure
from transports.soar.core.client.states import OPENABLE, SessionState
from transports.soar.core.crypto.notices import EndCode
from transports.soar.core.server.early import MAX_OCTETS
from transports.soar.core.server.pieces import MAX_PARTIALS
from transports.soar.core.server.tombstones import MAX_TOMBSTONES

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.transports.soar.sim.client_host import ClientHost
    from tests.transports.soar.sim.flow import Flow
    from tests.transports.soar.sim.server_host import ServerHost
    from transports.soar.core.client.client import Client
    from transports.soar.core.client.session import Session

__all__ = (
    "POSSIBLE",
    "check_answers",
    "check_end_of",
    "check_ends",
    "check_idle_stream",
    "check_memory",
    "check_pace",
    "check_quiet",
    "check_session_of",
    "check_unchanged",
    "check_visits",
    "client_snapshot",
)

LONGEST_WAIT_S = 0.65  # SPEC 13.5, and what a link may add to the count
LONGEST_DIAL_S = (
    2 * (30.0 + 60.0) + 1.0
)  # handshake and silence (SPEC 14.5), and the same for a repair
KNOWN_FOR_STEP_S = 1 / 256  # by which a welcome may say less than it knows (SPEC 7.6)
FIRST_MOMENTS_S = 3.0  # two seconds, a park, and what a question is held back by
MOST_IN_THE_FIRST = 12
MOST_IN_A_SECOND = 2
MOST_OF_A_SESSION = 4 << 20
MOST_OF_AN_IDLE_SESSION = 20 << 10
MOST_RECORDS_OF_AN_IDLE_SESSION = 128  # packet numbers that it still knows

POSSIBLE = frozenset(
    {Failure.LOST, Failure.ENDED, Failure.SILENT, Failure.REFUSED, Failure.CREDENTIAL}
)
"""Reasons for which a flow may fail, if something in its story can be the cause."""


# --- 2, 3, 5: flows and targets


def check_ends(host: ClientHost, *, may: Collection[Failure], server_began: float) -> None:
    """Everything is over, in time, and failed only for reasons in `may`, or since the server was so young."""
    for flow in host.flows:
        assert flow.done, f"it hangs: {flow}"
        assert flow.settled_awake is not None
        took = flow.settled_awake - flow.began_awake
        is_timed = not flow.was_cancelled and flow.kind != "unreachable"
        assert took <= LONGEST_DIAL_S or not is_timed, f"{took:.1f} s for {flow}"
        error = flow.error
        if isinstance(error, EndReason):
            is_possible = error.failure in may or _is_unprovable(flow, error, server_began)
            assert is_possible, f"nothing could cause {flow}"
            assert error.failure is not Failure.REFUSED or flow.kind == "refuse", flow
        elif error is not None:
            raise AssertionError(f"a target that never resets did: {flow}")


def _is_unprovable(flow: Flow, error: EndReason, server_began: float) -> bool:
    """Whether the welcome took longer than the server had been there when the flow began.

    It cannot deny then that an earlier process executed the same first message (SPEC 7.11, 16.4).
    """
    if error.failure is not Failure.LOST or flow.replay_safe or flow.opened is not None:
        return False
    assert flow.ended is not None
    return flow.began - server_began < flow.ended - flow.began + KNOWN_FOR_STEP_S


def check_visits(server: ServerHost, hosts: list[ClientHost]) -> None:
    """No target is met twice for one dial, unless an unproven repair says so; none for a dial that says none was."""
    met: dict[str, int] = {}
    for visit in server.origin.visits:
        met[visit.name] = met.get(visit.name, 0) + 1
    for host in hosts:
        for flow in host.flows:
            times = met.get(flow.target, 0)
            unproven = sum(not repair.proven for repair in flow.repairs)
            assert flow.replay_safe or not unproven, f"an unsafe repair of {flow}"
            assert times <= 1 + unproven, f"{times} visits for {flow}"
            if isinstance(flow.error, EndReason) and flow.error.may_have_reached is False:
                assert times == unproven == 0 or unproven, f"a visit was denied: {flow}"
            if flow.opened is not None:
                assert times, f"no visit for {flow}"


# --- 4: what nobody may change


def _session(session: Session) -> tuple[Any, ...]:
    return (
        session.number,
        session.state,
        session.generation,
        session.activity,
        session.session_idle,
        session.is_established,
        session.packets.numbers.floor,
        session.table.live,
    )


def client_snapshot(core: Client) -> tuple[Any, ...]:
    """Return what sessions are like, and which questions may still be answered."""
    return (
        tuple(_session(session) for session in core._pool.sessions),
        tuple(
            (path.index, question.id, question.fate is Fate.ANSWERED)
            for path in core._paths.values()
            for question in path.recovery.pending.values()
        ),
    )


def check_unchanged(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    """An unproven message has changed nothing in a snapshot, but that a session may have come to rest.

    A hint may give up a question at once (SPEC 12.4): if others have brought all that it carried, nothing is left to do.
    """
    sessions, questions = before
    changed = tuple(
        (old[0], new[1], *old[2:])
        if (old[1], new[1]) == (SessionState.LIVE, SessionState.IDLE)
        else old
        for old, new in zip(sessions, after[0], strict=False)
    )
    assert after == (changed, questions), f"an unproven message changed\n  {before} to\n  {after}"


# --- 6, 9: sessions


def check_session_of(host: ClientHost, flow: Flow, before: tuple[Any, ...]) -> None:
    """A dial's stream is on a session that could take it; `before` is a snapshot of the moment before."""
    dial = flow.dial
    assert dial is not None
    if dial.session < 0:
        return
    pool = host.core._pool
    (session,) = (each for each in pool.sessions if each.number == dial.session)
    assert session.state in OPENABLE, f"a stream on {session}"
    assert session.generation == pool.generation, "a stream under an old credential"
    known = {each[0]: each for each in before[0]}
    if session.number in known and known[session.number][1] is SessionState.IDLE:
        idle = host.now().elapsed - known[session.number][3]
        assert idle < host.most_idle, f"a stream on a session that was idle for {idle:.1f} s"


def check_end_of(hosts: list[ClientHost], sid: bytes, code: EndCode, idle_timeout: float) -> None:
    """A session that the server ends for silence has had no answer to anything newer than that."""
    if code is not EndCode.UNKNOWN:
        return
    for host in hosts:
        for session in host.core._pool.sessions:
            first = session.packets.first
            if first is not None and first.sid == sid:
                heard = host.now().elapsed - session.activity
                assert heard >= idle_timeout - 0.001, f"ended {heard:.3f} s after a sign of life"


# --- 7: questions


def check_quiet(host: ClientHost, asked_before: int, *, most: int = 0) -> None:
    """A client without stream and queue has asked nothing since; `most` are those of a warm session."""
    asked = host.asked - asked_before
    assert asked <= most, f"{asked} questions of an idle client"


def check_idle_stream(host: ClientHost, since: float, until: float) -> None:
    """An idle stream asks at most twice in any second, and once on the average; in its first moments more often.

    Two polls are kept out for two seconds (SPEC 13.2), and a resolver that repeats ends each after a quarter of a second,
    or sooner by a fourth copy (13.4).
    """
    times = [at for at in host.asked_at if since <= at <= until]
    for index, at in enumerate(times):
        within = sum(1 for later in times[index:] if later < at + 1.0)
        most = MOST_IN_A_SECOND if at > since + FIRST_MOMENTS_S else MOST_IN_THE_FIRST
        assert within <= most, f"{within} questions in the second from {at:.2f} s on"
    settled = since + 6.0
    late = sum(1 for at in times if at >= settled)
    assert late <= (until - settled) + 1, f"{late} questions in {until - settled:.0f} s"


# --- 8: memory


def check_memory(server: ServerHost, hosts: list[ClientHost], *, is_idle: bool = False) -> None:
    """Nothing has grown past its bound, and what is idle holds next to nothing."""
    server.look()
    assert server.most_held <= MOST_OF_A_SESSION, f"a session held {server.most_held} octets"
    core = server.core
    if core is not None:
        status = core.status(server.clock.now())
        assert status.in_part <= MAX_PARTIALS
        assert core._keeper.early.octets <= MAX_OCTETS
        assert status.tombstones <= MAX_TOMBSTONES
        sessions = list(core._keeper.table)
        held = sum(session.octets for session in sessions)
        assert abs(status.octets - held) <= 4_096 * len(sessions), (
            f"the server counts {status.octets} octets, and sessions hold {held}"
        )
        if is_idle:
            for session in sessions:
                assert session.octets <= MOST_OF_AN_IDLE_SESSION, f"idle, with {session.octets}"
                assert not session.streams._handles, "idle, with streams"
                assert len(session.records) <= MOST_RECORDS_OF_AN_IDLE_SESSION, (
                    f"idle, with {len(session.records)} packet numbers"
                )
    if is_idle:
        for host in hosts:
            for path in host.core._paths.values():
                waiting = path.recovery.pending.values()
                is_free = host.settings.keep_warm or all(q.fate is Fate.LOST for q in waiting)
                assert is_free, "questions that wait forever"
            for own in host.core._pool.sessions:
                assert not own.table.live, "an idle session has streams"


# --- 10: answers and progress


def check_answers(server: ServerHost, now: float) -> None:
    """Every question was answered, in time."""
    assert server.longest_wait <= LONGEST_WAIT_S, f"a question waited {server.longest_wait:.3f} s"
    overdue = [since for since in server.waiting.values() if now - since > LONGEST_WAIT_S]
    assert not overdue, f"{len(overdue)} questions were never answered"


def check_pace(host: ClientHost, seconds: float = 10.0) -> None:
    """Octets of every flow that reads and writes without pause have gone on in any `seconds`."""
    for flow in host.flows:
        if flow.kind in ("get", "put") or (flow.kind == "echo" and not flow.stays):
            longest = host.paces.longest(flow.target)
            assert longest <= seconds, f"nothing for {longest:.1f} s: {flow}"
