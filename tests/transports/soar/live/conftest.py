"""Resolvers that are started once and asked by many tests."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.transports.soar.live.resolvers import UPSTREAM_HOST, Upstream, free_port, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.transports.soar.live.resolvers import Resolver


@pytest.fixture(scope="session")
def upstream() -> Upstream:
    """Where every resolver looks for the zone, and a test's server has to be."""
    return Upstream(UPSTREAM_HOST, free_port(UPSTREAM_HOST))


@pytest.fixture(scope="session")
def resolver_named(
    upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Resolver]]:
    """Return a resolver by its name and settings, started when it is first wanted."""
    started: dict[Any, Resolver] = {}
    with ExitStack() as stack:

        def get(name: str, **settings: str) -> Resolver:
            wanted = (name, *sorted(settings.items()))
            if wanted not in started:
                folder = tmp_path_factory.mktemp(name)
                started[wanted] = stack.enter_context(running(name, folder, upstream, **settings))
            return started[wanted]

        yield get
