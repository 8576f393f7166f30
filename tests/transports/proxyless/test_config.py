"""A `Proxyless` from a configuration: its options, and a strategy file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from racer import config
from racer.abc import MakeContext
from racer.errors import ConfigError
from transports.proxyless import Proxyless, make
from transports.proxyless._options import DEFAULT_STRATEGIES

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
dns: [{system: {}}, {tls: {name: 192.0.2.1}}]
tls: ["", "split:1"]
fallback: ["socks5://192.0.2.9", "ss://secret@192.0.2.9"]
"""


def made(**options: Any) -> Proxyless:
    return make(MakeContext(name="proxyless", options=options))


def test_without_options_it_is_as_the_class_has_it() -> None:
    assert repr(made()) == repr(Proxyless())
    assert [each.text for each in made()._parts.strategies] == list(DEFAULT_STRATEGIES)


def test_every_option() -> None:
    found = made(
        resolvers=["udp://192.0.2.1"],
        strategies=["split:1"],
        fallbacks=["socks5://192.0.2.9"],
        hosts={"a.example": ["192.0.2.7"]},
        memory="winners.json",
        ttl=60,
        probe_timeout=1.0,
        search_timeout=10.0,
        max_probes=2,
    )
    assert repr(found) == "<Proxyless: udp://192.0.2.1; split:1>"


def test_a_strategy_file(tmp_path: Path) -> None:
    file = tmp_path / "smart.yaml"
    file.write_text(FILE)
    with pytest.raises(
        ConfigError, match=r"outline: .*smart.yaml: fallback\[1\]: ss:// is not supp"
    ):
        made(outline=str(file))
    found = made(outline=str(file), skip_unsupported=True)
    assert repr(found) == "<Proxyless: system, tls://192.0.2.1; direct, split:1>"
    assert found.status().details["unsupported"] == "fallback[1]: ss://"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": []}, "unknown key 'strategy'.*'strategies'"),
        ({"dial_tcp": print}, "unknown key 'dial_tcp'"),
        ({"outline": 7}, "outline must be the path of a file, not int"),
        ({"outline": "no/such/file"}, "outline: no/such/file: cannot be read: No such file"),
        ({"skip_unsupported": True}, "skip_unsupported: is about a strategy file"),
        ({"skip_unsupported": 1, "outline": "x"}, "skip_unsupported must be true or false"),
        ({"ttl": "long"}, "ttl must be a finite, positive"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made(**options)


def test_a_file_and_its_own_words_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "smart.yaml"
    file.write_text("tls: ['split:1']")
    with pytest.raises(ConfigError, match="strategies and a strategy file: only one"):
        made(outline=str(file), strategies=["split:2"])
    assert repr(made(outline=str(file), resolvers=["system"])) == "<Proxyless: system; split:1>"
    file.write_bytes(b" " * 300_000)
    with pytest.raises(ConfigError, match="more than 262144 octets"):
        made(outline=str(file))


def test_it_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "racer.toml"
    file.write_text(
        '[[entrant]]\ntransport = "proxyless"\n[entrant.options]\nstrategies = ["split:1"]'
    )
    dialer = config.load(file)
    assert repr(dialer) == "<Dialer of proxyless>"
    assert dialer.status().entrants[0].start_delay == 0.3
