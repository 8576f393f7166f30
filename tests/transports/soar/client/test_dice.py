"""Small random numbers out of large draws."""

from __future__ import annotations

from transports.soar.core.client.dice import Dice


class Counting:
    def __init__(self) -> None:
        self.draws: list[int] = []

    def __call__(self, size: int) -> bytes:
        self.draws.append(size)
        return bytes((len(self.draws) + index) & 0xFF for index in range(size))


def test_one_draw_serves_many_numbers() -> None:
    entropy = Counting()
    dice = Dice(entropy)
    assert [dice.octet(), dice.word(), dice.octet()] == [1, 0x0203, 4]
    for _ in range(254):
        dice.word()
    assert entropy.draws == [512]
    dice.octet()
    assert entropy.draws == [512, 512]


def test_a_word_is_never_made_of_two_draws() -> None:
    entropy = Counting()
    dice = Dice(entropy)
    for _ in range(511):
        dice.octet()
    assert dice.word() == 0x0203


def test_a_fraction_is_below_one() -> None:
    assert Dice(lambda size: b"\xff" * size).fraction() < 1
    assert Dice(bytes).fraction() == 0


def test_what_is_in_store_can_be_dropped() -> None:
    entropy = Counting()
    dice = Dice(entropy)
    dice.octet()
    dice.forget()
    assert dice.octet() == 2
