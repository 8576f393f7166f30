"""What a client has to say about itself, for whoever asks the dialer (T3, S16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.abc import SessionStatus, TransportStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from racer.abc import AttributeValue
    from transports.soar._ways import Way
    from transports.soar.core.client.client import ClientStatus, PathStatus

__all__ = ("CLOSED", "NOT_STARTED", "describe")

CLOSED: Final = TransportStatus(health="closed")
NOT_STARTED: Final = TransportStatus(health="not started")


def describe(
    status: ClientStatus,
    ways: Sequence[Way],
    failures: Mapping[int, str],
    failed: Mapping[int, int],
) -> TransportStatus:
    """Return sessions, newest first, and what is known of each way.

    Args:
        status: the core's.
        ways: in the order of the core's paths.
        failures: the last failure of each way, in words, where nothing has been heard since.
        failed: how often each way has failed, where it ever did.
    """
    details: dict[str, AttributeValue] = {}
    silent: list[str] = []
    for index, (way, path) in enumerate(zip(ways, status.paths, strict=True)):
        failure = failures.get(index, "") or way.carrier.trouble
        details[way.label] = _path(path, failed.get(index, 0), failure)
        if failure or path.is_dead:
            silent.append(way.label)
    health = f"no answer from {', '.join(silent)}" if silent else "ok"
    if status.is_stale:
        health = f"the warm session could not be confirmed anew; {health}"
    return TransportStatus(
        health=health,
        sessions=tuple(
            SessionStatus(
                id=str(session.number),
                state=session.state.value,
                streams=session.streams,
                idle=session.idle,
            )
            for session in reversed(status.sessions)
        ),
        details=details,
    )


def _path(path: PathStatus, failed: int, failure: str) -> str:
    heard = "no answer yet" if path.round_trip is None else f"{path.round_trip * 1000:.0f} ms"
    said = f"{path.form}, {heard}, {path.in_flight} of {path.window} questions under way"
    if failed:
        said += ", failed once" if failed == 1 else f", failed {failed} times"
    return f"{said}, {failure}" if failure else said
