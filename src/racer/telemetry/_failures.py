"""Why an export failed, in words: read from what the exporters log, which is the only place where they say it.

Their lines go no further while ours export: one for every try, as they write them, would flood a program's log. Lines of
exporters that are not ours, which run in other threads, are left alone.
"""

from __future__ import annotations

import logging
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from racer._words import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ("Failure", "Hearing", "Kind")

_LOGGERS: Final = ("opentelemetry", "urllib3", "grpc")
_MAX_WORDS: Final = 300
_MAX_CHAIN: Final = 12


class Kind(Enum):
    """What kind of failure."""

    UNREACHABLE = "unreachable"
    SLOW = "slow"
    UNTRUSTED = "untrusted"
    REFUSED = "refused"
    CRASHED = "crashed"
    OVERFLOWED = "overflowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why nothing was taken.

    Attributes:
        kind: what of.
        code: the status that came back, as HTTP or gRPC name it; empty if none came.
        words: what was said.
    """

    kind: Kind
    code: str = ""
    words: str = ""

    def __str__(self) -> str:
        """Return it in one line."""
        match self.kind:
            case Kind.SLOW:
                return "no answer in time"
            case Kind.UNREACHABLE:
                return f"cannot be reached: {self.words}" if self.words else "cannot be reached"
            case Kind.UNTRUSTED:
                return f"its certificate is not trusted: {self.words}"
            case Kind.REFUSED:
                return " ".join(filter(None, ("answered", self.code, self.words)))
            case Kind.CRASHED | Kind.OVERFLOWED:
                return self.words


class Hearing(logging.Filter):
    """Hears what is logged in a thread while it exports, and keeps it from going further.

    Args:
        secrets: texts that are never repeated.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        """Hear nothing yet."""
        super().__init__()
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._heard = threading.local()

    def attach(self) -> None:
        """Begin to hear the loggers that are there; to be called once the exporters are loaded."""
        for name, logger in list(logging.root.manager.loggerDict.items()):
            if not isinstance(logger, logging.Logger):
                continue  # a name that only has others below it
            if name.partition(".")[0] in _LOGGERS and self not in logger.filters:
                # Before the SDK's own filters, which let no line pass twice in 20 s.
                logger.filters.insert(0, self)

    def detach(self) -> None:
        """Hear no more."""
        for logger in list(logging.root.manager.loggerDict.values()):
            if isinstance(logger, logging.Logger):
                logger.removeFilter(self)

    @contextmanager
    def listening(self, said: Callable[[Failure], None]) -> Iterator[None]:
        """Hear what this thread logs, and tell `said` of every failure in it."""
        self._heard.said = said
        try:
            yield
        finally:
            self._heard.said = None

    def tell(self, failure: Failure) -> None:
        """Have heard of a failure, if this thread exports."""
        said: Callable[[Failure], None] | None = getattr(self._heard, "said", None)
        if said is not None:
            said(failure)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is none of ours."""
        said: Callable[[Failure], None] | None = getattr(self._heard, "said", None)
        if said is None or record.levelno < logging.WARNING:
            return True
        if (failure := self.read(record)) is not None:
            said(failure)
        return False

    def read(self, record: logging.LogRecord) -> Failure | None:
        """Return what a line says of a failure."""
        args = record.args if isinstance(record.args, tuple) else ()
        for position, arg in enumerate(args):
            if isinstance(arg, BaseException):
                return self.of(arg)
            if (
                type(arg).__name__ == "StatusCode"
            ):  # gRPC's, with the server's words or its own behind
                details = args[position + 1 :]
                words = next((a for a in reversed(details) if isinstance(a, str)), "")
                return self.status(str(getattr(arg, "name", arg)), words)
            if isinstance(arg, int) and not isinstance(arg, bool) and 100 <= arg < 600:
                words = next((a for a in args[position + 1 :] if isinstance(a, str)), "")
                return Failure(kind=Kind.REFUSED, code=str(arg), words=self._clean(words))
        if record.exc_info and (exc := record.exc_info[1]) is not None:
            return self.of(exc)
        if (
            "ransient error" in record.msg and args and isinstance(args[0], str)
        ):  # the reason of a 429 or 5xx
            return Failure(kind=Kind.REFUSED, words=self._clean(args[0]))
        return None

    def of(self, exc: BaseException) -> Failure:
        """Return an error in words."""
        chain = _chain(exc)
        for one in chain:
            if isinstance(one, ssl.SSLCertVerificationError):
                return Failure(kind=Kind.UNTRUSTED, words=self._clean(one.verify_message))
        for one in reversed(chain):
            if isinstance(one, TimeoutError) or type(one).__name__ in {
                "ReadTimeout",
                "ConnectTimeout",
            }:
                return Failure(kind=Kind.SLOW)
            if isinstance(one, OSError) and one.strerror:
                return Failure(kind=Kind.UNREACHABLE, words=self._clean(one.strerror))
        words = self._clean(str(chain[-1]) or type(chain[-1]).__name__)
        if any(isinstance(one, OSError) for one in chain):
            return Failure(kind=Kind.UNREACHABLE, words=words)
        return Failure(kind=Kind.CRASHED, words=f"{type(exc).__name__}: {words}")

    def status(self, code: str, details: str) -> Failure:
        """Return a status of HTTP or gRPC in words."""
        words, lower = self._clean(details), details.lower()
        if code == "DEADLINE_EXCEEDED":
            return Failure(kind=Kind.SLOW, code=code)
        if code == "UNAVAILABLE":
            if "certificate" in lower or "ssl" in lower or "handshake" in lower:
                return Failure(kind=Kind.UNTRUSTED, code=code, words=words)
            if "connect" in lower or "resolution" in lower or "socket" in lower:
                return Failure(kind=Kind.UNREACHABLE, code=code, words=words)
        return Failure(kind=Kind.REFUSED, code=code, words=words)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = one_line(text)
        return text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS - 1]}…"


def _chain(exc: BaseException) -> list[BaseException]:
    """Return an error and what it came from, the innermost last; urllib3 keeps that in `reason` and in arguments."""
    chain = [exc]
    while len(chain) < _MAX_CHAIN:
        last = chain[-1]
        inner = (
            getattr(last, "reason", None),
            last.__cause__,
            last.__context__,
            *(arg for arg in last.args if isinstance(arg, BaseException)),
        )
        following = next(
            (e for e in inner if isinstance(e, BaseException) and e not in chain), None
        )
        if following is None:
            break
        chain.append(following)
    return chain
