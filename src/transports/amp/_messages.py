"""The request and the response inside the envelope, in JSON. Pure and bounded."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from racer.errors import RemoteProtocolError

__all__ = ("FAILURE_FIELD", "InnerRequest", "InnerResponse")

MAX_FIELDS: Final = 200
"""Header fields of a message."""

FAILURE_FIELD: Final = b"x-amp-broker"
"""A field of a response that the broker made up itself, with its reason: a cache would blur a status of its own."""

_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}\Z")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}\Z")  # RFC 9110 §5.6.2
_VALUE = re.compile(rb"[^\x00\r\n]*\Z")

Fields = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerRequest:
    """What the broker is to ask.

    Attributes:
        method: such as `GET`.
        url: whole.
        fields: header fields.
        body: whole.
    """

    method: str
    url: str
    fields: Fields = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)

    def to_json(self) -> bytes:
        """Return it as it goes into the envelope."""
        document = {
            "method": self.method,
            "host": self.url.partition("://")[2].partition("/")[0],
            "url": self.url,
            "body": _to_base64(self.body) if self.body else None,
            "headers": _to_table(self.fields),
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> InnerRequest:
        """Return the request in an envelope.

        Raises:
            RemoteProtocolError: it is none.
        """
        document = _document(data)
        method, url = document.get("method"), document.get("url")
        # An empty method is GET to the original clients.
        if not isinstance(method, str) or not isinstance(url, str) or not url.isascii():
            raise _malformed("method or URL")
        if not _METHOD.match(method or "GET") or not url.isprintable() or " " in url:
            raise _malformed("method or URL")
        return cls(
            method=method or "GET",
            url=url,
            fields=_from_table(document.get("headers")),
            body=_from_base64(document.get("body")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerResponse:
    """What was answered.

    Attributes:
        status: 200 to 999.
        fields: header fields, names in lower case.
        body: whole.
    """

    status: int
    fields: Fields = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)

    def to_json(self) -> bytes:
        """Return it as it goes into the envelope."""
        document = {
            "status_code": self.status,
            "status_text": str(self.status),
            "content_length": len(self.body),
            "headers": _to_table(self.fields),
            "body": _to_base64(self.body),
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> InnerResponse:
        """Return the response in an envelope.

        Raises:
            RemoteProtocolError: it is none.
        """
        document = _document(data)
        status = document.get("status_code")
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 999:
            raise _malformed("status")
        return cls(
            status=status,
            fields=tuple((n.lower(), v) for n, v in _from_table(document.get("headers"))),
            body=_from_base64(document.get("body")),
        )


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise _malformed("JSON") from exc
    if not isinstance(document, dict):
        raise _malformed("JSON")
    return document


def _to_table(fields: Fields) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for name, value in fields:
        table.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return table


def _from_table(table: object) -> Fields:
    if table is None:
        return ()
    if not isinstance(table, dict):
        raise _malformed("headers")
    found: list[tuple[bytes, bytes]] = []
    for name, values in table.items():
        for value in values if isinstance(values, list) else [None]:
            if not isinstance(value, str):
                raise _malformed("headers")
            found.append(_checked_field(name, value))
            if len(found) > MAX_FIELDS:
                raise _malformed("headers: too many")
    return tuple(found)


def _checked_field(name: str, value: str) -> tuple[bytes, bytes]:
    try:
        # What is beyond Latin-1 can only have been UTF-8.
        text = value.strip()
        octets = (
            name.encode("ascii"),
            text.encode("latin-1" if text.isascii() or max(text) < "\u0100" else "utf-8"),
        )
    except UnicodeError as exc:
        raise _malformed("headers") from exc
    if not _TOKEN.match(octets[0]) or not _VALUE.match(octets[1]):
        raise _malformed("headers")
    return octets


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(text: object) -> bytes:
    if text is None:
        return b""
    if not isinstance(text, str):
        raise _malformed("body")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise _malformed("body") from exc


def _malformed(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"a message within the envelope that is malformed: {what}")
