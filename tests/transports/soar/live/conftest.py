"""Resolvers that are started once and asked by many tests."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from tests.transports.soar.live.resolvers import (
    HOST,
    UPSTREAM_HOST,
    Resolver,
    Upstream,
    free_port,
    running,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


@dataclass(frozen=True)
class Front:
    """A resolver that is asked over TLS and HTTPS too.

    Attributes:
        resolver: it.
        trust: a context that believes it, and offers HTTP/2.
        pem: the authority's certificate.
    """

    resolver: Resolver
    trust: ssl.SSLContext
    pem: str


@pytest.fixture(scope="session")
def front(
    resolver_named: Callable[..., Resolver], tmp_path_factory: pytest.TempPathFactory
) -> Front:
    """Return unbound with a certificate of a throw-away authority's."""
    folder = tmp_path_factory.mktemp("certificate")
    key, pem = folder / "key.pem", folder / "cert.pem"
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST)
    certificate.private_key_pem.write_to_path(key)
    certificate.cert_chain_pems[0].write_to_path(pem)
    text = authority.cert_pem.bytes().decode("ascii")
    trust = ssl.create_default_context(cadata=text)
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    trust.set_alpn_protocols(["h2"])
    return Front(resolver_named("unbound", key=str(key), pem=str(pem)), trust, text)
