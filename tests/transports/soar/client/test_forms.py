"""Which form a path is asked in (SPEC 5.1)."""

from __future__ import annotations

from transports.soar.core.client.forms import FormChoice
from transports.soar.core.dns.answers import Form


def test_it_begins_with_ds_with_edns() -> None:
    choice = FormChoice()
    assert choice.current is Form.DS
    assert choice.edns
    assert not choice.is_proven


def test_a_form_that_never_works_gives_way_after_three() -> None:
    choice = FormChoice()
    tried = []
    for _ in range(4):
        tried.append(choice.current)
        for _ in range(3):
            choice.failed(choice.current)
    assert tried == [Form.DS, Form.TXT, Form.SOA, Form.DS]


def test_failures_of_another_form_do_not_count() -> None:
    choice = FormChoice()
    for _ in range(9):
        choice.failed(Form.TXT)
    assert choice.current is Form.DS


def test_what_works_is_kept() -> None:
    choice = FormChoice()
    choice.worked(Form.SOA)
    for _ in range(30):
        choice.failed(Form.SOA)
    choice.worked(Form.DS)
    assert choice.current is Form.SOA
    assert choice.is_proven


def test_after_a_long_silence_the_race_begins_anew() -> None:
    choice = FormChoice()
    choice.worked(Form.TXT)
    choice.doubt()
    forms = [choice.current]
    for _ in range(3):
        choice.failed(Form.TXT)
    forms.append(choice.current)
    choice.worked(Form.DS)
    assert [*forms, choice.current] == [Form.TXT, Form.SOA, Form.DS]
