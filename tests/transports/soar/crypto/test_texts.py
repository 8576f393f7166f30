"""Keys as text (SPEC 3.1, 3.3)."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transports.soar.crypto.parties import GRANT, SERVER_KEY
from transports.soar.core.crypto import Grant, InvalidKey, PublicKey, ServerKey
from transports.soar.core.crypto.texts import Wording

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
TEXTS = {
    PublicKey: SERVER_KEY.public.to_text(),
    ServerKey: SERVER_KEY.to_text(),
    Grant: GRANT.to_text(),
}
Parsed = type[PublicKey] | type[ServerKey] | type[Grant]
every_text = pytest.mark.parametrize("kind", list(TEXTS))


@pytest.mark.parametrize(("kind", "length"), [(PublicKey, 61), (ServerKey, 67), (Grant, 76)])
def test_a_text_is_one_lower_case_word_and_reads_back(kind: Parsed, length: int) -> None:
    text = TEXTS[kind]
    assert len(text) == length
    assert text.isalnum()
    assert text == text.lower()
    assert kind.parse(text).to_text() == text


@every_text
@pytest.mark.parametrize("change", [str.upper, str.title, lambda text: f"  {text}\r\n"])
def test_case_and_white_space_around_it_do_not_matter(kind: Parsed, change: object) -> None:
    assert callable(change)
    assert kind.parse(change(TEXTS[kind])).to_text() == TEXTS[kind]


@every_text
def test_one_wrong_character_anywhere_is_noticed(kind: Parsed) -> None:
    text = TEXTS[kind]
    coded = len(text) - (66 if kind is Grant else 56)
    # The last character of a grant holds three bits of the key, and two that nothing is read from.
    for at in range(len(text)):
        for char in ALPHABET + "=-\N{LATIN SMALL LETTER LONG S}":
            if char == text[at] or (kind is Grant and at == len(text) - 1):
                continue
            with pytest.raises(InvalidKey) as caught:
                kind.parse(text[:at] + char + text[at + 1 :])
            assert text[coded:][:10] not in str(caught.value)


@every_text
def test_a_cut_or_longer_text_is_noticed(kind: Parsed) -> None:
    text = TEXTS[kind]
    for wrong in (*(text[:at] for at in range(len(text))), text + "a", text + "=", text * 2):
        with pytest.raises(InvalidKey):
            kind.parse(wrong)


@every_text
def test_swapped_neighbours_are_noticed(kind: Parsed) -> None:
    text = TEXTS[kind]
    for at in range(len(text) - 1):
        if text[at] != text[at + 1]:
            with pytest.raises(InvalidKey):
                kind.parse(text[:at] + text[at + 1] + text[at] + text[at + 2 :])


@given(st.text(max_size=90))
def test_garbage_gives_the_one_error(text: str) -> None:
    for kind in (PublicKey, ServerKey, Grant):
        for wrong in (text, "soar1" + text, "soargrant1" + text):
            with pytest.raises(InvalidKey):
                kind.parse(wrong)


@every_text
def test_an_error_and_its_whole_chain_quote_nothing(kind: Parsed) -> None:
    text = TEXTS[kind]
    changed = text[:30] + ("b" if text[30] == "a" else "a") + text[31:]
    for wrong in (changed, text[:-1], text[:40] + "!" + text[41:], "x" + text):
        with pytest.raises(InvalidKey) as caught:
            kind.parse(wrong)
        told = "".join(
            # The lines of source and the values in them are pytest's business, not the error's.
            line
            for exc in (caught.value, caught.value.__cause__, caught.value.__context__)
            if exc is not None
            for line in traceback.format_exception_only(exc)
        )
        assert not any(wrong[at : at + 8] in told for at in range(12, len(wrong) - 8))


@given(st.binary(min_size=20, max_size=20))
def test_any_key_survives(key: bytes) -> None:
    wording = Wording("key", prefix="k1", label=b"label", size=20)
    assert wording.read(wording.write(key)) == key


def test_a_text_of_another_kind_is_told_apart() -> None:
    with pytest.raises(InvalidKey, match="begin with 'soargrant1'"):
        Grant.parse(TEXTS[PublicKey])
    with pytest.raises(InvalidKey, match="66 characters, where there must be 61"):
        PublicKey.parse(TEXTS[ServerKey].replace("soarsecret1", "soar1xxxxx"))
