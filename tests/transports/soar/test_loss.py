"""From which loss on things are said twice (SPEC 11.6)."""

from __future__ import annotations

import pytest

from transports.soar.core.loss import LossShare


def test_one_loss_is_notable_until_some_thirty_others_have_arrived() -> None:
    loss = LossShare()
    assert not loss.is_notable
    loss.lost()
    arrived = 0
    while loss.is_notable:
        loss.arrived()
        arrived += 1
    assert arrived == 29


def test_it_comes_near_the_share_that_is_lost() -> None:
    loss = LossShare()
    for _ in range(40):
        loss.arrived(19)
        loss.lost()
    assert loss.share == pytest.approx(0.05, abs=0.01)


def test_many_at_once_are_as_many_one_by_one() -> None:
    one, all_ = LossShare(), LossShare()
    for loss in (one, all_):
        loss.lost()
    for _ in range(10):
        one.arrived()
    all_.arrived(10)
    assert one.share == pytest.approx(all_.share)
