"""An HTTP/2 client that survives cancellation, for one connection: a driver of its own on `h2` (RFC 9113).

It knows no HTTP library and no pool, and is open to guests: `HTTP2Connection` takes any byte stream that has settled on `h2`,
and a host for its two tasks. `HTTP2Protocol` is the same without IO.
"""

from __future__ import annotations

from racer.http2._connection import HTTP2Body, HTTP2Connection
from racer.http2._fault import Fault
from racer.http2._frames import GoAway, GoAwayFilter
from racer.http2._protocol import HTTP2Protocol, Stream, StreamFailure
from racer.http2._upload import Upload

__all__ = (
    "Fault",
    "GoAway",
    "GoAwayFilter",
    "HTTP2Body",
    "HTTP2Connection",
    "HTTP2Protocol",
    "Stream",
    "StreamFailure",
    "Upload",
)
