"""What may follow what in a session's life (SPEC 14.4)."""

from __future__ import annotations

import itertools

import pytest

from racer.errors import LocalProtocolError
from transports.soar.core.client.states import FINAL, OPENABLE, SessionState, follow

TABLE = """
handshaking -> live idle ended lost closed
draining    -> ended lost closed
live        -> idle draining ended lost closed
idle        -> live draining retired ended lost closed
"""

ALLOWED = {
    (SessionState(before), SessionState(after))
    for line in TABLE.strip().splitlines()
    for before, afters in [(line.split("->")[0].strip(), line.split("->")[1].split())]
    for after in afters
}


@pytest.mark.parametrize(
    ("before", "after"),
    list(itertools.product(SessionState, repeat=2)),
    ids=lambda state: state.value,
)
def test_every_pair_of_states(before: SessionState, after: SessionState) -> None:
    if (before, after) in ALLOWED:
        assert follow(before, after) is after
    else:
        with pytest.raises(LocalProtocolError, match=f"{before.value} cannot become {after.value}"):
            follow(before, after)


def test_which_are_final_and_which_take_streams() -> None:
    assert {state.value for state in FINAL} == {"retired", "ended", "lost", "closed"}
    assert {state.value for state in OPENABLE} == {"handshaking", "live", "idle"}
