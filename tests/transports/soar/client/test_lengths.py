"""In which names, and on which way, things are said again (SPEC 11.6); `test_packets` has what is said once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.client.peer import Rig
from transports.soar.core.client.lengths import class_again, way_again

if TYPE_CHECKING:
    from transports.soar.core.client.path import Path


def paths(*round_trips: float) -> list[Path]:
    rig = Rig(paths=len(round_trips))
    found = list(rig.client._paths.values())
    for path, round_trip in zip(found, round_trips, strict=True):
        path.polls.observe(round_trip, 1.0)
        path.is_known = True
    return found


@pytest.mark.parametrize(
    ("octets", "begun", "classes"),
    [(56, True, [1, 1]), (57, True, [2, 1]), (57, False, [1, 1])],
    ids=["few", "more, and a longer name is tried once", "more, before sizes may be raised"],
)
def test_more_than_four_short_names_go_in_a_long_one(
    octets: int, begun: bool, classes: list[int]
) -> None:
    (path,) = paths(0.1)
    path.sizes.has_begun = begun
    found = []
    for _ in range(2):
        found.append(class_again(path, octets, 1.0))
        path.sizes.up.began(found[-1])
    assert found == classes


@pytest.mark.parametrize(("round_trips", "way"), [((0.1,), 0), ((0.1, 0.14), 1), ((0.1, 0.16), 0)])
def test_another_path_is_the_better_one_if_it_is_about_as_fast(
    round_trips: tuple[float, ...], way: int
) -> None:
    found = paths(*round_trips)
    assert way_again(found) is found[way]


def test_a_path_in_doubt_is_none() -> None:
    first, second = paths(0.1, 0.1)
    second.is_doubted = True
    assert way_again([first, second]) is first
    first.is_spare = True
    assert way_again([first, second]) is None
