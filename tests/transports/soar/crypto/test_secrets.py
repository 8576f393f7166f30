"""Nothing that shows a value shows a secret."""

from __future__ import annotations

import base64
import importlib
import pkgutil
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from racer.errors import RacerError
from tests.transports.soar.crypto.parties import (
    GRANT,
    SERVER_KEY,
    ZONE,
    FixedEntropy,
    greet,
    pair,
    terms,
)
from transports.soar.core import crypto
from transports.soar.core.crypto import (
    Cookies,
    Info,
    Kind,
    Opened,
    RetryCookie,
    Status,
    Terms,
    open_first,
)
from transports.soar.core.crypto.hashes import digest
from transports.soar.core.crypto.noise import Initiator, Responder, Split
from transports.soar.core.crypto.packets import SessionKeys
from transports.soar.core.crypto.texts import Wording

if TYPE_CHECKING:
    from collections.abc import Callable

FRAMES = b"www.example.com, and what one says to it"


def spellings(secret: bytes) -> set[str]:
    """Return how `secret`, or a good part of it, could come to be seen."""
    found: set[str] = set()
    for part in {secret, secret[:12], secret[-12:]}:
        found |= {part.hex(), repr(part)[2:-1], str(int.from_bytes(part))}
        found |= {
            code(part).decode().rstrip("=")[:-1]
            for code in (base64.b32encode, base64.b64encode, base64.urlsafe_b64encode)
        }
    return {form.lower() for form in found}


def established() -> dict[str, tuple[Any, list[bytes]]]:
    """Return one object of each class that holds a secret, by the name of its class, and the secrets."""
    client, server = pair()
    first = greet(grant=GRANT, cookie=RetryCookie(b"12345678", b"abcd"), frames=FRAMES[:10])
    opened = open_first(SERVER_KEY, ZONE, first.message)
    assert opened is not None
    claims = opened.claims
    assert claims.grant is not None
    welcome = Terms(
        status=Status.WELCOME,
        time=0,
        idle_timeout=1.0,
        status_key=b"status key 16 oc",
        frames=FRAMES,
    )
    ephemeral = FixedEntropy("client")(32)
    initiator = Initiator(remote_static=SERVER_KEY.public.raw, prologue=b"", ephemeral=ephemeral)
    message = initiator.seal(FRAMES)
    responder = Responder(
        static=SERVER_KEY.private,
        static_public=SERVER_KEY.public.raw,
        prologue=b"",
        message=message,
    )
    chaining = [initiator.chaining_key, ephemeral]
    session = SessionKeys(to_server=b"k" * 16 + b"l" * 16, to_client=b"m" * 16 + b"n" * 16)
    raw = SERVER_KEY._raw
    header = digest(32, b"soar1 header", SERVER_KEY.public.raw)
    early = [client._noise.chaining_key, server._noise.chaining_key]
    values: list[tuple[Any, list[bytes]]] = [
        (SERVER_KEY, [raw]),
        (SERVER_KEY.public, [SERVER_KEY.public.raw]),
        (SERVER_KEY.public.header_key, [SERVER_KEY.public.raw, header]),
        (GRANT, [GRANT.secret]),
        (client, early),
        (server, early),
        (client.seals, early),
        (server.seals, early),
        (claims, [claims.grant[1], b"12345678", FRAMES[:10]]),
        (welcome, [welcome.status_key, FRAMES]),
        (initiator, chaining),
        (responder, [*chaining, FRAMES]),
        (initiator._after, chaining),
        (Split(session.to_server, session.to_client, b""), [session.to_server, session.to_client]),
        (session, [session.to_server, session.to_client]),
        (Opened(0, 0.0, FRAMES), [FRAMES]),
        (Cookies(FixedEntropy("cookies"), now=0.0), [FixedEntropy("cookies")(32)]),
        (Cookies(FixedEntropy("cookies"), now=0.0)._secret, [FixedEntropy("cookies")(32)]),
    ]
    return {type(value).__name__: (value, secrets) for value, secrets in values}


HARMLESS = {
    "BodyType",
    "EndCode",
    "Fragment",  # octets as they are on the wire
    "HandshakeFailed",
    "Header",
    "Info",
    "InvalidKey",
    "Kind",
    "Notice",
    "Retry",
    "RetryCode",
    "RetryCookie",  # known to who has read a RETRY
    "SizeClass",
    "Status",
    "Wording",
    "_Numbers",
}


def test_every_class_was_thought_of() -> None:
    named = set()
    for info in pkgutil.iter_modules(crypto.__path__):
        module = importlib.import_module(f"{crypto.__name__}.{info.name}")
        named |= {
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        }
    assert named == HARMLESS | established().keys()


@pytest.mark.parametrize("name", sorted(established()))
@pytest.mark.parametrize("show", [repr, str, format, "{!r}".format, lambda value: f"{[value]}"])
def test_no_way_to_show_a_value_shows_its_secret(name: str, show: Callable[[Any], str]) -> None:
    value, secrets = established()[name]
    shown = show(value).lower()
    for secret in secrets:
        assert not any(form in shown for form in spellings(secret))


def misuses() -> list[Callable[[], object]]:
    client, server = pair()
    fresh = greet(frames=FRAMES[:10])
    return [
        lambda: greet(frames=FRAMES * 5),
        lambda: client.seals.seal_packet(Kind.DATA, 0, 9, Info(0, 0, False), FRAMES, capacity=99),
        lambda: client.seals.seal_packet(Kind.DATA, 0, 0, Info(0, 0, False), FRAMES, capacity=38),
        lambda: client.seals.seal_packet(Kind.EARLY, 0, 0, Info(0, 0, False), FRAMES, capacity=99),
        lambda: client.seals.establish(SessionKeys(to_server=b"k" * 32, to_client=b"l" * 32)),
        lambda: fresh.seals.open_answer(0, FRAMES),
        lambda: (
            server.seals.seal_answer(0, 0, 0, FRAMES),
            server.seals.seal_answer(0, 0, 0, FRAMES),
        ),
        lambda: server.answer(terms(server.sid), entropy=FixedEntropy("x")),
        lambda: Terms(
            status=Status.WELCOME, time=0, shards=7, status_key=b"status key 16 oc", frames=FRAMES
        ).encode(),
        lambda: crypto.PublicKey(b"\x01" + bytes(31)),
        lambda: crypto.ServerKey(SERVER_KEY._raw + b"x"),
        lambda: crypto.Grant(id=GRANT.id, secret=GRANT.secret + b"x"),
        lambda: Wording("key", prefix="x", label=b"", size=32).read(SERVER_KEY.to_text()),
        lambda: crypto.ServerKey.parse(SERVER_KEY.to_text()[:-1]),
        lambda: crypto.Grant.parse(GRANT.to_text() + "x"),
    ]


@pytest.mark.parametrize("misuse", misuses())
def test_no_error_shows_a_secret(misuse: Callable[[], object]) -> None:
    with pytest.raises(RacerError) as caught:
        misuse()
    told = ""
    found: BaseException | None = caught.value
    while found is not None:
        told += "".join(traceback.format_exception_only(found)).lower()
        found = found.__cause__ or found.__context__
    secrets = [
        SERVER_KEY._raw,
        GRANT.secret,
        b"status key 16 oc",
        FRAMES[:14],
        b"k" * 32,
        SERVER_KEY.public.raw,
    ]
    for secret in secrets:
        assert not any(form in told for form in spellings(secret))
    for text in (SERVER_KEY.to_text(), GRANT.to_text()):
        assert text[11:25] not in told
