"""A payload as a URL that an AMP cache fetches, and back; and how long such a URL may be. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from racer.errors import ConfigError, RemoteProtocolError

__all__ = (
    "BUSTER",
    "PREFIX",
    "Place",
    "cache_place",
    "decode_path",
    "encode_path",
    "read_base_url",
)

PREFIX: Final = "amp/client/"
"""Behind the broker's own path."""

VERSION: Final = "0"

BUSTER: Final = 9
"""Random octets in each path, so that no cache has it already."""

_MAX_LABEL: Final = 63
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*\Z")
_PATH = re.compile(r"[A-Za-z0-9._~/-]*\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go: a base URL's parts.

    Attributes:
        scheme: `http` or `https`.
        host: in lower case.
        port: the scheme's own where none was given.
        path: begins and ends with a slash.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What `Host` says."""
        default = 443 if self.scheme == "https" else 80
        return self.host if self.port == default else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL."""
        return f"{self.scheme}://{self.authority}{self.path}"


def read_base_url(text: object, option: str) -> Place:
    """Return the parts of a base URL, which has no user, query or fragment.

    Raises:
        ConfigError: it is none; quotes nothing of it.
    """
    parts, host, port = None, "", None
    if isinstance(text, str) and text.isascii() and text.isprintable():
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            parts = None
    if (
        parts is None
        or parts.scheme not in {"http", "https"}
        or not _DOMAIN.match(host)
        or port == 0
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
        or not _PATH.match(parts.path)
    ):
        msg = f"{option} must be a URL of http or https, without user, query and fragment"
        raise ConfigError(msg)
    path = "/" + parts.path.strip("/") + "/" if parts.path.strip("/") else "/"
    return Place(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), path)


def encode_path(payload: bytes, buster: bytes) -> str:
    """Return the end of a path that carries `payload`.

    Args:
        payload: any octets.
        buster: 9 random octets.
    """
    return f"{VERSION}{_to_base64(buster)}/{_to_base64(payload)}"


def decode_path(path: str) -> bytes:
    """Return the payload of such an end of a path; all before its last slash but the version means nothing.

    Raises:
        RemoteProtocolError: it is none, or of a version that is not known.
    """
    if path[:1] != VERSION:
        msg = f"a path of version {path[:1]!r}, and only {VERSION!r} is known"
        raise RemoteProtocolError(msg)
    _, slash, text = path.rpartition("/")
    if not slash:
        msg = "a path without a payload"
        raise RemoteProtocolError(msg)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        msg = f"a payload that is torn: {exc}"
        raise RemoteProtocolError(msg) from exc


def cache_place(broker: Place, cache: Place) -> Place:
    """Return where a cache has the pages below `broker`.

    The form is that of AMP caches' URLs: a subdomain made from the page's host, and a path of content type (`c` for a
    document), `s` for https, host and path. https://amp.dev/documentation/guides-and-tutorials/learn/amp-caches-and-cors/amp-cache-urls
    """
    secure = "s/" if broker.scheme == "https" else ""
    path = f"{cache.path}c/{secure}{broker.authority}{broker.path}"
    return Place(cache.scheme, f"{_subdomain(broker.host)}.{cache.host}", cache.port, path)


def _subdomain(host: str) -> str:
    """Return a host as one label: dots are hyphens and hyphens two, or else a digest of it."""
    readable = ".".join(_to_unicode(label) for label in host.split("."))
    label = readable.replace("-", "--").replace(".", "-")
    if label[2:4] == "--":
        label = f"0-{label}-0"  # else it would read as an encoded one
    if not label.isascii():
        label = "xn--" + label.encode("punycode").decode("ascii")
    if len(label) <= _MAX_LABEL:
        return label
    digest = hashlib.sha256(host.encode("ascii")).digest()
    return base64.b32encode(digest).decode("ascii").rstrip("=").lower()


def _to_unicode(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
