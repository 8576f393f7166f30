"""What a link makes of what is sent through it, to the exact second, and the same for the same seed."""

from __future__ import annotations

import math

import pytest

from racer.errors import ConfigError
from racer.lab import CLEAN, Bottleneck, DatagramLink, Delivery, Profile, StreamLink

SEGMENT = 1460


def arrivals(deliveries: tuple[Delivery, ...]) -> list[float]:
    return [delivery.at for delivery in deliveries]


@pytest.mark.parametrize("link", [DatagramLink(CLEAN), StreamLink(CLEAN)])
def test_a_clean_link_does_nothing(link: DatagramLink | StreamLink) -> None:
    assert link.send(b"hello", 3.0) == (Delivery(3.0, b"hello"),)


@pytest.mark.parametrize("link", [DatagramLink, StreamLink])
def test_every_byte_takes_the_delay(link: type[DatagramLink | StreamLink]) -> None:
    assert link(Profile(delay=0.25)).send(b"hello", 1.0) == (Delivery(1.25, b"hello"),)


def test_a_stream_is_cut_into_segments() -> None:
    data = bytes(range(256)) * 12  # 3072 bytes
    pieces = StreamLink(CLEAN).send(data, 0.0)
    assert [len(piece.data) for piece in pieces] == [SEGMENT, SEGMENT, 152]
    assert b"".join(piece.data for piece in pieces) == data


def test_the_end_of_a_stream_is_a_delivery_without_bytes() -> None:
    assert StreamLink(Profile(delay=0.5)).send(b"", 1.0) == (Delivery(1.5, b""),)


def test_a_rate_lets_the_last_byte_out_when_all_have_gone() -> None:
    link = StreamLink(Profile(rate=1460.0, delay=0.5))
    assert arrivals(link.send(bytes(2 * SEGMENT), 0.0)) == [1.5, 2.5]
    assert arrivals(link.send(bytes(730), 10.0)) == [11.0]  # the queue has long been empty


def test_a_stream_waits_for_no_more_than_the_queue() -> None:
    link = StreamLink(Profile(rate=1000.0, queue=500))
    assert link.ready_at(0.0) == 0.0
    link.send(bytes(1000), 0.0)
    assert link.ready_at(0.0) == 0.5
    assert link.ready_at(0.75) == 0.75


def test_datagrams_beyond_the_queue_are_lost() -> None:
    link = DatagramLink(Profile(rate=1000.0, queue=1000))
    sent = [arrivals(link.send(bytes(500), 0.0)) for _ in range(4)]
    assert sent == [[0.5], [1.0], [], []]
    assert arrivals(link.send(bytes(500), 0.5)) == [1.5]


def test_all_that_cross_a_bottleneck_share_it() -> None:
    shared = Bottleneck(1000.0, 10_000)
    one, other = (StreamLink(CLEAN, bottlenecks=[shared]) for _ in range(2))
    assert arrivals(one.send(bytes(500), 0.0)) == [0.5]
    assert arrivals(other.send(bytes(500), 0.0)) == [1.0]


def test_of_several_bottlenecks_the_narrow_one_counts() -> None:
    link = StreamLink(CLEAN, bottlenecks=[Bottleneck(1e9, 10_000), Bottleneck(100.0, 10)])
    (delivery,) = link.send(bytes(100), 0.0)
    assert delivery.at == pytest.approx(1.0, abs=1e-6)
    assert link.ready_at(0.0) == pytest.approx(0.9, abs=1e-6)


def test_jitter_is_spread_and_streams_keep_their_order() -> None:
    profile = Profile(delay=1.0, jitter=0.5)
    times = [DatagramLink(profile, seed=seed).send(b"x", 0.0)[0].at for seed in range(200)]
    assert all(1.0 <= at <= 1.5 for at in times)
    assert min(times) < 1.1
    assert max(times) > 1.4

    stream = StreamLink(profile, seed=1)
    times = [stream.send(b"x", index / 1000)[0].at for index in range(200)]
    assert times == sorted(times)


def test_lost_datagrams_never_arrive() -> None:
    link = DatagramLink(Profile(loss=0.25), seed=3)
    arrived = sum(len(link.send(b"x", 0.0)) for _ in range(4000))
    assert 2900 <= arrived <= 3100
    assert DatagramLink(Profile(loss=1.0)).send(b"x", 0.0) == ()


def test_a_lost_segment_comes_late_and_holds_up_what_is_behind_it() -> None:
    """Its timeout doubles each time (RFC 6298 section 5.5): 0.2, 0.6, 1.4 s and so on after the first try."""
    link = StreamLink(Profile(loss=0.5), seed=0)
    times = [link.send(b"x", 0.0)[0].at for _ in range(40)]
    possible = [math.fsum(0.2 * 2**n for n in range(count)) for count in range(16)]
    assert all(any(at == pytest.approx(time) for time in possible) for at in times)
    assert times == sorted(times)
    assert times[-1] > 0


def test_the_timeout_is_no_shorter_than_a_round_trip() -> None:
    link = StreamLink(Profile(loss=0.5, delay=0.5), seed=0)
    late = {link.send(b"x", float(n * 1000))[0].at - n * 1000 for n in range(50)}
    assert min(late) == 0.5
    assert sorted(late)[1] == 1.5


def test_what_is_always_lost_never_arrives_and_nothing_behind_it() -> None:
    link = StreamLink(Profile(loss=1.0))
    assert arrivals(link.send(b"x", 0.0)) == [math.inf]
    assert link.connect(0.0) == math.inf
    assert (
        link.reset_at(1.0) == 1.0
    )  # a reset is not sent again, so the simulation does not lose it


def test_the_first_packet_of_a_connection_is_sent_again_after_a_second() -> None:
    times = {
        StreamLink(Profile(loss=0.5, delay=0.25), seed=seed).connect(0.0) for seed in range(50)
    }
    assert sorted(times)[:3] == [0.25, 1.25, 3.25]


def test_a_reset_overtakes_what_is_sent_again_but_not_what_waits_for_the_rate() -> None:
    link = StreamLink(Profile(rate=100.0, delay=0.5))
    link.send(bytes(100), 0.0)
    assert link.reset_at(0.0) == 1.5


def test_an_overtaken_datagram_takes_twice_as_long() -> None:
    assert arrivals(DatagramLink(Profile(reorder=1.0, delay=0.5)).send(b"x", 0.0)) == [1.0]
    assert arrivals(DatagramLink(Profile(reorder=1.0)).send(b"x", 0.0)) == [0.01]


def test_a_duplicate_arrives_twice() -> None:
    assert DatagramLink(Profile(duplicate=1.0)).send(b"x", 1.0) == (Delivery(1.0, b"x"),) * 2


@pytest.mark.parametrize("link", [DatagramLink, StreamLink])
def test_corruption_flips_one_bit(link: type[DatagramLink | StreamLink]) -> None:
    data = bytes(100)
    (delivery,) = link(Profile(corrupt=1.0), seed=5).send(data, 0.0)
    assert len(delivery.data) == 100
    assert sum(byte.bit_count() for byte in delivery.data) == 1


def test_nothing_cannot_be_corrupted() -> None:
    assert DatagramLink(Profile(corrupt=1.0)).send(b"", 0.0) == (Delivery(0.0, b""),)


@pytest.mark.parametrize("link", [DatagramLink, StreamLink])
def test_the_same_seed_gives_the_same_link(link: type[DatagramLink | StreamLink]) -> None:
    profile = Profile(
        delay=0.1, jitter=0.1, loss=0.2, reorder=0.2, duplicate=0.2, corrupt=0.2, rate=1e6
    )

    def run(seed: int | str) -> list[tuple[Delivery, ...]]:
        one = link(profile, seed=seed)
        return [one.send(bytes(50), index / 100) for index in range(100)]

    assert run(7) == run(7)
    assert run("seven") == run("seven")
    assert run(7) != run(8)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"delay": -1.0}, "delay"),
        ({"delay": math.inf}, "delay"),
        ({"jitter": math.nan}, "jitter"),
        ({"loss": 1.5}, "loss"),
        ({"reorder": -0.1}, "reorder"),
        ({"duplicate": math.nan}, "duplicate"),
        ({"corrupt": 2.0}, "corrupt"),
        ({"rate": 0.0}, "rate"),
        ({"rate": math.inf}, "rate"),
        ({"queue": 0}, "queue"),
    ],
)
def test_what_no_link_could_do_is_refused(options: dict[str, float], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        Profile(**options)  # type: ignore[arg-type]
