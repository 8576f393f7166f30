"""TLS that verifies nothing, to see who answers and what the certificate says of time; nothing it brings is believed."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio

from racer import _tls
from racer._cleanup import close_within
from racer._connection import Connection
from racer._target import Target
from racer.errors import DialError, NoTransports, RacerError

if TYPE_CHECKING:
    from anyio.abc import ByteStream
    from anyio.streams.tls import TLSStream

    from racer._dialer import Dialer

__all__ = ("another_name", "answers_under", "unverified")


async def unverified(stream: ByteStream, name: str) -> TLSStream:
    """Return `stream` under TLS with whoever answers for `name`; on an error the stream is still the caller's to close.

    Raises:
        ssl.SSLError: somebody answers, and there is no agreeing on TLS.
        NetworkError, OSError: nobody does.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return await _tls.wrap(stream, Target(name, tls=context), context)


def another_name(host: str) -> str:
    """Return a name that no filter minds and that is not the host's."""
    return "example.org" if host.endswith("example.com") else "example.com"


async def answers_under(
    dialer: Dialer, entrant: str, target: Target, name: str, *, limit: float
) -> bool | None:
    """Return whether the host's address answers when TLS asks for another name; `None` when it was not reached at all.

    Args:
        dialer: whose entrant leads there.
        entrant: its name.
        target: the host.
        name: which is asked for.
        limit: seconds for all of it.
    """
    plain = Target(target.host, target.port, tls=False)
    answers: bool | None = None
    with anyio.move_on_after(limit):
        try:
            async with dialer.race(plain, only=entrant) as race:
                connection = await anext(race)
        except (DialError, NoTransports):
            return None
        try:
            answers = False
            if isinstance(connection, Connection):
                await unverified(connection, name)
                answers = True
        except ssl.SSLError:
            answers = (
                True  # it has another certificate, or none for this name; but it has heard the name
            )
        except (OSError, RacerError):
            pass
        finally:
            await close_within(connection, scope=anyio.CancelScope())
    return answers
