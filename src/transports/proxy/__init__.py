"""Transports that go through somebody else's proxy, SOCKS5 or HTTP CONNECT, each through any base transport."""

from __future__ import annotations

from transports.proxy._config import make_http_connect, make_socks5
from transports.proxy._transport import HttpConnect, Socks5

__all__ = ("HttpConnect", "Socks5", "make_http_connect", "make_socks5")
