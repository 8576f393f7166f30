from __future__ import annotations

from ipaddress import ip_address

import pytest

from transports.soar.core.server.source import prefix_of


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("192.0.2.1", "192.0.2.254", True),
        ("192.0.2.1", "192.0.3.1", False),
        ("2001:db8:1::1", "2001:db8:1:ffff::1", True),
        ("2001:db8:1::1", "2001:db8:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.7", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.3.1", False),
    ],
)
def test_neighbours_share_a_prefix(one: str, other: str, together: bool) -> None:
    first, second = (prefix_of(ip_address(text).packed) for text in (one, other))
    assert (first == second) is together
