"""Whether a guest can take a request at all: its size, and whether the answer is to come bit by bit (H5). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from racer.abc import RequestTransport

if TYPE_CHECKING:
    from racer.abc import Guest
    from racer.http._messages import Request

__all__ = ("accepts_events", "reason_against", "size_of")

_EVENT_STREAM = "text/event-stream"
_MAX_ACCEPT = 4096  # a longer header is cut: what matters stands in front


def reason_against(guest: Guest, request: Request, accept: bytes) -> str | None:
    """Return why a guest cannot take a request; `None` when it can. Guests that give streams take any.

    Args:
        guest: who is asked.
        request: about what.
        accept: the request's `Accept`.
    """
    if not isinstance(guest, RequestTransport):
        return None
    traits = guest.traits
    if not traits.streaming and accepts_events(accept):
        return "it cannot stream, and an event stream is asked for"
    if (most := traits.max_request_bytes) is None:
        return None
    size = size_of(request)
    if size is None:
        return f"a request of unknown length; it takes at most {most} bytes"
    if size > most:
        return f"a request of {size} bytes, headers included; it takes at most {most}"
    return None


def size_of(request: Request) -> int | None:
    """Return a request's bytes, headers included, as HTTP/1.1 writes them; `None` when its body's length is unknown."""
    if (body := request.upload.length) is None:
        return None
    line = len(request.method) + len(request.target) + len("  HTTP/1.1\r\n")
    headers = sum(len(name) + len(value) + len(": \r\n") for name, value in request.headers)
    return line + headers + len("\r\n") + body


def accepts_events(accept: bytes) -> bool:
    """Return whether an `Accept` header asks for an event stream (RFC 9110 §12.5.1): by name, with a weight above 0.

    `text/*` and `*/*` ask for nothing special.
    """
    for item in accept[:_MAX_ACCEPT].decode("latin-1").split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        if kind == _EVENT_STREAM:
            weights = [each.partition("=")[2] for each in parameters if each.startswith("q=")]
            return not weights or weights[-1].strip("0.") != ""
    return False
