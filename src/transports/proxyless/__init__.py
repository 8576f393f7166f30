"""The transport that gets past filters of names without anybody's help: the right resolver, and cuts in the right places."""

from __future__ import annotations

from transports.proxyless._config import make
from transports.proxyless._strategies import Strategy, parse_strategy
from transports.proxyless._transport import Proxyless

__all__ = ("Proxyless", "Strategy", "make", "parse_strategy")
