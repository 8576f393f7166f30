"""Who may use the proxy: names and passwords, compared in a time that tells nothing of them."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from racer.errors import ConfigError

__all__ = ("Users",)

_MAX_LENGTH: Final = 255  # RFC 1929 §2: one octet for the length of each
_MAX_USERS: Final = 1000  # each wrong try is compared with all of them


class Users:
    """The accounts of a proxy. Nothing of them is in its repr.

    Args:
        accounts: names to passwords, 1 to 255 octets of UTF-8 each, no colon in a name (RFC 7617 §2); `None` if anybody
            may come.

    Raises:
        ConfigError: says which account cannot be, never its password.
    """

    def __init__(self, accounts: Mapping[str, str] | None) -> None:
        """Check and keep."""
        if accounts is not None and not isinstance(accounts, Mapping):
            msg = f"users must be a mapping of names to passwords, not {type(accounts).__name__}"
            raise ConfigError(msg)
        if accounts is not None and not 1 <= len(accounts) <= _MAX_USERS:
            msg = (
                f"users holds {len(accounts)} accounts: 1 to {_MAX_USERS}, or None for no accounts"
            )
            raise ConfigError(msg)
        self._accounts = [_checked(*account) for account in (accounts or {}).items()]

    @property
    def are_wanted(self) -> bool:
        """Whether a client has to say who it is."""
        return bool(self._accounts)

    def let_in(self, name: bytes, password: bytes) -> bool:
        """Return whether this is an account; takes as long for every name."""
        found = False
        for known, secret in self._accounts:
            is_name = hmac.compare_digest(known, name)
            is_secret = hmac.compare_digest(secret, password)
            found |= is_name & is_secret
        return found

    def __repr__(self) -> str:
        """Return how many there are."""
        return f"<{len(self._accounts)} users>"


def _checked(name: object, password: object) -> tuple[bytes, bytes]:
    if not isinstance(name, str) or not isinstance(password, str):
        msg = "users: names and passwords must be text"
        raise ConfigError(msg)
    # surrogateescape: what came from the environment need not be UTF-8.
    raw, secret = (text.encode("utf-8", "surrogateescape") for text in (name, password))
    if not 1 <= len(raw) <= _MAX_LENGTH or ":" in name or not name.isprintable():
        msg = f"users: {name[:40]!r} is no name: 1 to {_MAX_LENGTH} octets, printable, without a colon"
        raise ConfigError(msg)
    if not 1 <= len(secret) <= _MAX_LENGTH:
        msg = f"users: the password of {name!r} has {len(secret)} octets; 1 to {_MAX_LENGTH} are possible"
        raise ConfigError(msg)
    return raw, secret
