"""The client's side of HTTP CONNECT (RFC 9110 §9.3.6, in HTTP/1.1) over h11, without IO."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import h11

from racer.errors import (
    CredentialRejected,
    LocalProtocolError,
    ProxyRefused,
    RemoteProtocolError,
    Stage,
)
from transports.proxy._statuses import asked_schemes, explain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports.proxy._credential import Credential

__all__ = ("MAX_HEADER_BYTES", "MAX_INFORMATIONAL", "ConnectClient")

MAX_HEADER_BYTES: Final = 32 * 1024
"""An answer's header may be so long; other clients allow 16 KiB to 100 KiB."""

MAX_INFORMATIONAL: Final = 8
"""Answers of 1xx before the final one; there is no reason for more than one (RFC 9110 §15.2)."""

# 407 is the one for proxies (RFC 9110 §15.5.8); tinyproxy says 401 to a credential that is wrong.
_WANTS_CREDENTIAL: Final = frozenset({401, 407})
_WORDS = re.compile(r"[A-Za-z][A-Za-z -]{0,79}")

# First octets that give away which other protocol is spoken.
_OTHERS: Final = {
    0x00: "SOCKS4",
    0x05: "SOCKS5, which Socks5 would speak",
    0x15: "TLS, which tls=True would speak",
    0x16: "TLS, which tls=True would speak",
}


class ConnectClient:
    """One CONNECT through an HTTP/1.1 proxy.

    Send `bytes_to_send()`, give what comes to `receive_data()`, until `is_done`.

    Args:
        host: a name in ASCII, which the proxy looks up, or an IP address without scope.
        port: 1 to 65535.
        headers: further fields, checked by the caller.
        credential: sent with the request, as Basic (RFC 7617).
        proxy: what errors call the proxy.

    Raises:
        ConfigError: Basic cannot carry the credential.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        headers: Iterable[tuple[bytes, bytes]] = (),
        credential: Credential | None,
        proxy: str,
    ) -> None:
        """Prepare the request."""
        self._proxy = proxy
        self._has_credential = credential is not None
        self._authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        authority = self._authority.encode("ascii")
        fields = [(b"Host", authority)]
        if credential is not None:
            credential.check_basic()
            fields.append((b"Proxy-Authorization", credential.basic()))
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)
        request = h11.Request(method=b"CONNECT", target=authority, headers=[*fields, *headers])
        self._outgoing = self._http.send(request) or b""
        self._outgoing += self._http.send(h11.EndOfMessage()) or b""
        self._first = -1
        self._informational = 0
        self._is_done = self._has_failed = False

    @property
    def is_done(self) -> bool:
        """Whether the stream now leads to the target."""
        return self._is_done

    @property
    def awaited(self) -> str:
        """What the proxy owes, in words."""
        return "its answer to the request"

    @property
    def leftover(self) -> bytes:
        """Bytes that came right behind the answer's header: the target's first."""
        return bytes(self._http.trailing_data[0]) if self._is_done else b""

    def bytes_to_send(self) -> bytes:
        """Return what is to be sent now, once; empty when it is the proxy's turn."""
        data, self._outgoing = self._outgoing, b""
        return data

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the proxy, cut anywhere.

        Raises:
            CredentialRejected: it does not accept the credential, or wants one and has none.
            ProxyRefused: it will not, or cannot, reach the target; `code` is its status.
            RemoteProtocolError: it breaks the protocol, or a bound.
            LocalProtocolError: called when it is not the proxy's turn.
        """
        if self._is_done or self._has_failed or self._outgoing:
            msg = "CONNECT: bytes received when it is not the proxy's turn"
            raise LocalProtocolError(msg)
        if not data:
            return  # h11 would take it for the end
        if self._first < 0:
            self._first = data[0]
        self._http.receive_data(data)
        try:
            self._advance()
        except BaseException:
            self._has_failed = True
            raise

    def _advance(self) -> None:
        while True:
            event = self._next_event()
            if isinstance(event, h11.InformationalResponse):
                self._informational += 1
                if self._informational > MAX_INFORMATIONAL:
                    msg = f"{self._proxy} sent more than {MAX_INFORMATIONAL} answers of 1xx and no final one"
                    raise RemoteProtocolError(msg)
            elif isinstance(event, h11.Response):
                self._judge(event)
                return
            else:
                return

    def _next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as exc:
            problem = self._malformed(exc)
        # Out here, so that h11's error is no context of ours: it quotes the line, which may echo a header of ours.
        raise RemoteProtocolError(problem)

    def _judge(self, answer: h11.Response) -> None:
        status = answer.status_code
        if 200 <= status <= 299:
            self._is_done = True
            return
        headers = list(answer.headers)
        if status in _WANTS_CREDENTIAL:
            raise CredentialRejected(self._rejection(status, headers), stage=Stage.HANDSHAKE)
        kind, why = explain(status, headers)
        msg = f"{self._proxy} did not connect to {self._authority}: {why}"
        raise ProxyRefused(msg, code=status, error_type=kind, stage=Stage.HANDSHAKE)

    def _rejection(self, status: int, headers: list[tuple[bytes, bytes]]) -> str:
        schemes = asked_schemes(headers)
        hint = (
            f"; it asks for {', '.join(schemes)}, and only Basic is spoken here"
            if schemes and "Basic" not in schemes
            else ""
        )
        if self._has_credential:
            return f"{self._proxy} rejected the credential (HTTP {status}){hint}"
        return f"{self._proxy} wants a credential, and none was given (HTTP {status}){hint}"

    def _malformed(self, exc: h11.RemoteProtocolError) -> str:
        if self._first in _OTHERS:
            return f"{self._proxy} does not speak HTTP; this looks like {_OTHERS[self._first]}"
        # h11's leading words say which rule was broken; what it quotes comes behind them.
        words = _WORDS.match(str(exc))
        what = words[0].strip() if words else "malformed"
        return f"{self._proxy} answered CONNECT with something that is not HTTP/1.1: {what}"
