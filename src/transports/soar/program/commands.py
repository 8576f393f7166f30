"""What an operator can say: a server's key, its grants, and the server itself. Each command raises what went wrong."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import click

from racer.errors import ConfigError
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.program.announcement import client_configuration, zone_records
from transports.soar.program.files import create
from transports.soar.program.grants_file import add_grant, read_grants, revoke_grant
from transports.soar.program.serving import ask_status, run, show_status
from transports.soar.program.settings import Settings

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from transports.soar._server import SoarServer

__all__ = ("COMMANDS", "grant", "grants", "keygen", "revoke", "serve", "status")

_DAY: Final = 86_400
_MOST_DAYS: Final = 36_500

_FILE: Final = click.Path(path_type=Path)


def _several(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Tell an option that was not given from an empty one: what a file says stands."""
    del ctx, param
    return given or None


@click.command(short_help="Make a key; prints the public one.")
@click.argument("file", type=_FILE, metavar="FILE")
def keygen(file: Path) -> None:
    """Make a key, and print the public one.

    FILE is for the secret key; it must not exist.
    """
    key = ServerKey.generate(os.urandom)
    try:
        create(file, f"{key.to_text()}\n".encode())
    except FileExistsError:
        msg = f"{file} exists; a key is never overwritten"
        raise ConfigError(msg) from None
    sys.stdout.write(f"{key.public.to_text()}\n")


@click.command(short_help="Serve until interrupted.")
@click.option(
    "--config", type=_FILE, metavar="FILE", help="A TOML file; options here go before it."
)
@click.option(
    "--domain",
    multiple=True,
    callback=_several,
    metavar="ZONE",
    help="Such as t.example.com; may be repeated.",
)
@click.option("--key", type=_FILE, metavar="FILE", help="The secret key's file.")
@click.option("--host", metavar="IP", help="The IP address to listen on; 0.0.0.0 if not said.")
@click.option("--port", type=int, metavar="N", help="For UDP and TCP; 53 if not said.")
@click.option(
    "--allow",
    multiple=True,
    callback=_several,
    metavar="TARGET",
    help="Only these targets; may be repeated.",
)
@click.option(
    "--grants",
    type=_FILE,
    metavar="FILE",
    help="The file of grants, which clients then have to show.",
)
@click.option(
    "--idle-timeout",
    type=float,
    metavar="S",
    help="Seconds of silence that end a session; 120 if not said.",
)
@click.option("--status", type=_FILE, metavar="SOCKET", help="Where `status` may ask.")
@click.option("--log", type=click.Choice(("debug", "info", "warning", "error")), default="info")
def serve(*, config: Path | None, log: str, **options: Any) -> None:  # noqa: ANN401 - of many types
    """Serve until interrupted."""
    logging.basicConfig(level=log.upper(), format="%(asctime)s %(levelname)s %(message)s")
    _open_many_files()
    anyio.run(run, functools.partial(_settings, config, options), _announce)


def _settings(config: Path | None, options: dict[str, Any]) -> Settings:
    return (Settings() if config is None else Settings.read(config)).over(**options)


def _open_many_files() -> None:
    """Take as many files as this process may have: each stream is one."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _announce(settings: Settings, server: SoarServer) -> None:
    host, port = server.address
    configuration = client_configuration(
        settings.domain, server.public_key, needs_grant=settings.demands_grant
    )
    sys.stdout.write(
        f"listening on {host}, port {port}\n\n"
        f"Records for the zones' parents:\n\n{zone_records(settings.domain, settings.servers)}\n"
        f"For clients, in racer.toml:\n\n{configuration}\n"
    )
    sys.stdout.flush()


@click.command(short_help="Show how a server is.")
@click.argument("socket", type=_FILE, metavar="SOCKET")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(*, socket: Path, as_json: bool) -> None:
    """Show how a server is.

    SOCKET is what the server was given as --status.
    """
    table = anyio.run(ask_status, socket)
    sys.stdout.write(json.dumps(table) + "\n" if as_json else show_status(table))


@click.command(short_help="Make a grant; prints the credential.")
@click.argument("file", type=_FILE, metavar="FILE")
@click.option("--name", default="", metavar="TEXT", help="Whose it is.")
@click.option(
    "--days", type=float, metavar="N", help="For how long it is good; for ever if not said."
)
@click.option("--allow", multiple=True, metavar="HOST:PORT", help="Only these targets.")
def grant(*, file: Path, name: str, days: float | None, allow: tuple[str, ...]) -> None:
    """Make a grant, and print the credential.

    FILE is the file of grants; it is made if there is none.
    """
    if days is not None and not 0 < days <= _MOST_DAYS:
        msg = f"--days is {days}; it must be above 0, and at most {_MOST_DAYS}"
        raise ConfigError(msg)
    expires = None if days is None else time.time() + days * _DAY  # noqa: TID251 - a date
    entry = add_grant(file, name=name, expires=expires, allow=list(allow))
    sys.stdout.write(f"{entry.grant.to_text()}\n")
    sys.stderr.write(f"grant {entry.id} is in {file}; a running server takes it on SIGHUP\n")


@click.command(short_help="Take a grant back; the server has to reload (SIGHUP).")
@click.argument("file", type=_FILE, metavar="FILE")
@click.argument("id_", metavar="ID")
def revoke(*, file: Path, id_: str) -> None:
    """Take a grant back; the server has to reload (SIGHUP).

    FILE is the file of grants, ID the grant's, or its beginning.
    """
    entry = revoke_grant(file, id_)
    sys.stderr.write(f"grant {entry.id} is revoked; a running server learns of it on SIGHUP\n")


@click.command(short_help="List the grants, without their secrets.")
@click.argument("file", type=_FILE, metavar="FILE")
def grants(file: Path) -> None:
    """List the grants, without their secrets.

    FILE is the file of grants.
    """
    for entry in read_grants(file):
        word = "revoked" if entry.is_revoked else "good"
        if entry.expires is not None and not entry.is_revoked:
            left = (entry.expires - time.time()) / _DAY  # noqa: TID251 - a date
            word = f"{left:.1f} days left" if left > 0 else "expired"
        sys.stdout.write(
            f"{entry.id}  {word:16} {entry.name}  {' '.join(entry.allow)}".rstrip() + "\n"
        )


COMMANDS: Final = {str(each.name): each for each in (keygen, serve, status, grant, revoke, grants)}
"""By name, in the order an operator needs them."""
