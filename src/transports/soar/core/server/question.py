"""One copy of a question, with all that its answer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from transports.soar.core.dns.forms import QTYPES

if TYPE_CHECKING:
    from transports.soar.core.dns.answers import Form
    from transports.soar.core.dns.questions import Copy
    from transports.soar.core.dns.zone import Zone
    from transports.soar.core.server.source import Source

__all__ = ("Question",)


class Question(NamedTuple):
    """A copy of a question for a whole name.

    Attributes:
        copy: as it came: a resolver's id, spelling and size limit.
        zone: the zone that its name is in.
        source: who sent it.
        form: the form that its packet is for.
        name_class: that of its name.
        came: when it came, in awake seconds.
    """

    copy: Copy
    zone: Zone
    source: Source
    form: Form
    name_class: int
    came: float

    @property
    def fits_form(self) -> bool:
        """Whether it asks for the form's type, so that an answer can carry octets. A resolver's probe doesn't."""
        return self.copy.qtype == QTYPES[self.form]
