"""What a table of costs has in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Operation",)


class Operation(NamedTuple):
    """One row.

    Attributes:
        name: what is done, with the size that matters.
        work: does it once.
        reference: microseconds that a bare sketch of it took; `None` where there was none.
        rival: does the same by other means; `None` where nothing else does.
    """

    name: str
    work: Callable[[], object]
    reference: float | None = None
    rival: Callable[[], object] | None = None
