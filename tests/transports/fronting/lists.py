"""Lists of fronts of our own making, without a network."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import trustme

from transports.fronting._catalog import Catalog, read_catalog


@cache
def authority() -> trustme.CA:
    return trustme.CA()


def pem() -> str:
    return authority().cert_pem.bytes().decode()


def provider(name: str, count: int = 4, **changes: Any) -> dict[str, Any]:
    number = sum(name.encode()) % 200
    return {
        "hostaliases": {"api.example.com": f"api.{name}.example.net"},
        "testurl": f"https://ping.{name}.example.net/ping?x=1",
        "masquerades": [
            {"domain": f"front{n}.{name}.example.org", "ipaddress": f"192.0.{number}.{n + 1}"}
            for n in range(count)
        ],
        **changes,
    }


def document(**providers: dict[str, Any]) -> dict[str, Any]:
    return {"trustedcas": [{"commonname": "test", "cert": pem()}], "providers": providers}


def octets(**providers: dict[str, Any]) -> bytes:
    return json.dumps(document(**providers)).encode()


def catalog(**providers: dict[str, Any]) -> Catalog:
    return read_catalog(octets(**providers))
