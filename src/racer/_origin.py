"""Where requests go that are no byte stream's."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Origin",)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request transport's requests go: scheme, host and port."""

    scheme: str
    host: str
    port: int
