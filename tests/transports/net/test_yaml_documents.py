"""YAML from bytes that nobody vouches for: plain data or one named error, within bounds."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports._net import yaml_documents
from transports._net.yaml_documents import MAX_DEPTH, MAX_PACKED, MAX_TEXT, read_yaml

TEXTS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=8)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        (
            "{a: null, b: true, c: FALSE, d: 12, e: -3}",
            {"a": None, "b": True, "c": False, "d": 12, "e": -3},
        ),
        (
            "[1.10, 012, 0x1f, 1e3, no, on, 2026-11-30, 1_000]",
            ["1.10", "012", "0x1f", "1e3", "no", "on", "2026-11-30", "1_000"],
        ),
        ('["12", \'true\', "null"]', ["12", "true", "null"]),
        ("a: |\n  12\n", {"a": "12\n"}),
        ("{1: x, <<: y, true: z}", {"1": "x", "<<": "y", "true": "z"}),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ],
)
def test_scalars_keep_their_text(text: str, value: Any) -> None:
    assert read_yaml(text.encode()) == value
    assert read_yaml(gzip.compress(text.encode())) == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (BOMB.encode(), "line 1: an anchor"),
        (b"a: *b", "line 1: an alias"),
        (b"a: !!python/object/apply:os.system [id]", "a tag"),
        (b"!!set {a}", "a tag"),
        (b"a: 1\nb: 2\na: 3", "line 3: the key 'a' a second time"),
        (b"---\na\n---\nb", "line 3: a second document"),
        (b"? [a]\n: b", "a key that is no text"),
        (b"[" * (MAX_DEPTH + 1), "levels"),
        (b"[" * 100_000, "levels|nesting depth"),
        (b"a: [", "not YAML"),
        (b"a: \xff", "not YAML"),
        (b"\x00", "not YAML"),
        (b"\t- a: b: c", "not YAML"),
        (gzip.compress(b"a: 1", mtime=0)[:-4], "ends too early"),
        (gzip.compress(b"a: 1", mtime=0) + b"more", "follows"),
        (b"\x1f\x8b\x08\x00damaged", "damaged gzip|ends too early"),
        (b"\x1f\x8b\x09\x00damaged", "damaged gzip"),
    ],
)  # fmt: skip
def test_what_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_yaml(data)


def test_a_hundred_megabytes_are_refused_unread() -> None:
    with pytest.raises(ConfigError, match=f"more than {MAX_PACKED} octets"):
        read_yaml(b"a" * (MAX_PACKED + 1))
    packed = gzip.compress(bytes(100 << 20), compresslevel=1)
    assert len(packed) < MAX_PACKED
    with pytest.raises(ConfigError, match=f"more than {MAX_TEXT} octets when unpacked"):
        read_yaml(packed)


def test_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_NODES", 100)
    assert len(read_yaml(b"[" + b"1," * 98 + b"1]")) == 99
    with pytest.raises(ConfigError, match="more than 100 values"):
        read_yaml(b"[" + b"1," * 100 + b"1]")


def test_without_libyaml_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert read_yaml(b"{a: [1, x], b: {c: null}}") == {"a": [1, "x"], "b": {"c": None}}
    with pytest.raises(ConfigError, match="an anchor"):
        read_yaml(BOMB.encode())


@given(st.binary(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>#'\"\n\t ,?%@`~", max_size=60))
def test_garbage_gives_a_value_or_one_error(data: bytes | str) -> None:
    octets = data if isinstance(data, bytes) else data.encode()
    try:
        value = read_yaml(octets)
    except ConfigError:
        return
    json.dumps(value)  # plain data


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXTS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )
)
def test_json_is_read_as_it_is(value: Any) -> None:
    assert read_yaml(json.dumps(value).encode()) == value
