"""Why an HTTP proxy did not connect: its status, and the finer words of proxies that give them. Pure."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from racer.errors import ErrorType

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("asked_schemes", "explain")

# RFC 9110 §15, and what proxies make of it when a CONNECT fails.
_STATUSES: Final = {
    408: ErrorType.TIMEOUT,
    429: ErrorType.RESOURCE_EXHAUSTED,
    501: ErrorType.PROXY_REFUSED,
    503: ErrorType.RESOURCE_EXHAUSTED,
    504: ErrorType.TIMEOUT,
    505: ErrorType.PROXY_REFUSED,
    511: ErrorType.PROXY_REFUSED,  # a captive portal (RFC 6585 §6)
}

# RFC 9209 §2.3; a parameter of the header Proxy-Status.
_PROXY_STATUS: Final = {
    "dns_timeout": ErrorType.DNS_FAILURE,
    "dns_error": ErrorType.DNS_FAILURE,
    "destination_not_found": ErrorType.HOST_UNREACHABLE,
    "destination_unavailable": ErrorType.HOST_UNREACHABLE,
    "destination_ip_prohibited": ErrorType.PROXY_REFUSED,
    "destination_ip_unroutable": ErrorType.HOST_UNREACHABLE,
    "connection_refused": ErrorType.CONNECTION_REFUSED,
    "connection_terminated": ErrorType.CONNECTION_RESET,
    "connection_timeout": ErrorType.TIMEOUT,
    "connection_read_timeout": ErrorType.TIMEOUT,
    "connection_write_timeout": ErrorType.TIMEOUT,
    "connection_limit_reached": ErrorType.RESOURCE_EXHAUSTED,
    "http_request_denied": ErrorType.PROXY_REFUSED,
    "http_response_timeout": ErrorType.TIMEOUT,
    "proxy_configuration_error": ErrorType.PROXY_REFUSED,
    "proxy_internal_error": ErrorType.OTHER,
    "proxy_loop_detected": ErrorType.PROXY_REFUSED,
}

# Squid answers 503 to most failures, and says more in X-Squid-Error: a name, and the errno of its own system.
_SQUID: Final = {
    "ERR_ACCESS_DENIED": ErrorType.PROXY_REFUSED,
    "ERR_CANNOT_FORWARD": ErrorType.HOST_UNREACHABLE,
    "ERR_CONNECT_FAIL": ErrorType.HOST_UNREACHABLE,
    "ERR_DNS_FAIL": ErrorType.DNS_FAILURE,
    "ERR_LIFETIME_EXP": ErrorType.TIMEOUT,
    "ERR_READ_TIMEOUT": ErrorType.TIMEOUT,
    "ERR_SOCKET_FAILURE": ErrorType.RESOURCE_EXHAUSTED,
}
_SQUID_ERRNO: Final = {  # Linux; other systems' numbers fall back to the name
    104: ErrorType.CONNECTION_RESET,
    110: ErrorType.TIMEOUT,
    111: ErrorType.CONNECTION_REFUSED,
}

_SCHEMES: Final = (
    "Basic",
    "Bearer",
    "Digest",
    "Kerberos",
    "Negotiate",
    "NTLM",
)  # RFC 7235 and practice

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ERROR = re.compile(r";\s*error\s*=\s*([a-z_]+)")
_SQUID_ERROR = re.compile(r"(ERR_[A-Z_]+)(?:\s+([0-9]{1,5}))?\Z")


def explain(status: int, headers: Iterable[tuple[bytes, bytes]]) -> tuple[ErrorType, str]:
    """Return the reason that a final status gives that is neither 2xx nor about a credential, and words for it.

    The words are the standard's, never the proxy's own: an answer may echo what was sent, secrets included.

    Args:
        status: 200 to 999.
        headers: of the response, with names in lower case.
    """
    kind = _STATUSES.get(status)
    if kind is None:
        # A gateway's failure, which may pass; anything else is a no.
        kind = ErrorType.HOST_UNREACHABLE if 500 <= status <= 599 else ErrorType.PROXY_REFUSED
    detail = ""
    for name, value in headers:
        found = _from_header(name, value.decode("latin-1"))
        if found is not None:
            kind, detail = found
            break
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    return kind, f"HTTP {status}{phrase}" + (f", {detail}" if detail else "")


def asked_schemes(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Return the well-known authentication schemes that the `Proxy-Authenticate` headers ask for."""
    text = ",".join(v.decode("latin-1") for name, v in headers if name == b"proxy-authenticate")
    bare = _QUOTED.sub('""', text)
    # A scheme begins a challenge: at the start or behind a comma, and is not followed by '='.
    words = {
        word.casefold() for word in re.findall(r"(?:^|,)\s*([A-Za-z]+)(?![A-Za-z]|\s*=)", bare)
    }
    return tuple(scheme for scheme in _SCHEMES if scheme.casefold() in words)


def _from_header(name: bytes, value: str) -> tuple[ErrorType, str] | None:
    if name == b"proxy-status":
        for word in _ERROR.findall(_QUOTED.sub('""', value)):
            if word in _PROXY_STATUS:
                return _PROXY_STATUS[word], f"Proxy-Status {word}"
    if name == b"x-squid-error" and (match := _SQUID_ERROR.match(value.strip())):
        word, number = match[1], int(match[2] or 0)
        if word in _SQUID:
            kind = _SQUID[word]
            if word == "ERR_CONNECT_FAIL":
                kind = _SQUID_ERRNO.get(number, kind)
            return kind, f"{word} {number}" if number else word
    return None
