"""`racer proxy`: serve a local SOCKS5 and HTTP proxy until a signal ends it."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import click

from racer import telemetry
from racer._words import one_line
from racer.abc import check_seconds
from racer.cli._aside import Aside
from racer.cli._exits import Exit, silence
from racer.cli._program import (
    SECONDS,
    WholeNumber,
    config_option,
    entrants_option,
    json_option,
    load,
    memory_option,
)
from racer.cli._ration import Ration
from racer.config import ProxySettings
from racer.config._settings import check_listen
from racer.errors import ConfigError, RacerError
from racer.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer._dialer import Dialer
    from racer.config import Configuration
    from racer.proxy import Failure

__all__ = ("command",)

GRACE: Final = 30.0
"""Seconds that connections have to end after the first signal."""

_LINES: Final = 10  # lines about failures in a row
_REFILL: Final = 1.0  # seconds after which there may be one more
_FILES_PER_CLIENT: Final = 3  # its socket, the target's, and one of a race that is not over yet
_FILES_BESIDES: Final = 64
_SIGNALS: Final = [signal.SIGINT, signal.SIGTERM]
if sys.platform != "win32":
    _SIGNALS.append(signal.SIGHUP)

_HELP: Final = """\
Serve a SOCKS5 and HTTP proxy on one port; each connection through it is a race.

For programs that cannot be changed: curl, pip, browsers. Names are not looked up here but by whatever wins; TLS stays
between the program and its site.

\b
SIGTERM, Ctrl-C   take no more clients, let streams end (--grace), then stop
the same again    stop at once
SIGHUP            read the configuration again; open streams go on, and --only
                  and --exclude hold

Exit code 0 when it stopped as asked, 130 when a second signal made it.
"""

logger = logging.getLogger("racer.proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What the command line says; what it leaves out, the configuration says."""

    config: str | None
    memory: bool
    only: tuple[str, ...]
    exclude: tuple[str, ...]
    listen: str | None
    users: Mapping[str, str]
    admin: bool
    as_json: bool
    grace: float
    max_connections: int

    def read(self) -> Configuration:
        """Return the configuration as it is now, with the entrants that are wanted of it.

        Raises:
            ConfigError: it cannot be used, or one that is named is not in it.
            NoTransports: no transport is installed.
        """
        return load(self.config, memory=self.memory, only=self.only, exclude=self.exclude)

    def settings(self, read: Configuration) -> ProxySettings:
        """Return where to listen, and for whom.

        Raises:
            ConfigError: that cannot be.
        """
        told = read.proxy
        return ProxySettings(listen=self.listen or told.listen, users=self.users or told.users)


@click.command(help=_HELP)
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    help="Where to listen; port 0 takes any that is free. By default as the configuration says, else 127.0.0.1:1080. Others "
    "than this machine only together with --user.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME:PASSWORD",
    help="Let only this user in (repeatable). '${NAME}' in the password is a variable of the environment, which keeps it out "
    "of the list of processes.",
)
@click.option(
    "--admin", is_flag=True, help="Answer GET /readyz and GET /metrics (Prometheus) on the port."
)
@click.option(
    "--grace",
    type=SECONDS,
    default=GRACE,
    show_default=True,
    metavar="S",
    help="Seconds that connections have to end after a signal.",
)
@click.option(
    "--max-connections",
    type=WholeNumber(1, 100_000),
    default=1024,
    show_default=True,
    metavar="N",
    help="Clients at once.",
)
@entrants_option
@config_option
@memory_option
@json_option
def command(
    *,
    listen: str | None,
    users: tuple[str, ...],
    admin: bool,
    grace: float,
    max_connections: int,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    config: str | None,
    memory: bool,
    as_json: bool,
) -> int:
    """Serve the proxy until a signal ends it."""
    check_seconds(grace, "--grace")
    if listen is not None:
        check_listen(listen, "--listen")
    wish = _Wish(
        config=config,
        memory=memory,
        only=only,
        exclude=exclude,
        listen=listen,
        users=_accounts(users),
        admin=admin,
        as_json=as_json,
        grace=grace,
        max_connections=max_connections,
    )
    read = wish.read()
    settings = wish.settings(read)
    _raise_file_limit(max_connections)
    with telemetry.setup_if_asked():
        return _serve(wish, read.dialer(remember=True), settings)


def _serve(wish: _Wish, dialer: Dialer, settings: ProxySettings) -> int:
    server = _Server(wish, dialer)
    proxy = Proxy(
        dialer,
        host=settings.host,
        port=settings.port,
        users=settings.users or None,
        admin=wish.admin,
        max_connections=wish.max_connections,
        on_failure=server.tell,
    )
    try:
        return anyio.run(server.run, proxy, settings)
    finally:
        server.close()


class _Server:
    """The proxy as a program: what it says, and what signals do to it."""

    def __init__(self, wish: _Wish, dialer: Dialer) -> None:
        self._wish = wish
        self._dialer = dialer
        self._ration = Ration(burst=_LINES, every=_REFILL)
        self._aside: Aside | None = None
        self._users: Mapping[str, str] = {}
        self._code = Exit.DONE

    def tell(self, failure: Failure) -> None:
        """Say why a client got nothing: one line at most, and not more lines than anybody reads."""
        if self._wish.as_json:
            line = _event(
                "failure",
                target=failure.target,
                words=failure.words,
                details=[detail.strip() for detail in failure.details],
            )
        else:
            causes = "; ".join(detail.strip() for detail in failure.details)
            line = f"racer: {one_line(f'{failure.words}: {causes}' if causes else failure.words)}"
        left_out = self._ration.ask(anyio.current_time())
        if left_out is None:
            return
        if left_out:
            line = f"{self._of_left_out(left_out)}\n{line}"
        if not self._put(line):
            self._ration.left_out += 1

    def _put(self, line: str) -> bool:
        """Write a line where a program, or a person, looks for it; the loop waits for neither. `False` if nobody reads."""
        if self._aside is None:
            out = sys.stdout if self._wish.as_json else sys.stderr
            self._aside = Aside(out.fileno())
        return self._aside.put(line)

    def close(self) -> None:
        """Write what is still to be written."""
        if self._aside is not None:
            self._aside.close()

    def _of_left_out(self, count: int) -> str:
        if self._wish.as_json:
            return _event("left_out", failures=count)
        return f"racer: {count} more clients got nothing"

    async def run(self, proxy: Proxy, settings: ProxySettings) -> int:
        """Serve until a signal ends it; return the exit code."""
        self._users = settings.users
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async with self._dialer, anyio.create_task_group() as tasks:
                async with proxy:
                    self._announce(proxy, settings)
                    async for number in signals:
                        if number not in {signal.SIGINT, signal.SIGTERM}:
                            await self._reload(proxy, settings)
                            continue
                        tasks.start_soon(self._hurry, signals, tasks.cancel_scope)
                        await self._stop(proxy)
                        break
                tasks.cancel_scope.cancel()
        return self._code

    async def _hurry(self, signals: Any, scope: anyio.CancelScope) -> None:  # noqa: ANN401 - anyio's own
        """End at once when a second signal comes."""
        async for number in signals:
            if number in {signal.SIGINT, signal.SIGTERM}:
                self._code = Exit.INTERRUPTED
                scope.cancel()
                return

    async def _stop(self, proxy: Proxy) -> None:
        wish = self._wish
        clients = proxy.status().clients
        if wish.as_json:
            self._put(_event("stopping", clients=clients, grace=wish.grace))
        elif clients:
            self._put(
                f"racer: stopping; {clients} connections may go on for {wish.grace:g} s (again: stop at once)"
            )
        cut = await proxy.drain(wish.grace)
        if wish.as_json:
            self._put(_event("stopped", cut=cut))
        elif cut:
            self._put(f"racer: cut {cut} connections")

    async def _reload(self, proxy: Proxy, settings: ProxySettings) -> None:
        """Do as the configuration says now; where it is wrong, nothing is changed."""
        wish = self._wish
        try:
            read = await anyio.to_thread.run_sync(wish.read)
            new = wish.settings(read)
            proxy.update_users(new.users or None)
            try:
                self._dialer.reconfigure(read)
            except BaseException:  # all of it, or nothing
                proxy.update_users(self._users or None)
                raise
            self._users = new.users
        except (RacerError, OSError) as exc:
            self._told_of_reload(f"not reloaded: {exc}")
            return
        if new.listen != settings.listen:
            self._told_of_reload("reloaded; only a restart changes where it listens")
        else:
            self._told_of_reload("reloaded")

    def _told_of_reload(self, words: str) -> None:
        words = one_line(words)
        self._put(_event("reload", words=words) if self._wish.as_json else f"racer: {words}")

    def _announce(self, proxy: Proxy, settings: ProxySettings) -> None:
        host, port = proxy.address
        names = [entrant.name for entrant in self._dialer.status().entrants]
        if self._wish.as_json:
            text = _event(
                "listening",
                host=host,
                port=port,
                users=len(settings.users),
                admin=self._wish.admin,
                entrants=names,
            )
        else:
            guarded = bool(settings.users)
            text = _welcome(host, port, names, guarded=guarded, admin=self._wish.admin)
        try:
            print(text, flush=True)
        except BrokenPipeError:  # whoever started it does not want to know; clients do not care
            silence(sys.stdout.fileno())


def _welcome(host: str, port: int, names: list[str], *, guarded: bool, admin: bool) -> str:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    user = "NAME:PASSWORD@" if guarded else ""
    lines = [
        f"racer proxy listens on {place}: SOCKS5 and HTTP; every connection races {', '.join(names)}",
        "",
        f"  curl      curl -x socks5h://{user}{place} https://example.com/",
        f"  programs  export http_proxy=http://{user}{place} https_proxy=http://{user}{place}",
        f"  pip       pip download --proxy http://{user}{place} NAME",
    ]
    if not guarded:  # Chromium knows no passwords for SOCKS5
        lines.append(f"  browsers  chromium --proxy-server=socks5://{place}")
    else:
        lines.append(
            f"  browsers  chromium --proxy-server=http://{place}, which asks for the password"
        )
    if admin:
        lines.append(f"  health    curl http://{place}/readyz http://{place}/metrics")
    return "\n".join([*lines, "", "Ctrl-C stops it."])


def _event(kind: str, **told: Any) -> str:  # noqa: ANN401 - JSON's own types
    return json.dumps({"event": kind, **told})


def _accounts(users: tuple[str, ...]) -> dict[str, str]:
    """Return names and passwords.

    Raises:
        ConfigError: one is none; quotes no password.
    """
    from racer.config._environment import Expander  # noqa: PLC0415 - who names no user pays nothing

    problems: list[str] = []
    expander = Expander(os.environ, lambda _path, words: problems.append(words))
    accounts: dict[str, str] = {}
    for user in users:
        name, colon, password = user.partition(":")
        if not colon:
            msg = "--user takes NAME:PASSWORD, such as alice:'${ALICE_PASSWORD}'"
            raise ConfigError(msg)
        if name in accounts:
            msg = f"--user {name}: named twice"
            raise ConfigError(msg)
        accounts[name] = expander.expand(password, ())
        if problems:
            msg = f"--user {name}: {problems[0]}"
            raise ConfigError(msg)
    return accounts


def _raise_file_limit(clients: int) -> None:
    """Have the system allow as many open files as that many clients may need; most shells begin at 1024."""
    try:
        import resource  # noqa: PLC0415 - Unix only
    except ImportError:
        return
    wanted = clients * _FILES_PER_CLIENT + _FILES_BESIDES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        logger.warning(
            "the system allows %d open files; %d clients may need %d", most, clients, wanted
        )
