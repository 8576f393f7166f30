"""The guest: a tunnel through whatever recursive resolver the network has, the last resort of a race."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from anyio.abc import SocketAttribute
from anyio.to_thread import run_sync

from racer.abc import Traits, Transport, check_seconds
from racer.errors import ConfigError, LocalProtocolError, NetworkError, TransportError
from transports.soar._clocks import SystemClocks
from transports.soar._engine import Engine
from transports.soar._system_resolvers import system_resolvers
from transports.soar._ways import checked_resolvers, make_ways
from transports.soar.core.client.settings import ClientSettings
from transports.soar.core.crypto.grants import Grant
from transports.soar.core.crypto.keys import PublicKey
from transports.soar.core.dns.zone import Zone
from transports.soar.core.streams.targets import Target as CoreTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anyio.abc import ByteStream

    from racer.abc import (
        Attempt,
        DialTCP,
        DialUDP,
        Finding,
        Host,
        MakeContext,
        Progress,
        Target,
        TransportStatus,
    )
    from transports._net.resolver_urls import ResolverURL
    from transports.soar._clocks import Clocks
    from transports.soar._last_attempt import LastAttempt

__all__ = ("Soar", "make")

_T = TypeVar("_T")

_OPTIONS: Final = (
    "credential",
    "domain",
    "max_stale",
    "resolvers",
    "server_key",
    "session_idle",
    "warm",
)
_MAX_ZONES: Final = 8
START_DELAY: Final = 8.0
ATTEMPT_TIMEOUT: Final = 60.0


class Soar(Transport):
    """Byte streams inside DNS questions and answers, to a Soar server that connects to the target.

    Works where nothing but DNS does, and costs many times what a direct connection does. The resolver and whoever watches
    see the zone and how much is asked, not what for; the server sees targets, and what is not encrypted end to end
    (docs/soar-spec.md 20, 21). A target's name is looked up by the server.

    Sessions are kept between dials: many streams share one, the server forgets what was silent for two minutes, and this
    side retires a session before that. A session that the server has lost is replaced within the dial where that is safe.

    With TLS to the target, `connect` returns before the server is connected to it, so that what TLS says first loses no
    round trip; where that comes to nothing, `receive` and `send` raise what `connect` would have. Without, it waits.

    Args:
        domain: the server's zone, such as `t.example.com`, or up to 8 of them.
        server_key: what the server's operator gives out, `soar1…`.
        resolvers: to ask, best first: `udp://host[:53]`, `tcp://host[:53]`, `tls://host[:853]`,
            `https://host/dns-query`, or `system` for this machine's own, up to 3. Each is asked for every zone, on up to
            16 paths.
        credential: the grant that the server demands, `soargrant1…`; in no `repr`.
        session_idle: seconds without an answer after which a session is not used again; must be below what the server
            keeps, and is lowered to it once known.
        warm: whether one session is kept ready from the first dial on.
        max_stale: seconds for which a warm session counts that could not be confirmed anew.
        resolver_tls: the context for `tls://` and `https://` resolvers, which for the latter has to offer `h2` by ALPN;
            `None` for the system's trust.
        dial_tcp: makes connections to resolvers in place of our own sockets.
        dial_udp: makes sockets for datagrams in place of our own.
        name: of the transport.
        clocks: tell the time; for tests.

    Raises:
        ConfigError: an option that cannot be; says which, and why.
    """

    traits = Traits(start_delay=START_DELAY, attempt_timeout=ATTEMPT_TIMEOUT)

    def __init__(
        self,
        *,
        domain: str | Sequence[str],
        server_key: str | PublicKey,
        resolvers: Sequence[str] = ("system",),
        credential: str | Grant | None = None,
        session_idle: float = 90.0,
        warm: bool = False,
        max_stale: float = 300.0,
        resolver_tls: ssl.SSLContext | None = None,
        dial_tcp: DialTCP | None = None,
        dial_udp: DialUDP | None = None,
        name: str = "soar",
        clocks: Clocks | None = None,
    ) -> None:
        """Check the options; no IO."""
        self.name = _checked(name, str, "name", "a text")
        check_seconds(session_idle, "session_idle")
        check_seconds(max_stale, "max_stale")
        zones = _zones(domain)
        self._resolvers = checked_resolvers(resolvers, zones=len(zones))
        self._settings = ClientSettings(
            public_key=server_key if isinstance(server_key, PublicKey) else _key(server_key),
            zones=zones,
            grant=_grant(credential),
            session_idle=float(session_idle),
            keep_warm=_checked(warm, bool, "warm", "True or False"),
            max_stale=float(max_stale),
        )
        for hook, option in ((dial_tcp, "dial_tcp"), (dial_udp, "dial_udp")):
            if hook is not None and not callable(hook):
                msg = f"{option} must be a coroutine function, not {type(hook).__name__}"
                raise ConfigError(msg)
        if resolver_tls is not None:
            _checked(resolver_tls, ssl.SSLContext, "resolver_tls", "an ssl.SSLContext")
        self._tls = resolver_tls
        self._dial_tcp = dial_tcp
        self._dial_udp = dial_udp
        self._clocks = clocks or SystemClocks()
        self._engine: Engine | None = None
        self._is_closed = False
        self._last: LastAttempt | None = None

    def serves(self, target: Target) -> str | None:
        """Return why no tunnel leads to `target`: only a scoped address is of no use elsewhere."""
        try:
            CoreTarget.of(target.host, target.port)
        except LocalProtocolError as exc:
            return str(exc)
        return None

    async def start(self, host: Host) -> None:
        """Find the resolvers, and start what carries questions; nothing is sent before the first dial.

        Raises:
            NetworkError: this machine's resolvers were wanted, and there are none.
            TransportError: it was closed.
        """
        resolvers: list[ResolverURL] = []
        for each in self._resolvers:
            resolvers.extend([each] if each is not None else await run_sync(system_resolvers))
        if self._is_closed:
            raise TransportError(self._closed_words())
        ways = make_ways(
            list(dict.fromkeys(resolvers)),
            zones=[zone.text for zone in self._settings.zones],
            tls=self._tls,
            dial_tcp=self._dial_tcp,
            dial_udp=self._dial_udp,
        )
        if (
            self._engine is not None
        ):  # of a host that ended without a goodbye, or of the process this one comes from
            self._engine.close()
        self._engine = Engine(self.name, self._settings, ways, host=host, clocks=self._clocks)

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a stream to `target`; the caller closes it. Cancelling gives the dial up and keeps the session.

        Raises:
            TargetRefused: the server may not or could not reach the target.
            SessionLost, SessionEnded, TunnelSilent: the session came to an end, and another was not in order.
            CredentialRejected: the server demands another grant.
            TransportBusy: there are as many streams as there can be.
            TransportError: it was closed, or not started.
        """
        if self._engine is None:
            raise TransportError(self._closed_words())
        return await self._engine.open(
            CoreTarget.of(target.host, target.port),
            progress,
            wait=target.tls is False,
            attributes=_attributes(target),
        )

    def update_credential(self, credential: object) -> None:
        """Show another grant from now on, or none; older sessions take no new stream.

        Raises:
            ConfigError: it is no grant.
        """
        grant = _grant(credential)
        self._settings = replace(self._settings, grant=grant)
        if self._engine is not None:
            self._engine.update_credential(grant)

    def status(self) -> TransportStatus:
        """Return sessions and paths as they are now."""
        if self._engine is None:
            from transports.soar._status import CLOSED, NOT_STARTED  # noqa: PLC0415 - no dial waits for it

            return CLOSED if self._is_closed else NOT_STARTED
        return self._engine.status()

    def observe(self, attempt: Attempt) -> None:
        """Remember how the last attempt ended, for `diagnose`."""
        from transports.soar._last_attempt import LastAttempt  # noqa: PLC0415 - not before the first stream

        self._last = LastAttempt.of(attempt)

    async def diagnose(self) -> Sequence[Finding]:
        """Return whether the zones are delegated, the server has our key and takes our grant, and what sessions there are."""
        from transports.soar._diagnose import ask_zones, findings  # noqa: PLC0415 - only who diagnoses

        resolvers: list[ResolverURL] = []
        for each in self._resolvers:
            try:
                resolvers.extend([each] if each is not None else await run_sync(system_resolvers))
            except NetworkError:
                continue  # this machine has none: the doctor has said so by then
        answers = await ask_zones(
            list(dict.fromkeys(resolvers)),
            [zone.text for zone in self._settings.zones],
            tls=self._tls,
            dial_tcp=self._dial_tcp,
            dial_udp=self._dial_udp,
        )
        engine = self._engine
        sessions = () if engine is None else engine.core.status(self._clocks.now()).sessions
        return findings(self.name, answers, self._last, sessions)

    async def aclose(self) -> None:
        """End all sessions, and tell the server; what was written to streams has half a second to arrive."""
        self._is_closed = True
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.aclose()

    def _closed_words(self) -> str:
        return f"transport {self.name!r} was {'closed' if self._is_closed else 'not started'}"

    def __repr__(self) -> str:
        """Return what is no secret."""
        zones = [zone.text for zone in self._settings.zones]
        return f"Soar(domain={zones!r}, name={self.name!r})"


def make(context: MakeContext) -> Soar:
    """Return a `Soar` from a configuration's options: those of the class but hooks, contexts and clocks, which are code.

    Raises:
        ConfigError: an option is unknown, missing or wrong.
    """
    context.refuse_unknown(*_OPTIONS)
    for needed in ("domain", "server_key"):
        if needed not in context.options:
            msg = f"{needed}: missing"
            raise ConfigError(msg)
    return Soar(name=context.name, **context.options)


def _attributes(target: Target) -> Mapping[Any, Callable[[], Any]]:
    return {
        SocketAttribute.remote_address: lambda: (target.host, target.port),
        SocketAttribute.remote_port: lambda: target.port,
    }


def _checked(value: _T, kind: type[object], option: str, what: str) -> _T:
    if not isinstance(value, kind):
        msg = f"{option} must be {what}, not {type(value).__name__}"
        raise ConfigError(msg)
    return value


def _key(text: object) -> PublicKey:
    return PublicKey.parse(str(_checked(text, str, "server_key", "a text that begins with soar1")))


def _grant(credential: object) -> Grant | None:
    if credential is None or isinstance(credential, Grant):
        return credential
    return Grant.parse(
        str(_checked(credential, str, "credential", "a text that begins with soargrant1"))
    )


def _zones(domain: object) -> tuple[Zone, ...]:
    texts = [domain] if isinstance(domain, str) else domain
    if (
        not isinstance(texts, list | tuple)
        or not 1 <= len(texts) <= _MAX_ZONES
        or not all(isinstance(each, str) for each in texts)
    ):
        msg = f"domain must be the name of a zone, or a list of 1 to {_MAX_ZONES} of them"
        raise ConfigError(msg)
    zones = tuple(Zone.parse(text) for text in texts)
    if len(set(zones)) < len(zones):
        msg = "domain names a zone twice"
        raise ConfigError(msg)
    return zones
