"""Requests and responses of the lab's small HTTP servers, whichever version carries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ("MAX_BODY", "Request", "Respond", "Response")

MAX_BODY = 65_535
"""Octets of a request's body that are taken; no DNS message is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, read to its end.

    Attributes:
        method: such as `POST`.
        target: what was asked for: a path and query, or whatever else stood there.
        headers: names in lower case, and values.
        body: what came with it.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return the first value of a header; empty when there is none."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response; whoever sends it adds its length.

    Attributes:
        status: the code.
        body: its octets.
        headers: names in lower case, and values.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Respond: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Answers a request; may take its time."""
