"""What every proxy shares: it is reached through a base, talked to by a machine, and named in what goes wrong."""

from __future__ import annotations

import abc
import dataclasses
import ssl
import weakref
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, Protocol

import anyio

from racer.abc import (
    TLS,
    AttributeValue,
    Outcome,
    Progress,
    Stage,
    Target,
    Transport,
    TransportStatus,
    check_seconds,
)
from racer.errors import (
    AttemptTimeout,
    ConfigError,
    CredentialRejected,
    ErrorType,
    NetworkError,
    ProxyRefused,
    RemoteProtocolError,
    TransportError,
    error_type_of,
)
from transports._net.drive import Machine, close_by_force, drive
from transports._net.plain import PlainTCP
from transports._net.tls import ClientContext, wrap_tls
from transports.proxy._credential import Credential, credential_of
from transports.proxy._tunnel import tunnel

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer.abc import Attempt, Host

__all__ = ("HANDSHAKE_TIMEOUT", "Conversation", "Hop")

HANDSHAKE_TIMEOUT: Final = 20.0
"""Seconds: Linux sends a fourth SYN to a target after 7 s and a fifth after 15 s; an attempt's own limit is 30 s."""


_TLS_ANSWER: Final = "its part of the TLS handshake"
_PATH_ERRORS: Final = (
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    OSError,
)  # SSLError is an OSError


class Conversation(Machine, Protocol):
    """A machine that ends in a tunnel."""

    @property
    def awaited(self) -> str:
        """What the proxy owes, in words."""

    @property
    def leftover(self) -> bytes:
        """The target's first bytes, if they came already."""


class Hop(Transport):
    """A transport that reaches the target through one proxy, and the proxy through a base transport, which it owns.

    Subclasses say how the proxy is talked to, and what they can carry.
    """

    protocol: ClassVar[str]
    """For telemetry."""
    title: ClassVar[str]
    """For people."""
    alpn: ClassVar[tuple[str, ...]] = ()
    default_port: ClassVar[int | None] = None

    def __init__(
        self,
        proxy: str | Target,
        *,
        base: Transport | None,
        username: str | None,
        password: str | None,
        tls: bool | ssl.SSLContext,
        server_hostname: str | None,
        handshake_timeout: float,
        name: str,
    ) -> None:
        """Check everything; nothing is opened."""
        # A raw stream to the proxy is what the base is asked for: whose TLS it is, is settled here.
        self._address, self._tls = _address_of(proxy, tls, default_port=self.default_port)
        self._context = ClientContext(
            None if isinstance(self._tls, bool) else self._tls, alpn=self.alpn
        )
        self._server_hostname = (
            self._address.server_hostname
            if server_hostname is None
            else Target(server_hostname).server_hostname
        )
        check_seconds(handshake_timeout, "handshake_timeout")
        self._handshake_timeout = handshake_timeout
        self._credential = self._checked(credential_of(username, password))
        self._base = PlainTCP() if base is None else _checked_base(base)
        self._is_closed = False
        self._answers: weakref.WeakSet[BaseException] = weakref.WeakSet()
        self._label = f"{self.title} proxy {self._address}"
        self.name = _checked_name(name)
        # A slow base makes a slow proxy: its place in the race and its limits are the whole chain's.
        self.traits = dataclasses.replace(
            self._base.traits, tls=TLS.DRIVER, max_request_bytes=None, streaming=True
        )

    @abc.abstractmethod
    def _conversation(self, target: Target) -> Conversation:
        """Return a machine that asks for `target`."""

    @abc.abstractmethod
    def _check_credential(self, credential: Credential) -> None:
        """Raise `ConfigError` unless the protocol can carry it."""

    def serves(self, target: Target) -> str | None:
        """Return why this target cannot be served: it names an interface of this machine, or the base says no."""
        if "%" in target.host:
            return (
                "the target's address names an interface of this machine, which a proxy cannot use"
            )
        if (reason := self._base.serves(self._address)) is not None:
            return f"{self._base.name!r} cannot reach the {self._label}: {reason}"
        return None

    async def start(self, host: Host) -> None:
        """Read the system's trust store if it is needed, and start the base."""
        if self._tls is not False:
            await self._context.get()
        await self._base.start(host)

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a raw stream to `target`; the caller closes it, and with it the stream to the proxy.

        Told of the attempt are the base's stages and its peer, then `handshake`. Cancellation and failure close what
        was opened.

        Raises:
            CredentialRejected: the proxy wants another credential.
            ProxyRefused: it will not, or cannot, reach the target; `code` is its own word for it.
            AttemptTimeout: it did not answer within `handshake_timeout`.
            NetworkError: the proxy could not be reached, the path broke, its TLS or its protocol is wrong.
            TransportError: the base's own, or this one was closed.
        """
        if self._is_closed:
            msg = f"the transport to the {self._label} was closed"
            raise TransportError(msg)
        conversation = self._conversation(target)
        stream = await self._reach(progress)
        try:
            progress.stage(Stage.HANDSHAKE)
            progress.event(
                "racer.proxy.handshake",
                {
                    "racer.proxy.protocol": self.protocol,
                    "racer.proxy.address": self._address.host,
                    "racer.proxy.port": self._address.port,
                },
            )
            secured: ByteStream | None = None
            with anyio.move_on_after(self._handshake_timeout) as limit:
                secured = await self._secured(stream)
                await self._talk(secured, conversation)
            if secured is None or limit.cancelled_caught:
                self._give_up(conversation.awaited if secured else _TLS_ANSWER)
            return tunnel(secured, conversation.leftover)
        except BaseException:
            await close_by_force(stream)
            raise

    def observe(self, attempt: Attempt) -> None:
        """Let the base learn how its stream did.

        When the proxy itself has refused, the base brought the question there and the answer back: to the base such an
        attempt counts as connected. What fails behind the proxy's yes is told as it is, since nobody knows which leg
        broke.
        """
        told = dataclasses.replace(attempt, transport=self._base.name)
        if attempt.error in self._answers:
            told = dataclasses.replace(told, outcome=Outcome.CONNECTED, error=None, error_type=None)
        self._base.observe(told)

    def status(self) -> TransportStatus:
        """Return the base's status, with the proxy among the details."""
        base = self._base.status()
        details: dict[str, AttributeValue] = {
            "protocol": self.protocol,
            "proxy": str(self._address),
            "base": self._base.name,
        }
        details |= {f"base.{key}": value for key, value in base.details.items()}
        return dataclasses.replace(base, details=details)

    def update_credential(self, credential: object) -> None:
        """Use a pair of user name and password from now on, or none with `None`; the base keeps its own.

        Raises:
            ConfigError: no such pair, or one that the protocol cannot carry; quotes neither half.
        """
        if credential is None:
            self._credential = None
            return
        if not isinstance(credential, tuple | list) or len(credential) != 2:
            msg = f"a proxy's credential is a pair of user name and password, not {type(credential).__name__}"
            raise ConfigError(msg)
        self._credential = self._checked(credential_of(*credential))

    async def aclose(self) -> None:
        """Close the base, and connect no more; tunnels that were handed out are their holders'."""
        self._is_closed = True
        await self._base.aclose()

    def __repr__(self) -> str:
        """Say which proxy, through what; no credential."""
        return f"<{type(self).__name__} {self.name!r}: {self._address} through {self._base!r}>"

    async def _reach(self, progress: Progress) -> ByteStream:
        try:
            return await self._base.connect(self._address, progress)
        except NetworkError as exc:
            if isinstance(self._base, Hop):
                raise  # names the hop further down
            msg = f"{self._label} could not be reached: {exc}"
            raise NetworkError(msg, stage=exc.stage, error_type=error_type_of(exc)) from exc
        except TransportError:
            raise  # says who it is about; a timeout is an OSError too
        except OSError as exc:
            msg = f"{self._label} could not be reached: {exc.strerror or exc}"
            raise NetworkError(msg, error_type=error_type_of(exc)) from exc

    async def _secured(self, stream: ByteStream) -> ByteStream:
        """Return `stream`, under TLS if that is wanted; closing it is the caller's."""
        if self._tls is False:
            return stream
        context = await self._context.get()
        try:
            return await wrap_tls(stream, context, server_hostname=self._server_hostname)
        except _PATH_ERRORS as exc:
            raise self._broken(exc, _TLS_ANSWER) from exc

    async def _talk(self, stream: ByteStream, conversation: Conversation) -> None:
        """Return when the proxy has said yes; closing is the caller's."""
        try:
            await drive(conversation, stream)
        except (CredentialRejected, ProxyRefused) as exc:
            self._answers.add(exc)
            raise
        except RemoteProtocolError as exc:
            raise self._failure(str(exc), ErrorType.PROTOCOL_ERROR) from exc
        except _PATH_ERRORS as exc:
            raise self._broken(exc, conversation.awaited) from exc

    def _broken(self, exc: Exception, owed: str) -> NetworkError:
        """Return the error for a path that broke, or TLS that failed, before the proxy said what it owes."""
        if isinstance(exc, ssl.SSLCertVerificationError):
            message = (
                f"the certificate of the {self._label} could not be verified: {exc.verify_message}"
            )
        elif isinstance(exc, ssl.SSLError):
            message = f"TLS to the {self._label} failed: {exc.reason or exc}"
        elif isinstance(exc, anyio.EndOfStream):
            message = f"{self._label} closed the connection before {owed}"
        else:
            message = f"the connection to the {self._label} broke before {owed}"
        return self._failure(message, error_type_of(exc))

    def _give_up(self, owed: str) -> NoReturn:
        msg = f"{self._label} was silent: {self._handshake_timeout:g} s passed without {owed}"
        raise AttemptTimeout(msg, stage=Stage.HANDSHAKE)

    def _failure(self, message: str, kind: ErrorType) -> NetworkError:
        return NetworkError(message, stage=Stage.HANDSHAKE, error_type=kind)

    def _checked(self, credential: Credential | None) -> Credential | None:
        if credential is not None:
            self._check_credential(credential)
        return credential


def _address_of(
    proxy: object, tls: object, *, default_port: int | None
) -> tuple[Target, bool | ssl.SSLContext]:
    """Return the proxy's address as a target without TLS, and the wish for TLS, both checked."""
    if isinstance(proxy, Target):
        host, port = proxy.host, proxy.port
        if proxy.tls is not False and tls is False:
            # Port 443 makes a target wish for TLS by itself; going on without would send a password in the clear.
            msg = f"proxy {proxy}: the target asks for TLS, and tls=False; say tls=True, or Target(..., tls=False)"
            raise ConfigError(msg)
    elif isinstance(proxy, str):
        has_port = proxy.rpartition("]")[2].count(":") == 1
        if not has_port and default_port is None:
            Target.parse(proxy, 1, tls=False)  # another fault comes first
            msg = "proxy: the port is missing; it is given as 'host:port'"
            raise ConfigError(msg)
        parsed = Target.parse(proxy, None if has_port else default_port, tls=False)
        host, port = parsed.host, parsed.port
    else:
        msg = f"proxy must be 'host:port' or a racer.abc.Target, not {type(proxy).__name__}"
        raise ConfigError(msg)
    if not isinstance(tls, bool | ssl.SSLContext):
        msg = f"tls must be True, False or an ssl.SSLContext, not {type(tls).__name__}"
        raise ConfigError(msg)
    wish = Target(host, port, tls=tls).tls
    return Target(host, port, tls=False), wish


def _checked_base(base: object) -> Transport:
    if not isinstance(base, Transport):
        what = base.__name__ if isinstance(base, type) else type(base).__name__
        msg = f"base must be an instance of racer.abc.Transport, which gives byte streams; this is {what}"
        raise ConfigError(msg)
    return base


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        msg = "name must be a text of at least one character"
        raise ConfigError(msg)
    return name
