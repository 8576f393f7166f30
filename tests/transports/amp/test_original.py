"""What the original client, broker and cache library of Go wrote, read here: `original.json` says how it was made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transports.amp._armor import unarmor
from transports.amp._crypto import open_answer, open_request, read_private_key
from transports.amp._messages import InnerRequest, InnerResponse
from transports.amp._urls import PREFIX, cache_place, decode_path, read_base_url

WRITTEN = json.loads((Path(__file__).parent / "original.json").read_text(encoding="utf-8"))


def test_the_original_clients_request() -> None:
    payload = decode_path(WRITTEN["client_path"].removeprefix(f"/{PREFIX}"))
    opened = open_request(payload, read_private_key(WRITTEN["private_key"]))
    assert InnerRequest.from_json(opened.inner) == InnerRequest(
        method="POST",
        url="https://api.example.com/p?q=1",
        fields=((b"X-Own", b"1"),),
        body=b"from go",
    )


def test_the_original_brokers_page() -> None:
    sealed = unarmor(WRITTEN["broker_page"].encode())
    answer = open_answer(sealed, key=bytes(range(32)), nonce=b"\xff" * 12)
    response = InnerResponse.from_json(answer)
    assert (response.status, response.body) == (503, b"my own word")
    assert dict(response.fields)[b"x-lantern-origin"] == b"api"


@pytest.mark.parametrize(("page", "place"), WRITTEN["cache_urls"].items())
def test_the_original_librarys_cache_urls(page: str, place: str) -> None:
    cache = read_base_url("https://cdn.ampproject.org", "cache_url")
    assert str(cache_place(read_base_url(page, "broker_url"), cache)).rstrip("/") == place
