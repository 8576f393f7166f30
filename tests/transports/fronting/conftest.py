"""The network on loopback, once for each file of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transports.fronting.cdn import Network, network

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def running_cdn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with network(tmp_path_factory.mktemp("cdn")) as running:
        yield running


@pytest.fixture
def cdn(running_cdn: Network) -> Network:
    """The network, which remembers nothing of earlier tests."""
    running_cdn.forget()
    return running_cdn
