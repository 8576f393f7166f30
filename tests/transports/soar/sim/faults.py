"""Faults to plant in the core, each one that a story must notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transports.soar.core.client import dial as dials
from transports.soar.core.client import session as client_sessions
from transports.soar.core.client.recovery import Recovery
from transports.soar.core.crypto import packets
from transports.soar.core.crypto.notices import EndCode, Notice
from transports.soar.core.server import parking
from transports.soar.core.server.replies import Replies
from transports.soar.core.server.session import Session as ServerSession
from transports.soar.core.streams.receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    import pytest

__all__ = ("FAULTS",)


def _a_number_is_sealed_twice(patch: pytest.MonkeyPatch) -> None:
    """The nonce of an answer forgets its lowest bit."""
    seal = packets.ServerSeals.seal_answer

    def sealed(self: Any, number: int, *rest: Any) -> bytes:
        self._numbers._words.clear()
        return seal(self, number & ~1, *rest)

    patch.setattr(packets.ServerSeals, "seal_answer", sealed)


def _news_of_losses_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServerSession, "_lose", lambda *_: None)


def _the_floor_is_never_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServerSession, "_raise_floor", lambda *_: None)


def _no_session_is_ever_retired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(client_sessions.Session, "has_expired", lambda *_: False)


def _every_notice_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(client_sessions, "read_notice", lambda *_: Notice(EndCode.UNKNOWN, 60.0, None))


def _every_loss_proves_that_nothing_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dials, "is_proven", lambda *_, **__: True)


def _parks_last_a_second(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parking, "HOLD", 1.0)


def _octets_are_read_twice(patch: pytest.MonkeyPatch) -> None:
    read = ReceiveBuffer.read

    def again(self: Any, most: int) -> bytes:
        data = bytes(read(self, most))
        return data + data[-1:] if len(data) > 500 else data

    patch.setattr(ReceiveBuffer, "read", again)


def _losses_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "detect", lambda *_: [])
    patch.setattr(Recovery, "deadline", lambda *_: None)


def _some_questions_are_not_answered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replies, "empty", lambda *_: None)


FAULTS = {
    plant.__name__.strip("_"): plant
    for plant in (
        _a_number_is_sealed_twice,
        _news_of_losses_is_not_heard,
        _the_floor_is_never_told,
        _no_session_is_ever_retired,
        _every_notice_is_believed,
        _every_loss_proves_that_nothing_came,
        _parks_last_a_second,
        _octets_are_read_twice,
        _losses_are_not_noticed,
        _some_questions_are_not_answered,
    )
}
