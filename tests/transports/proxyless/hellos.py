"""ClientHellos as the lab's tests make them, for the name that this room's tests have."""

from __future__ import annotations

from tests.racer.lab import hellos
from tests.racer.lab.hellos import in_records

__all__ = ("client_hello", "in_records")


def client_hello(name: str | None = "news.example", *, alpn: tuple[str, ...] = ()) -> bytes:
    """Return a ClientHello for `name`, in one record."""
    return hellos.client_hello(name, alpn=alpn)
