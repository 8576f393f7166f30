"""What an HTTP request to a proxy asks for: its form, its target, its credential (RFC 9110, RFC 9112 §3.2). Pure."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._target import Target
from racer.errors import InvalidTarget
from racer.proxy._requests import Fetch, OpenTunnel, Page, Spoken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from racer.proxy._users import Users

__all__ = ("PAGES", "Head", "Unservable", "asked_for", "end_to_end", "is_let_in")

PAGES: Final = ("/metrics", "/readyz")
"""Pages of the proxy's own, where they are wanted."""

_SCHEME: Final = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)://")
_AUTHORITY_END: Final = re.compile(rb"[/?#]")
_MAX_SHOWN: Final = 20  # characters of a method or scheme that an answer quotes

# They are for the next hop only (RFC 9110 §7.6.1), or written anew by whoever goes on.
_HOP_BY_HOP: Final = frozenset({
    b"connection", b"expect", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip


class Unservable(Exception):
    """A request that is answered with an error.

    Attributes:
        status: the answer's.
        words: its body.
        headers: further fields of it.
        is_denied: whether it was for want of a credential.
    """

    def __init__(
        self,
        status: int,
        words: str,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        is_denied: bool = False,
    ) -> None:
        """Keep them."""
        super().__init__(words)
        self.status = status
        self.words = words
        self.headers = headers
        self.is_denied = is_denied


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head, parsed: names of fields in lower case, and as they came."""

    method: str
    target: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    raw_fields: tuple[tuple[bytes, bytes], ...]

    def values(self, name: bytes) -> list[bytes]:
        """Return every value of a field."""
        return [value for key, value in self.fields if key == name]

    @property
    def has_body(self) -> bool:
        """Whether something follows (RFC 9112 §6.3)."""
        if self.values(b"transfer-encoding"):
            return True
        return any(value.strip(b"0 ") for value in self.values(b"content-length"))


def asked_for(
    head: Head, users: Users, *, pages: bool, own_address: str | None
) -> OpenTunnel | Fetch | Page:
    """Return what a request is for.

    Args:
        head: the request's.
        users: who may come.
        pages: whether there are pages of the proxy's own.
        own_address: the address that this client has connected to; `None` where nobody knows.

    Raises:
        Unservable: it gets an error for an answer.
    """
    if head.method == "CONNECT":
        _check_user(head, users)
        if head.has_body:
            raise Unservable(400, "CONNECT has no body (RFC 9110 §9.3.6).")
        return OpenTunnel(target=_authority(head.target), spoken=Spoken.CONNECT)
    if _SCHEME.match(head.target):
        _check_user(head, users)
        return _fetch(head)
    if head.method not in {"GET", "HEAD"}:
        allowed = "CONNECT, GET, HEAD" if pages else "CONNECT"
        raise Unservable(
            405,
            f"{_shown(head.method)} of a path: this is a proxy, not a site. It takes CONNECT host:port, and requests "
            "for http:// URLs.",
            headers=(("Allow", allowed),),
        )
    return _page(head, users, pages=pages, own_address=own_address)


def is_let_in(values: list[bytes], users: Users) -> bool:
    """Return whether one field holds a right credential, as Basic (RFC 7617)."""
    if len(values) != 1:
        return False
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"basic":
        return False
    try:
        name, colon, password = base64.b64decode(token.strip(), validate=True).partition(b":")
    except binascii.Error:
        return False
    return bool(colon) and users.let_in(name, password)


def end_to_end(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return those fields that are meant for the other end; `Host` is not among them."""
    fields = list(fields)
    named = {
        token.strip().lower()
        for name, value in fields
        if name.lower() in {b"connection", b"proxy-connection"}
        for token in value.split(b",")
    }
    # What describes the body stays, whatever somebody says of it: without it the next hop would read another message. But
    # beside Transfer-Encoding it means nothing, and must not be passed on (RFC 9112 §6.3).
    if any(name.lower() == b"transfer-encoding" for name, _ in fields):
        named.add(b"content-length")
    else:
        named.discard(b"content-length")
    return [
        (name, value)
        for name, value in fields
        if (key := name.lower()) not in _HOP_BY_HOP and key not in named
    ]


def _check_user(head: Head, users: Users) -> None:
    if users.are_wanted and not is_let_in(head.values(b"proxy-authorization"), users):
        raise Unservable(
            407,
            "This proxy wants a user name and password, and got none, or wrong ones.",
            headers=(("Proxy-Authenticate", 'Basic realm="racer", charset="UTF-8"'),),
            is_denied=True,
        )


def _authority(raw: bytes) -> Target:
    """Return the target of a CONNECT: host and port, both (RFC 9110 §9.3.6)."""
    host, colon, port = raw.rpartition(b":")
    if not colon or not port.isdigit() or len(port) > 5:
        raise Unservable(400, "CONNECT takes host:port, such as CONNECT example.com:443.")
    return _target(host, int(port))


def _target(host: bytes, port: int) -> Target:
    try:
        return Target(host.decode(), port, tls=False)
    except UnicodeDecodeError:
        raise Unservable(400, "The host is not UTF-8.") from None
    except InvalidTarget as exc:
        raise Unservable(400, f"That cannot be dialed: {exc}.") from None


def _fetch(head: Head) -> Fetch:
    scheme, _, rest = head.target.partition(b"://")
    if scheme.lower() != b"http":
        what = _shown(scheme.decode("ascii", "replace"))
        raise Unservable(
            501, f"This proxy forwards http:// URLs only; for {what}:// use CONNECT host:port."
        )
    if head.method == "TRACE":
        raise Unservable(405, "TRACE is not forwarded.", headers=(("Allow", "CONNECT, GET, HEAD"),))
    end = _AUTHORITY_END.search(rest)
    authority, path = (rest, b"") if end is None else (rest[: end.start()], rest[end.start() :])
    if b"@" in authority:
        # Not quoted: it may be a password (RFC 9110 §4.2.4).
        raise Unservable(400, "A URL with a user in it is not forwarded.")
    host, colon, port = authority.rpartition(b":")
    if not colon or authority.endswith(b"]"):
        host, port = authority, b"80"
    if not port.isdigit() or len(port) > 5:
        raise Unservable(400, "The URL's port is not a number from 1 to 65535.")
    path = path.partition(b"#")[0]
    if not path.startswith(b"/"):
        path = b"*" if head.method == "OPTIONS" and not path else b"/" + path
    target = _target(host, int(port))
    shown = f"[{target.host}]" if ":" in target.host else target.host
    # RFC 9112 §3.2.2: what Host says otherwise is ignored.
    named = shown if target.port == 80 else f"{shown}:{target.port}"
    return Fetch(
        target=target,
        method=head.method,
        path=path,
        headers=((b"Host", named.encode("ascii")), *end_to_end(head.raw_fields)),
        has_body=head.has_body,
    )


def _page(head: Head, users: Users, *, pages: bool, own_address: str | None) -> Page:
    path = head.target.partition(b"?")[0].decode("ascii", "replace")
    if not pages or path not in PAGES:
        raise Unservable(
            404,
            "This is a proxy, not a site: set it as the proxy of your program. It takes CONNECT host:port, and requests "
            "for http:// URLs, and speaks SOCKS5 on the same port.",
        )
    _check_asker(head, own_address)
    # Whether it is ready may be known to who asks for it; what it did is for users.
    is_public = path == "/readyz" or not users.are_wanted
    if not is_public and not is_let_in(head.values(b"authorization"), users):
        raise Unservable(
            401,
            "This page wants a user name and password.",
            headers=(("WWW-Authenticate", 'Basic realm="racer", charset="UTF-8"'),),
            is_denied=True,
        )
    return Page(path=path)


def _check_asker(head: Head, own_address: str | None) -> None:
    """Keep web pages out: a browser lets any page send requests to this machine's own ports.

    A page whose own name was made to lead here (DNS rebinding) could read the answer: its name stands in Host. No name but
    localhost is ours, and an address cannot be made to lead elsewhere.
    """
    hosts = head.values(b"host")
    if len(hosts) != 1 or not _is_ours(hosts[0], own_address):
        raise Unservable(
            421,
            "This page is only for who asks for it by an address of this machine, or localhost.",
        )
    fetched_by = head.values(b"sec-fetch-site")
    if head.values(b"origin") or any(site not in {b"none", b"same-origin"} for site in fetched_by):
        raise Unservable(403, "This page is not for scripts of other sites.")


def _is_ours(host: bytes, own_address: str | None) -> bool:
    name = host.decode("ascii", "replace").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or str(address) == own_address


def _shown(text: str) -> str:
    return text[:_MAX_SHOWN]
