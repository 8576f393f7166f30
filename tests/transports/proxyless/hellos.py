"""ClientHellos as a real TLS library makes them, and cut in ways in which they may be cut."""

from __future__ import annotations

import ssl
from functools import cache

RECORD = b"\x16\x03\x01"


@cache
def client_hello(name: str | None = "news.example", *, alpn: tuple[str, ...] = ()) -> bytes:
    """The record with which OpenSSL begins; without a name there is no server name in it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    if alpn:
        context.set_alpn_protocols(list(alpn))
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError


def in_records(hello: bytes, *sizes: int) -> bytes:
    """The same handshake message in several records, the first of these sizes and the last of what is left."""
    message = hello[5:]
    pieces = []
    for size in sizes:
        pieces.append(message[:size])
        message = message[size:]
    return b"".join(RECORD + len(p).to_bytes(2, "big") + p for p in [*pieces, message])
