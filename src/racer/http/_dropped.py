"""What becomes of a response that somebody dropped without reading it to its end, or closing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer._host import LoopHost
    from racer.http._messages import Body

__all__ = ("closer_for",)


def closer_for(host: LoopHost, transport_name: str) -> Callable[[Body], None]:
    """Return a function that closes a body from a finalizer: in any thread, at any moment."""

    def close(body: Body) -> None:
        if host.is_of_this_process:
            host.drop_from_anywhere(_Closing(body), transport_name, _nothing)

    return close


class _Closing:
    def __init__(self, body: Body) -> None:
        self._body = body

    async def aclose(self) -> None:
        self._body.close()


def _nothing() -> None:
    pass
