"""`python -m transports.amp`: a broker's key, and the broker itself."""

from __future__ import annotations

import argparse
import signal
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from racer.abc import Target
from racer.errors import ConfigError
from transports._net.files import write_atomically
from transports.amp._broker import AmpBroker
from transports.amp._keys import generate_key, public_key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` say, and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "keygen":
            return _keygen(options)
        return _broker(options)
    except (ConfigError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m transports.amp", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    keygen = commands.add_parser("keygen", help="make a key; prints the public one")
    keygen.add_argument("file", type=Path, help="for the private key; must not exist")
    keygen.add_argument("--bits", type=int, default=2048)
    broker = commands.add_parser("broker", help="serve pages until interrupted")
    broker.add_argument("--key", type=Path, required=True, help="the private key's file")
    broker.add_argument(
        "--allow", action="append", required=True, metavar="ORIGIN", help="https://api.example.com"
    )
    broker.add_argument("--listen", default="127.0.0.1:8080", metavar="ADDRESS:PORT")
    broker.add_argument("--path", default="/", help="in front of the pages' own path")
    broker.add_argument("--certificate", type=Path, help="serve TLS with this chain")
    broker.add_argument("--certificate-key", type=Path)
    broker.add_argument("--timeout", type=float, default=45.0, help="seconds for an origin")
    return parser


def _keygen(options: argparse.Namespace) -> int:
    if options.file.exists():
        sys.stderr.write(f"{options.file} exists; a key is never overwritten\n")
        return 2
    key = generate_key(options.bits)
    write_atomically(options.file, key.encode("ascii"))
    sys.stdout.write(public_key_of(key))
    return 0


def _broker(options: argparse.Namespace) -> int:
    listen = Target.parse(options.listen, tls=False)
    context = None
    if options.certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate, options.certificate_key)
    broker = AmpBroker(
        key=options.key.read_bytes(),
        allow=options.allow,
        host=listen.host,
        port=listen.port,
        path=options.path,
        tls=context,
        timeout=options.timeout,
    )
    anyio.run(_serve, broker)
    return 0


async def _serve(broker: AmpBroker) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with broker:
            host, port = broker.address
            sys.stdout.write(f"serving on {host}:{port}\n")
            sys.stdout.flush()
            async for _ in signals:
                return


if __name__ == "__main__":
    sys.exit(main())
