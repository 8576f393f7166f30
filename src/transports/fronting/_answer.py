"""The response that comes over a line: its body, and what becomes of the line when it has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from racer.errors import AttemptTimeout, Stage
from transports._net.app_requests import make_response
from transports.fronting._names import restored_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports._net.http_client import ResponseHead
    from transports.fronting._hunt import Found

__all__ = ("Answer",)


class Answer:
    """A response whose head has come; it owns the line until its body has ended.

    Args:
        found: the line, and the front it leads to.
        head: the head.
        read_timeout: seconds that a wait for the next part may take; `None` for no limit.
        give_back: takes the line back after the body's end, and says whether it does.
    """

    def __init__(
        self,
        found: Found,
        head: ResponseHead,
        *,
        read_timeout: float | None,
        give_back: Callable[[Found], bool],
    ) -> None:
        """Keep the arguments."""
        self._found = found
        self._head = head
        self._read_timeout = read_timeout
        self._give_back = give_back
        self._is_complete = False
        self._is_closed = False

    def as_response(self, request: Any, *, fronted: str, origin: str) -> Any:  # noqa: ANN401
        """Return it as a response of the library that `request` is of; redirects to `fronted` lead to `origin`."""
        fields = tuple(
            (name, restored_location(value, fronted=fronted, origin=origin))
            if name in {b"location", b"content-location"}
            else (name, value)
            for name, value in self._head.fields
        )
        front = self._found.front
        told = {"provider": front.provider, "domain": front.domain, "address": front.address}
        return make_response(
            request,
            replace(self._head, fields=fields),
            self.receive,
            self.aclose,
            extensions={"fronting": told},
        )

    async def receive(self) -> bytes:
        """Return the next part of the body, empty at its end.

        Raises:
            AttemptTimeout: it did not come in time.
            NetworkError: the line broke.
        """
        if self._is_complete:
            return b""
        with anyio.move_on_after(self._read_timeout):
            chunk = await self._found.line.connection.receive_body()
            self._is_complete = not chunk
            return chunk
        msg = f"the rest of the answer did not come within {self._read_timeout:g} s"
        raise AttemptTimeout(msg, stage=Stage.VERIFY)

    async def aclose(self) -> None:
        """Give the line back, or close it if the body has not been read to its end; again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        is_fit = self._is_complete and self._found.line.connection.is_idle
        if not is_fit or not self._give_back(self._found):
            await self._found.line.aclose()
