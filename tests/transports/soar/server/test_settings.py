from __future__ import annotations

import pytest

from racer.errors import ConfigError
from tests.transports.soar.server.scripted import Desk


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idle_timeout", 0.0),
        ("idle_timeout", 601.0),
        ("max_sessions", 0),
        ("max_streams", 0),
        ("max_streams", 65_536),
        ("memory", 1000),
    ],
)
def test_what_could_not_work_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        Desk(**{name: value})  # type: ignore[arg-type]
