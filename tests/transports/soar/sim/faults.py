"""Faults to plant in the core, each one that a story must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from transports.soar.core.client import dial as dials
from transports.soar.core.client import session as client_sessions
from transports.soar.core.client.numbers import PacketNumbers
from transports.soar.core.client.polling import Polls
from transports.soar.core.client.recovery import Recovery
from transports.soar.core.client.repair import Verdict
from transports.soar.core.crypto import packets
from transports.soar.core.crypto.notices import EndCode, Notice
from transports.soar.core.server import admission, parking
from transports.soar.core.server.keeper import Keeper
from transports.soar.core.server.replies import Replies
from transports.soar.core.server.session import Session as ServerSession
from transports.soar.core.streams.receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

__all__ = ("FAULTS",)

Plant = "Callable[[pytest.MonkeyPatch], None]"


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
    patch.setattr(
        client_sessions, "read_notice", lambda *_: Notice(EndCode.UNKNOWN, 60.0, None)
    )


def _every_dial_is_repaired(patch: pytest.MonkeyPatch) -> None:
    def judge(*_: Any, repairs_left: int, **__: Any) -> Verdict:
        return Verdict(repairs_left > 0, True)

    patch.setattr(dials, "judge", judge)


def _every_loss_proves_that_nothing_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dials, "is_proven", lambda *_, **__: True)


def _parks_last_a_second(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parking, "HOLD", 1.0)


def _questions_go_on_when_all_is_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Polls, "lingers", lambda *_: True)
    patch.setattr(Polls, "lingered", lambda self: setattr(self, "_linger", 3))
    patch.setattr(PacketNumbers, "confirmed", property(lambda _: -1, lambda *_: None), raising=False)


def _an_ended_session_lives_on(patch: pytest.MonkeyPatch) -> None:
    end = Keeper.end

    def ends(self: Any, session: Any, code: EndCode, now: Any) -> None:
        end(self, session, code, now)
        self.tombstones._stones.clear()

    patch.setattr(Keeper, "end", ends)


def _flights_are_executed_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission.Seen, "has", lambda *_: False)
    patch.setattr(admission.Calendar, "may_execute", lambda *_: True)


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


def _an_old_credential_is_good_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        client_sessions.Session, "drain", lambda self, *_: setattr(self, "generation", 99)
    )


FAULTS = {
    plant.__name__.strip("_"): plant
    for plant in (
        _a_number_is_sealed_twice,
        _news_of_losses_is_not_heard,
        _the_floor_is_never_told,
        _no_session_is_ever_retired,
        _every_notice_is_believed,
        _every_dial_is_repaired,
        _every_loss_proves_that_nothing_came,
        _parks_last_a_second,
        _octets_are_read_twice,
        _losses_are_not_noticed,
        _some_questions_are_not_answered,
    )
}
