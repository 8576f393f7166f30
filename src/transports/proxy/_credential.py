"""A user name and password for a proxy, checked for what each protocol can carry, and never shown."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Final

from racer.errors import ConfigError

__all__ = ("Credential", "credential_of")

MAX_SOCKS_BYTES: Final = 255  # RFC 1929 §2: each has one octet for its length
MAX_BASIC_BYTES: Final = (
    2048  # each; far above any real one, and together far below a proxy's header limit
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Credential:
    """Both halves as UTF-8; in no `repr`, so that it reaches no log, span or exception by accident."""

    username: bytes = field(repr=False)
    password: bytes = field(repr=False)

    def check_socks(self) -> None:
        """Raise `ConfigError` unless RFC 1929 can carry it.

        The RFC wants at least one octet of password; an empty one is let through, since servers that accept it exist.
        """
        if not self.username:
            msg = "username: empty; SOCKS5 needs at least one octet (RFC 1929 §2)"
            raise ConfigError(msg)
        for name, value in (("username", self.username), ("password", self.password)):
            if len(value) > MAX_SOCKS_BYTES:
                msg = f"{name}: {len(value)} octets as UTF-8; SOCKS5 carries at most {MAX_SOCKS_BYTES} (RFC 1929 §2)"
                raise ConfigError(msg)

    def check_basic(self) -> None:
        """Raise `ConfigError` unless the Basic scheme of RFC 7617 §2 can carry it."""
        if b":" in self.username:
            msg = "username: has a ':' in it, which HTTP Basic cannot carry (RFC 7617 §2)"
            raise ConfigError(msg)
        for name, value in (("username", self.username), ("password", self.password)):
            if _CONTROL.search(value.decode()):
                msg = f"{name}: has a control character in it, which HTTP Basic cannot carry (RFC 7617 §2)"
                raise ConfigError(msg)
            if len(value) > MAX_BASIC_BYTES:
                msg = f"{name}: {len(value)} octets as UTF-8; at most {MAX_BASIC_BYTES} are sent"
                raise ConfigError(msg)

    def basic(self) -> bytes:
        """Return the value of a `Proxy-Authorization` header (RFC 7617 §2.1)."""
        return b"Basic " + base64.b64encode(self.username + b":" + self.password)


def credential_of(username: object, password: object) -> Credential | None:
    """Return the credential, `None` when both are `None`.

    Raises:
        ConfigError: one without the other, or not text; quotes neither.
    """
    if username is None and password is None:
        return None
    if username is None or password is None:
        given, missing = ("password", "username") if username is None else ("username", "password")
        msg = f"{given}= without {missing}=; an empty one is given as ''"
        raise ConfigError(msg)
    return Credential(_utf8(username, "username"), _utf8(password, "password"))


def _utf8(value: object, name: str) -> bytes:
    if not isinstance(value, str):
        msg = f"{name} must be a str, not {type(value).__name__}"
        raise ConfigError(msg)
    if any("\ud800" <= char <= "\udfff" for char in value):
        # The codec's own error would quote it.
        msg = f"{name}: has half a character in it, which UTF-8 cannot carry"
        raise ConfigError(msg)
    return value.encode()
