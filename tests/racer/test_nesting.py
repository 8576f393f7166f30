"""Guests that dial through the dialer that runs them: they may, but not without end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

import racer
from racer.errors import AllAttemptsFailed, TransportCrashed
from racer.testing import ScriptedTransport, hangs, wins
from tests.racer.scene import Acting, Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.abc import Progress, Target

pytestmark = pytest.mark.virtual_time


class Through(Acting):
    """Reaches its targets by a dial of its own through the dialer that runs it."""

    def __init__(self, name: str, to: Callable[[Target], str], **options: Any) -> None:
        super().__init__(name, lambda guest: anyio.lowlevel.checkpoint())
        self.dialer: racer.Dialer | None = None
        self.asked: list[str] = []
        self._to = to
        self._options = options

    async def connect(self, target: Target, progress: Progress) -> Any:
        assert self.dialer is not None
        self.asked.append(str(target))
        return await self.dialer.dial(self._to(target), tls=False, **self._options)


def counted_up(target: Target) -> str:
    return f"{target.host}:{target.port + 1}"


@pytest.mark.parametrize(
    ("to", "options", "times", "words"),
    [
        pytest.param(str, {}, 2, "dials its own target through its own dialer", id="itself"),
        pytest.param(
            lambda target: "proxy.example:1080",
            {},
            3,
            "leave it out with exclude=",
            id="a-proxy-reached-through-itself",
        ),
        pytest.param(counted_up, {}, 8, "8 dials inside one another", id="another-each-time"),
    ],
)
async def test_a_dial_inside_itself_ends_and_says_why(
    to: Callable[[Target], str], options: dict[str, Any], times: int, words: str
) -> None:
    guest = Through("through", to, **options)
    async with Scene(guest) as scene:
        guest.dialer = scene.dialer
        with pytest.raises(AllAttemptsFailed, match=words) as caught:
            await scene.dial()
        assert caught.value.find(TransportCrashed) is not None
        assert len(guest.asked) == times
        assert anyio.current_time() == 0
        await scene.assert_clean()


async def test_a_guest_may_dial_its_proxy_by_the_others() -> None:
    proxied = Through("proxied", lambda target: "proxy.example:1080")
    async with Scene(
        proxied, racer.Entrant(direct := ScriptedTransport("direct", wins(0.5)), start_delay=1)
    ) as scene:
        proxied.dialer = scene.dialer
        async with await scene.dial() as connection:
            assert connection.transport_name in {"proxied", "direct"}
        direct.ledger.assert_all_closed()
        await scene.assert_clean()


async def test_a_check_may_open_a_second_connection_to_its_target() -> None:
    async def check(stream: Any) -> bool:
        async with await scene.dial() as second:
            return second.transport_name == "a"

    async with Scene(ScriptedTransport("a", wins(0.5))) as scene:
        async with await scene.dial(check=check) as connection:
            assert connection.transport_name == "a"
        await scene.assert_clean()


async def test_two_dials_to_one_target_side_by_side_are_not_inside_one_another() -> None:
    async with Scene(ScriptedTransport("a", wins(1))) as scene:
        async with anyio.create_task_group() as group:

            async def dial() -> None:
                await (await scene.dial()).aclose()

            group.start_soon(dial)
            group.start_soon(dial)
        assert anyio.current_time() == 1
        await scene.assert_clean()


async def test_what_an_attempt_leaves_running_may_dial_when_the_attempt_is_over() -> None:
    """Its context is the attempt's, and says so still."""
    told: list[str] = []
    async with anyio.create_task_group() as outside:

        async def later() -> None:
            await anyio.sleep(1)
            async with await scene.dial() as connection:
                told.append(connection.transport_name)

        async def spawn(guest: Acting) -> Any:
            if not guest.began_at[1:]:
                outside.start_soon(later)
            return guest.stream()

        async with Scene(Acting("a", spawn)) as scene:
            await (await scene.dial()).aclose()
            await anyio.sleep(2)
            assert told == ["a"]
            await scene.assert_clean()


async def test_only_one_task_can_wait_for_the_next_finisher() -> None:
    """Two would wake each other's wait, and one of them would sleep on."""
    async with (
        Scene(ScriptedTransport("a", hangs())) as scene,
        scene.dialer.race("192.0.2.1:80") as race,
        anyio.create_task_group() as group,
    ):

        async def wait() -> None:
            await anext(race)

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError, match="waiting for the next finisher"):
            await anext(race)
        group.cancel_scope.cancel()
