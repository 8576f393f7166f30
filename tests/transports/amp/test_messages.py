"""Requests and responses inside the envelope, as the original writes them, and as nobody should."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from transports.amp._messages import InnerRequest, InnerResponse

FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b"x-a", b"X-B", b"set-cookie"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f\xa0\x85"), max_size=9).map(lambda t: t.strip().encode("latin-1")),
    ),
    max_size=4,
).map(lambda fields: tuple(sorted(fields, key=lambda f: f[0])))  # fmt: skip


@given(FIELDS, st.binary(max_size=40))
def test_requests_round_trip(fields: Any, body: bytes) -> None:
    request = InnerRequest(method="PUT", url="https://h.example/p?q", fields=fields, body=body)
    assert InnerRequest.from_json(request.to_json()) == request


@given(FIELDS, st.binary(max_size=40), st.integers(200, 999))
def test_responses_round_trip(fields: Any, body: bytes, status: int) -> None:
    fields = tuple((name.lower(), value) for name, value in fields)
    fields = tuple(sorted(fields, key=lambda f: f[0]))
    response = InnerResponse(status=status, fields=fields, body=body)
    again = InnerResponse.from_json(response.to_json())
    assert sorted(again.fields) == sorted(fields)
    assert (again.status, again.body) == (status, body)


def test_the_words_of_the_original() -> None:
    """As Go's encoding/json writes the original's structures, empty ones included."""
    request = InnerRequest.from_json(
        b'{"method":"","host":"h.example","url":"https://h.example/","body":null,"headers":null}'
    )
    assert (request.method, request.body, request.fields) == ("GET", b"", ())
    assert json.loads(request.to_json()) == {
        "method": "GET", "host": "h.example", "url": "https://h.example/", "body": None, "headers": {},
    }  # fmt: skip
    response = InnerResponse.from_json(
        b'{"status_code":200,"status_text":"200 OK","content_length":-1,'
        b'"headers":{"Set-Cookie":["a=1","b=2"],"X-Name":["\\u20ac"]},"body":"Ym9keQ=="}'
    )
    assert response.fields == (
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"x-name", "\u20ac".encode()),
    )
    assert response.body == b"body"


REQUEST: dict[str, Any] = {
    "method": "GET",
    "url": "https://h.example/",
    "headers": {},
    "body": None,
}


@pytest.mark.parametrize(
    "change",
    [
        {"method": None}, {"method": "G T"}, {"method": "GET\r\n"}, {"method": "G" * 40}, {"url": None}, {"url": "https://h /"},
        {"url": "https://h/\r\nX: 1"}, {"url": "https://h/\u00e9"}, {"headers": []}, {"headers": {"x": "1"}}, {"headers": {"x": [1]}},
        {"headers": {"x y": ["1"]}}, {"headers": {"x": ["1\r\nEvil: 1"]}}, {"headers": {"x\r\n": ["1"]}}, {"headers": {"x": ["\x00"]}},
        {"headers": {"": ["1"]}}, {"headers": {"x": ["1"] * 300}}, {"body": 5}, {"body": "!"}, {"body": "YQ"},
    ],
)  # fmt: skip
def test_what_is_no_request(change: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed"):
        InnerRequest.from_json(json.dumps({**REQUEST, **change}).encode())


@pytest.mark.parametrize("status", [None, "200", 100, 199, 1000, True, 200.0])
def test_what_is_no_response(status: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed"):
        InnerResponse.from_json(json.dumps({"status_code": status}).encode())


@given(st.binary(max_size=60))
def test_garbage_is_one_error(data: bytes) -> None:
    for kind in (InnerRequest, InnerResponse):
        with pytest.raises(RemoteProtocolError):
            kind.from_json(data)
