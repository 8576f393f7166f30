"""Names that are not asked for, and addresses that cannot be right."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transports.net.world import BOTH, V4, V6
from transports._net.resolve import Answer
from transports._net.special_names import (
    answer_unasked,
    is_impossible,
    is_internal,
    is_local_name,
)


@pytest.mark.parametrize("name", ["localhost", "localhost.", "db.localhost", "a.b.localhost."])
def test_localhost_is_this_machine(name: str) -> None:
    assert answer_unasked(name, BOTH) == Answer(families=BOTH, addresses=("::1", "127.0.0.1"))
    assert answer_unasked(name, (V4,)) == Answer(families=(V4,), addresses=("127.0.0.1",))


@pytest.mark.parametrize("name", ["onion", "secret.onion", "a.secret.onion.", "x.invalid"])
def test_names_that_are_not_in_the_dns_do_not_exist(name: str) -> None:
    answer = answer_unasked(name, (V6,))
    assert answer is not None
    assert (answer.families, answer.addresses) == ((V6,), ())
    assert isinstance(answer.error, socket.gaierror)
    assert answer.error.errno == socket.EAI_NONAME


@pytest.mark.parametrize("name", ["example.com", "localhost.example", "onions", "my-localhost"])
def test_other_names_are_asked_for(name: str) -> None:
    assert answer_unasked(name, BOTH) is None


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("printer", True),
        ("printer.", True),
        ("printer.local", True),
        ("nas.home.arpa", True),
        ("home.arpa.", True),
        ("db.corp.internal", True),
        ("example.com", False),
        ("internal.example.com", False),
        ("not-local", True),
        ("notlocal.notlocal", False),
    ],
)
def test_which_names_only_a_local_network_can_know(name: str, local: bool) -> None:
    assert is_local_name(name) is local


@pytest.mark.parametrize(
    ("address", "impossible", "internal"),
    [
        ("0.0.0.0", True, False),
        ("0.1.2.3", True, False),
        ("224.0.0.251", True, False),
        ("255.255.255.255", True, True),
        ("::", True, False),
        ("ff02::fb", True, False),
        ("::ffff:0.0.0.0", True, False),
        ("127.0.0.1", False, True),
        ("10.10.34.35", False, True),
        ("100.64.0.1", False, True),
        ("169.254.1.1", False, True),
        ("172.31.255.255", False, True),
        ("172.32.0.0", False, False),
        ("192.168.1.1", False, True),
        ("243.185.187.39", False, True),
        ("::1", False, True),
        ("fd00::1", False, True),
        ("fe80::1%eth0", False, True),
        ("::ffff:10.0.0.1", False, True),
        ("9.9.9.9", False, False),
        ("192.0.2.1", False, False),
        ("2620:fe::fe", False, False),
        ("2001:db8::1", False, False),
        ("no address", False, False),
        ("", False, False),
    ],
)
def test_which_addresses_cannot_be_right(address: str, impossible: bool, internal: bool) -> None:
    assert is_impossible(address) is impossible
    assert is_internal(address) is internal


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert is_impossible(text) in {True, False}
    assert is_internal(text) in {True, False}
    assert is_local_name(text) in {True, False}
