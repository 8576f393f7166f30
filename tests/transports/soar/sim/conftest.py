from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.sim.seals import Seals, watched_seals

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def seals() -> Iterator[Seals]:
    """Hold every story of this room to the first invariant."""
    with watched_seals() as seals:
        yield seals
