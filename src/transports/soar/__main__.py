"""`python -m transports.soar`: a server's key, its grants, and the server itself."""

from __future__ import annotations

import argparse
import functools
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

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
    from collections.abc import Sequence

    from transports.soar._server import SoarServer

__all__ = ("main",)

_DAY = 86_400
_MOST_DAYS = 36_500


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` say, and return its exit status: 0, 1 if it failed, 2 if it could not begin."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except OSError as exc:
        # The number of an error, and the quotes that Python puts around a name, help nobody.
        where = "" if exc.filename is None else f"{exc.filename}: "
        sys.stderr.write(
            f"{options.command}: {where}{exc.strerror or str(exc) or 'no answer in time'}\n"
        )
    except (ConfigError, ValueError) as exc:
        sys.stderr.write(f"{options.command}: {exc}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m transports.soar", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    keygen = commands.add_parser("keygen", help="make a key; prints the public one")
    keygen.add_argument("file", type=Path, help="for the secret key; must not exist")
    keygen.set_defaults(run=_keygen)

    serve = commands.add_parser("serve", help="serve until interrupted")
    serve.add_argument("--config", type=Path, help="a TOML file; options here go before it")
    serve.add_argument(
        "--domain", action="append", metavar="ZONE", help="such as t.example.com; may be repeated"
    )
    serve.add_argument("--key", type=Path, help="the secret key's file")
    serve.add_argument("--host", help="the IP address to listen on; 0.0.0.0 if not said")
    serve.add_argument("--port", type=int, help="for UDP and TCP; 53 if not said")
    serve.add_argument(
        "--allow", action="append", metavar="TARGET", help="only these targets; may be repeated"
    )
    serve.add_argument(
        "--grants", type=Path, help="the file of grants, which clients then have to show"
    )
    serve.add_argument(
        "--idle-timeout", type=float, help="seconds of silence that end a session; 120 if not said"
    )
    serve.add_argument("--status", type=Path, metavar="SOCKET", help="where `status` may ask")
    serve.add_argument("--log", default="info", choices=("debug", "info", "warning", "error"))
    serve.set_defaults(run=_serve)

    status = commands.add_parser("status", help="show how a server is")
    status.add_argument("socket", type=Path, help="what the server was given as --status")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_status)

    grant = commands.add_parser("grant", help="make a grant; prints the credential")
    grant.add_argument("file", type=Path, help="the file of grants; made if there is none")
    grant.add_argument("--name", default="", help="whose it is")
    grant.add_argument("--days", type=float, help="for how long it is good; for ever if not said")
    grant.add_argument(
        "--allow", action="append", default=[], metavar="HOST:PORT", help="only these targets"
    )
    grant.set_defaults(run=_grant)

    revoke = commands.add_parser(
        "revoke", help="take a grant back; the server has to reload (SIGHUP)"
    )
    revoke.add_argument("file", type=Path, help="the file of grants")
    revoke.add_argument("id", help="of the grant, or its beginning")
    revoke.set_defaults(run=_revoke)

    grants = commands.add_parser("grants", help="list the grants, without their secrets")
    grants.add_argument("file", type=Path, help="the file of grants")
    grants.set_defaults(run=_grants)
    return parser


def _keygen(options: argparse.Namespace) -> int:
    key = ServerKey.generate(os.urandom)
    try:
        create(options.file, f"{key.to_text()}\n".encode())
    except FileExistsError:
        msg = f"{options.file} exists; a key is never overwritten"
        raise ConfigError(msg) from None
    sys.stdout.write(f"{key.public.to_text()}\n")
    return 0


def _serve(options: argparse.Namespace) -> int:
    logging.basicConfig(level=options.log.upper(), format="%(asctime)s %(levelname)s %(message)s")
    _open_many_files()
    anyio.run(run, functools.partial(_settings, options), _announce)
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    settings = Settings() if options.config is None else Settings.read(options.config)
    return settings.over(
        domain=None if options.domain is None else tuple(options.domain),
        key=options.key,
        host=options.host,
        port=options.port,
        allow=None if options.allow is None else tuple(options.allow),
        grants=options.grants,
        idle_timeout=options.idle_timeout,
        status=options.status,
    )


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


def _status(options: argparse.Namespace) -> int:
    table = anyio.run(ask_status, options.socket)
    sys.stdout.write(json.dumps(table) + "\n" if options.json else show_status(table))
    return 0


def _grant(options: argparse.Namespace) -> int:
    if options.days is not None and not 0 < options.days <= _MOST_DAYS:
        msg = f"--days is {options.days}; it must be above 0, and at most {_MOST_DAYS}"
        raise ConfigError(msg)
    expires = None if options.days is None else time.time() + options.days * _DAY  # noqa: TID251 - a date
    entry = add_grant(options.file, name=options.name, expires=expires, allow=options.allow)
    sys.stdout.write(f"{entry.grant.to_text()}\n")
    sys.stderr.write(
        f"grant {entry.id} is in {options.file}; a running server takes it on SIGHUP\n"
    )
    return 0


def _revoke(options: argparse.Namespace) -> int:
    entry = revoke_grant(options.file, options.id)
    sys.stderr.write(f"grant {entry.id} is revoked; a running server learns of it on SIGHUP\n")
    return 0


def _grants(options: argparse.Namespace) -> int:
    for entry in read_grants(options.file):
        word = "revoked" if entry.is_revoked else "good"
        if entry.expires is not None and not entry.is_revoked:
            left = (entry.expires - time.time()) / _DAY  # noqa: TID251 - a date
            word = f"{left:.1f} days left" if left > 0 else "expired"
        sys.stdout.write(
            f"{entry.id}  {word:16} {entry.name}  {' '.join(entry.allow)}".rstrip() + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
