"""A sans-IO machine of the proxy's fed with bytes, cut anywhere, and all that it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from racer.proxy._doorway import Doorway
from racer.proxy._requests import Refusal
from racer.proxy._users import Users

if TYPE_CHECKING:
    from collections.abc import Iterable

    from racer.proxy._doorway import Nobody
    from racer.proxy._http import HttpServer
    from racer.proxy._requests import Event
    from racer.proxy._socks5 import Socks5Server

ANYBODY = Users(None)
ALICE = Users({"alice": "s3cret"})


@dataclass(frozen=True, kw_only=True)
class Talk:
    """What came of it: events in order, and what was sent."""

    events: list[Event]
    said: bytes
    machine: HttpServer | Socks5Server | Nobody | None


def talk(
    pieces: Iterable[bytes],
    *,
    users: Users = ANYBODY,
    pages: bool = False,
    own_address: str | None = "127.0.0.1",
) -> Talk:
    """Feed a client's bytes as the driver does, until it wants something that ends the handshake."""
    machine: HttpServer | Socks5Server | Nobody | None = None
    events: list[Event] = []
    said = b""
    for piece in pieces:
        if machine is None:
            machine = Doorway(users, pages=pages, own_address=own_address).open(piece)
        else:
            machine.receive_data(piece)
        while True:
            event = machine.next_event()
            said += machine.bytes_to_send()
            if event is None:
                break
            events.append(event)
            if not isinstance(event, Refusal) or event.is_final:
                return Talk(events=events, said=said, machine=machine)
    return Talk(events=events, said=said, machine=machine)


def split(data: bytes) -> list[bytes]:
    """Return data cut at every byte."""
    return [data[index : index + 1] for index in range(len(data))]
