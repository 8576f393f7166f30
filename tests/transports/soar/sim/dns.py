"""As much of the DNS as a resolver needs to pass a message on; shares nothing with the code under test."""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ("DS", "NS", "SOA", "TXT", "A", "Message", "Query", "asked_in", "name_labels", "reply")

A, NS, SOA, TXT, OPT, DS = 1, 2, 6, 16, 41, 43


@dataclass(frozen=True, slots=True)
class Query:
    """A question as it stands on the wire."""

    id: int
    name: bytes
    qtype: int
    edns: int | None

    @property
    def key(self) -> tuple[bytes, int]:
        return self.name.lower(), self.qtype

    def to_wire(self, *, rd: bool = True) -> bytes:
        flags = 0x0100 if rd else 0x0000
        head = struct.pack("!HHHHHH", self.id, flags, 1, 0, 0, 0 if self.edns is None else 1)
        body = self.name + struct.pack("!HH", self.qtype, 1)
        if self.edns is not None:
            body += b"\0" + struct.pack("!HHIH", OPT, self.edns, 0, 0)
        return head + body

    @classmethod
    def from_wire(cls, message: bytes) -> Query | None:
        """Read a question that is well formed, as a resolver demands; damaged ones are `None`."""
        try:
            identity, flags, questions, answers, authority, extra = struct.unpack_from(
                "!6H", message
            )
            if flags & 0x8000 or questions != 1 or answers or authority or extra > 1:
                return None
            end = _skip(message, 12)
            qtype, qclass = struct.unpack_from("!HH", message, end)
            if qclass != 1:
                return None
            edns = None
            if extra:
                rtype, size = struct.unpack_from("!HH", message, end + 5)
                if message[end + 4] or rtype != OPT:
                    return None
                edns = max(512, size)
            return cls(identity, message[12:end], qtype, edns)
        except (struct.error, IndexError):
            return None


@dataclass(frozen=True, slots=True)
class Message:
    """An answer, cut into what a resolver looks at."""

    id: int
    name: bytes
    qtype: int
    rcode: int
    truncated: bool
    answers: int
    authority: int
    records: bytes  # answer and authority sections, as they came

    @classmethod
    def from_wire(cls, message: bytes) -> Message | None:
        try:
            identity, flags, questions, answers, authority, _extra = struct.unpack_from(
                "!6H", message
            )
            if not flags & 0x8000 or questions != 1:
                return None
            end = _skip(message, 12)
            qtype, _ = struct.unpack_from("!HH", message, end)
            at = start = end + 4
            for _ in range(answers + authority):
                at = _skip(message, at)
                (length,) = struct.unpack_from("!H", message, at + 8)
                at += 10 + length
                if at > len(message):
                    return None
        except (struct.error, IndexError):
            return None
        return cls(
            identity,
            message[12:end],
            qtype,
            flags & 15,
            bool(flags & 0x0200),
            answers,
            authority,
            message[start:at],
        )


def _skip(message: bytes, at: int) -> int:
    while message[at]:
        if message[at] >= 0xC0:
            return at + 2
        at += 1 + message[at]
    return at + 1


def asked_in(message: bytes) -> bytes:
    """Return the first question, as far as there is one: name, type and class."""
    try:
        return message[12 : _skip(message, 12) + 4]
    except IndexError:
        return message[12:]


def name_labels(name: bytes) -> list[bytes]:
    labels = []
    at = 0
    while name[at]:
        labels.append(name[at : at + 1 + name[at]])
        at += 1 + name[at]
    return labels


def reply(
    query: Query,
    *,
    rcode: int = 0,
    source: Message | None = None,
    truncated: bool = False,
    records: bytes | None = None,
) -> bytes:
    """Return what a resolver says to `query`: the records of `source`, or nothing."""
    answers = authority = 0
    body = b""
    if source is not None and not truncated:
        answers, authority, body = source.answers, source.authority, source.records
        if records is not None:
            body = records
    flags = 0x8180 | rcode | (0x0200 if truncated else 0)
    extra = b"" if query.edns is None else b"\0" + struct.pack("!HHIH", OPT, 1232, 0, 0)
    head = struct.pack("!HHHHHH", query.id, flags, 1, answers, authority, 1 if extra else 0)
    return head + query.name + struct.pack("!HH", query.qtype, 1) + body + extra
