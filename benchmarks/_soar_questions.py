"""A session of Soar's by hand, whose questions are made before anything is measured."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from transports.soar.core.crypto import FirstMessage, Info, Kind, SizeClass, Terms
from transports.soar.core.dns.answers import Form, read_answer
from transports.soar.core.dns.questions import build_question
from transports.soar.core.dns.zone import Zone
from transports.soar.core.streams.frames import Challenge, decode, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.crypto import PublicKey
    from transports.soar.core.streams.frames import Frame

__all__ = ("ZONE", "Session")

ZONE: Final = Zone.parse("t.example.com")


class Session:
    """The client's side.

    Args:
        public: the server's key.
        wall: Unix seconds; now by default.
    """

    def __init__(self, public: PublicKey, *, wall: float | None = None) -> None:
        self._first = FirstMessage(
            public=public,
            zone=ZONE.wire,
            wall=time.time() if wall is None else wall,
            frames=b"",
            capacity=ZONE.classes[1].capacity,
            entropy=os.urandom,
        )
        self._id = 0

    def shake(self, ask: Callable[[bytes], list[bytes]]) -> None:
        """Begin the session; `ask` sends a question and returns what is answered to it and before it."""
        packets = self._first.fragments(ZONE.classes[1].capacity, form=Form.DS, entropy=os.urandom)
        for packet in packets:
            for message in ask(self._question(packet, 1)):
                payload = read_answer(message).payload
                if payload and isinstance(self._first.receive(payload), Terms):
                    return
        msg = "the server gave no welcome"
        raise RuntimeError(msg)

    def question(self, *frames: Frame, name_class: int = 1, may_park: bool = False) -> bytes:
        """Return the next question."""
        return self.numbered(*frames, name_class=name_class, may_park=may_park)[1]

    def numbered(
        self, *frames: Frame, name_class: int = 1, may_park: bool = False
    ) -> tuple[int, bytes]:
        """Return the next packet's number, and its question."""
        number = self._first.seals.next_number
        packet = self._first.seals.seal_packet(
            Kind.DATA,
            Form.DS,
            number,
            Info(0, SizeClass.OCTETS_1232, may_park),
            b"".join(map(encode_frame, frames)),
            capacity=ZONE.classes[name_class].capacity,
            zone_index=0,
        )
        return number, self._question(packet, name_class)

    def frames(self, number: int, message: bytes) -> list[Frame]:
        """Return what the answer to a packet says."""
        payload = read_answer(message).payload
        opened = None if payload is None else self._first.seals.open_answer(number, payload)
        if opened is None:
            msg = "that is no authentic answer"
            raise RuntimeError(msg)
        return decode(opened.frames, from_client=False)

    def token(self, number: int, message: bytes) -> bytes:
        """Return the token of the CHALLENGE in an answer."""
        found = [f for f in self.frames(number, message) if isinstance(f, Challenge)]
        return found[0].token

    def _question(self, packet: bytes, name_class: int) -> bytes:
        self._id = (self._id + 1) & 0xFFFF
        octet = os.urandom(1)[0]
        name = ZONE.encode(packet, number=name_class, selector=octet & 31, flag=octet >> 3 & 30)
        return build_question(self._id, name, Form.DS.qtype, edns=True)
