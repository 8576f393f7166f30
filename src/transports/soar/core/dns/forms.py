"""The forms: how an answer carries octets, and what is common to those who write and read it (SPEC 5.1, 15.4)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from transports.soar.core.dns.messages import QType

__all__ = (
    "DIGEST_TYPE",
    "LABEL_OCTETS",
    "MAX_SOA_OCTETS",
    "MIN_DS_OCTETS",
    "MNAME_OCTETS",
    "NOTICE_CHARACTERS",
    "NOTICE_OCTETS",
    "QTYPES",
    "Form",
)

NOTICE_OCTETS: Final = 23
"""Of a notice: code 1, known_for 2, last_stream 4, mac 16 (SPEC 15.4)."""

NOTICE_CHARACTERS: Final = 37
"""Of a notice in base32."""

DIGEST_TYPE: Final = 250
"""Of a DS record: unassigned. BIND drops records of types 1, 2 and 4 whose digest hasn't their length."""

MIN_DS_OCTETS: Final = 4
"""That a DS record carries: three in its head, and no resolver was asked what it makes of an empty digest."""

LABEL_OCTETS: Final = 63
"""Of a full label."""

MNAME_OCTETS: Final = 156
"""That a name in a SOA record carries: in 250 characters, four labels, 255 octets of name."""

MAX_SOA_OCTETS: Final = 2 * MNAME_OCTETS
"""That MNAME and RNAME carry together."""


class Form(IntEnum):
    """How an answer carries octets (SPEC 5.1)."""

    DS = 0
    TXT = 1
    SOA = 2

    @property
    def qtype(self) -> QType:
        """The type asked for it."""
        return QTYPES[self]


QTYPES: Final = (QType.DS, QType.TXT, QType.A)
"""The type asked for each form."""
