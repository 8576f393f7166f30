"""Whether this machine knows what time it is: by the host's certificate, by its Date, and by whether the clock jumps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.streams.tls import TLSAttribute

from racer._cleanup import close_within
from racer._connection import Connection
from racer._finding import Finding, Verdict
from racer._remedies import REMEDIES
from racer._target import Target
from racer.doctor._unverified import unverified
from racer.errors import DialError, NoTransports, RacerError

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer._dialer import Dialer

__all__ = ("Seen", "judge_clock", "judge_jump", "see_dates")

_JUMP: Final = 2.0  # seconds by which the two clocks may drift apart while the doctor looks
_ODD: Final = 60.0  # seconds of skew that are worth a word: some protocols bear no more
_WRONG: Final = 3600.0
_MAX_HEAD: Final = 16_384  # octets of a response's head


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a host says about time. Seconds since 1970.

    Attributes:
        now: what this machine's clock said then.
        not_before, not_after: when the host's certificate is valid; `None` if it was not seen.
        date: what the host says it is; likewise.
        error: why nothing was seen.
    """

    now: float
    not_before: float | None = None
    not_after: float | None = None
    date: float | None = None
    error: str = ""


async def see_dates(dialer: Dialer, target: Target, *, now: float, limit: float) -> Seen:
    """Return what the host says about time; nothing is verified, and nothing but a request for its front page is sent.

    A machine whose clock is wrong can verify no certificate: that is why.

    Args:
        dialer: by whose entrants the host is reached.
        target: the host; one without TLS shows nothing.
        now: this machine's time, in seconds since 1970.
        limit: seconds for all of it.
    """
    if target.tls is False:
        return Seen(now=now, error="the host is asked for without TLS")
    began = anyio.current_time()
    try:
        with anyio.fail_after(limit):
            async with dialer.race(Target(target.host, target.port, tls=False)) as race:
                connection = await anext(race)
            try:
                if not isinstance(connection, Connection):
                    return Seen(now=now, error="no stream to the host was to be had")
                valid, date = await _look(connection, target)
            finally:
                await close_within(connection, scope=anyio.CancelScope())
    except (DialError, NoTransports):
        return Seen(now=now, error="the host was not reached")
    except TimeoutError:
        return Seen(now=now, error=f"the host said nothing within {limit:g} s")
    except (OSError, RacerError, anyio.EndOfStream, anyio.BrokenResourceError):
        return Seen(now=now, error="the connection was cut before the host said anything")
    # The Date was said at about the end of this.
    return Seen(
        now=now + anyio.current_time() - began,
        not_before=valid[0],
        not_after=valid[1],
        date=date,
    )


async def _look(
    connection: Connection, target: Target
) -> tuple[tuple[float | None, float | None], float | None]:
    stream = await unverified(connection, target.server_hostname)
    certificate = stream.extra(TLSAttribute.peer_certificate_binary, None)
    date: float | None = None
    try:
        with anyio.move_on_after(3.0):
            date = _date_in(await _head(stream, target))
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        pass  # no HTTP: the certificate says enough
    return _validity(certificate), date


async def _head(stream: ByteStream, target: Target) -> bytes:
    request = f"HEAD / HTTP/1.1\r\nHost: {target.server_hostname}\r\nConnection: close\r\n\r\n"
    await stream.send(request.encode("ascii"))
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
        head += await stream.receive()
    return head


def _date_in(head: bytes) -> float | None:
    """Return the Date of a response's head; total."""
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "date":
            try:
                return parsedate_to_datetime(value.strip()[:40]).timestamp()
            except (TypeError, ValueError, OverflowError):
                return None
    return None


def _validity(certificate: bytes | None) -> tuple[float | None, float | None]:
    if not certificate:
        return None, None
    from cryptography import x509  # noqa: PLC0415 - loaded when a certificate is there to be read

    try:
        read = x509.load_der_x509_certificate(certificate)
        return read.not_valid_before_utc.timestamp(), read.not_valid_after_utc.timestamp()
    except ValueError:
        return None, None


def judge_clock(seen: Seen, host: str) -> Finding:
    """Return whether this machine's clock can be right. Pure."""
    skew = None if seen.date is None else seen.now - seen.date
    data: dict[str, Any] = {
        "skew": None if skew is None else round(skew, 1),
        "certificate_begins": _shown(seen.not_before),
        "certificate_ends": _shown(seen.not_after),
    }
    if seen.error or (seen.not_before is None and skew is None):
        words = f"The clock could not be compared with {host}: {seen.error or 'it says no time'}."
        return Finding(check="clock", verdict=Verdict.SKIPPED, words=words)
    verdict, words = _compared(seen, host, skew)
    advice = REMEDIES["clock"][1] if verdict is not Verdict.OK else ()
    return Finding(check="clock", verdict=verdict, words=words, advice=advice, data=data)


def _compared(seen: Seen, host: str, skew: float | None) -> tuple[Verdict, str]:
    now = _shown(seen.now)
    if skew is not None and abs(skew) >= _WRONG:
        return Verdict.FAIL, (
            f"The clock of this machine is wrong: it says {now}, {_apart(skew)} {host}, which says {_shown(seen.date)}. "
            "No certificate can be verified with it."
        )
    if seen.not_before is not None and seen.now < seen.not_before:
        return Verdict.FAIL, (
            f"The clock of this machine is behind: it says {now}, and the certificate of {host} is valid only from "
            f"{_shown(seen.not_before)}."
        )
    if seen.not_after is not None and seen.now > seen.not_after:
        reason = (
            "the clock is right by the host's own: its owner let it expire"
            if skew is not None
            else "the clock is ahead, or its owner let it expire"
        )
        return Verdict.FAIL, (
            f"The certificate of {host} ended on {_shown(seen.not_after)}, and it is {now}: {reason}."
        )
    if skew is not None and abs(skew) >= _ODD:
        return Verdict.WARN, f"The clock of this machine is {_apart(skew)} {host}."
    if skew is None:
        return Verdict.OK, f"The clock fits the certificate of {host}."
    return Verdict.OK, f"The clock agrees with {host}, within {max(1, round(abs(skew)))} s."


def _apart(skew: float) -> str:
    """Return a skew in words: `3 days ahead of`."""
    size = abs(skew)
    for unit, length in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if size >= length:
            number = round(size / length)
            plural = "" if number == 1 else "s"
            return f"{number} {unit}{plural} {'ahead of' if skew > 0 else 'behind'}"
    return f"{round(size)} s {'ahead of' if skew > 0 else 'behind'}"


def _shown(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def judge_jump(*, wall: float, loop: float) -> Finding | None:
    """Return a finding if this machine's two clocks did not run alike while it was looked at.

    Args:
        wall: seconds that passed on the clock that tells the time of day.
        loop: seconds that passed on the one that nobody sets.
    """
    jump = wall - loop
    if abs(jump) < _JUMP:
        return None
    words = f"The clock of this machine jumped by {jump:+.0f} s while the doctor looked: it was set, or the machine slept."
    return Finding(check="clock jump", verdict=Verdict.WARN, words=words, data={"jump": jump})
