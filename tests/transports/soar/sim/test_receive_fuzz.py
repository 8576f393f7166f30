"""The whole receive path of both ends, fed with real messages that were changed.

No input makes either end raise, changes a session, grows what is kept, or stops what is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.transports.soar.sim.seals import watched_seals
from tests.transports.soar.sim.traffic import meddled
from transports.soar.core.crypto.packets import ClientSeals, ServerSeals

if TYPE_CHECKING:
    from collections.abc import Callable

STRANGER = bytes((203, 0, 113, 9))

changes = st.lists(
    st.tuples(
        st.sampled_from(["flip", "set", "cut", "grow", "splice", "none"]),
        st.integers(0, 1 << 16),
        st.integers(0, 255),
    ),
    max_size=4,
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["server", "client"]),
        st.integers(0, 1 << 16),
        changes,
        st.sampled_from([0.0, 0.0, 0.01, 0.2]),
    ),
    min_size=1,
    max_size=25,
)


def change(message: bytes, how: list[tuple[str, int, int]], others: list[bytes]) -> bytes:
    out = bytearray(message)
    for kind, place, value in how:
        at = place % max(1, len(out))
        match kind:
            case "flip" if out:
                out[at] ^= 1 << (value & 7)
            case "set" if out:
                out[at] = value
            case "cut":
                del out[at:]
            case "grow":
                out += bytes([value]) * (place % 40)
            case "splice":
                other = others[place % len(others)]
                out[at:] = other[value % len(other) :]
            case _:
                pass
    return bytes(out[:4_000])


def meddle(script: list[tuple[str, int, list[tuple[str, int, int]], float]]) -> None:
    world = meddled()
    simulation, client = world.simulation, world.client
    for end, which, how, pause in script:
        if end == "server":
            tape = world.to_server
            simulation.server.inject(change(tape[which % len(tape)], how, tape), STRANGER)
        else:
            tape = world.to_client
            message = change(tape[which % len(tape)], how, tape)
            client.inject((client.name, 0, client._ports.get(0, 0)), message)
        simulation.rest(pause)
    world.check()


few = settings(
    max_examples=40,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=False,
)


@few
@given(steps)
def test_changed_messages_change_nothing(
    script: list[tuple[str, int, list[tuple[str, int, int]], float]],
) -> None:
    with watched_seals():  # each world has the same keys
        meddle(script)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@settings(few, max_examples=3_000)
@given(steps)
def test_changed_messages_change_nothing_for_long(
    script: list[tuple[str, int, list[tuple[str, int, int]], float]],
) -> None:
    with watched_seals():
        meddle(script)


texts = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.one_of(
            st.binary(max_size=40),
            st.tuples(st.integers(0, 0x1F), st.binary(max_size=12)).map(
                lambda frame: bytes([frame[0]]) + frame[1]
            ),
        ),
    ),
    min_size=1,
    max_size=6,
)


def insider(patch: pytest.MonkeyPatch, script: list[tuple[int, bytes]], *, client: bool) -> None:
    """One end seals frames of its own invention; the other may end the session, and nothing else."""
    lies = dict(script)
    count = 0
    if client:
        seal: Callable[..., bytes] = ClientSeals.seal_packet

        def sealed(
            self: Any, kind: int, form: int, number: int, info: Any, frames: bytes, **rest: Any
        ) -> bytes:
            nonlocal count
            count += 1
            room = rest["capacity"] - 24
            return seal(self, kind, form, number, info, lies.get(count, frames)[:room], **rest)

        patch.setattr(ClientSeals, "seal_packet", sealed)
    else:
        answer = ServerSeals.seal_answer

        def answered(self: Any, number: int, backlog: int, held: float, frames: bytes) -> bytes:
            nonlocal count
            count += 1
            return answer(
                self, number, backlog, held, lies.get(count, frames)[: max(60, len(frames))]
            )

        patch.setattr(ServerSeals, "seal_answer", answered)
    world = meddled()
    simulation = world.simulation
    simulation.rest(5.0)
    server = simulation.server
    assert server.longest_wait <= 0.65
    server.look()
    assert server.most_held <= 4 << 20
    patch.undo()
    # Another client, and this one in another session, are served as ever.
    other = simulation.add_client("other")
    assert simulation.finish(other.dial("echo-8.test", 50), 30.0).succeeded
    for flow in world.client.flows:
        world.client.cancel(flow)
    world.client.core.update_credential(simulation.grants[1], world.client.now())
    assert simulation.finish(world.client.dial("echo-9.test", 50), 30.0).succeeded


@few
@given(texts, st.booleans())
def test_who_has_the_keys_can_end_a_session_and_do_no_more(
    script: list[tuple[int, bytes]], client: bool
) -> None:
    with watched_seals(), pytest.MonkeyPatch.context() as patch:
        insider(patch, script, client=client)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@settings(few, max_examples=3_000)
@given(texts, st.booleans())
def test_who_has_the_keys_can_do_no_more_for_long(
    script: list[tuple[int, bytes]], client: bool
) -> None:
    with watched_seals(), pytest.MonkeyPatch.context() as patch:
        insider(patch, script, client=client)
