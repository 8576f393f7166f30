"""Programs of other people's that use a proxy, and sites for them whose names nobody but the proxy can look up."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import ssl
import subprocess
import zipfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio.lowlevel
import anyio.to_thread
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from racer import Dialer, Entrant, lab
from racer.proxy import Failure, Proxy
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import ByteStream

    from racer.lab import Handler, Rule, Zone

__all__ = ("World", "binary", "site", "wheel", "world")

NAMES: Final = ("news.example", "index.example")
_RESOLVER: Final = "192.0.2.53"
_WITHIN: Final = 50.0  # seconds after which a program is taken for stuck


def binary(name: str, package: str) -> str:
    found = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return found


@dataclass(frozen=True, kw_only=True)
class World:
    """A network with a proxy at its edge.

    Attributes:
        proxy: the way there.
        zone: what answers for names; it remembers who asked for what.
        authority: PEM of the authority behind the sites' certificates.
        key_hash: of the public key in them, as Chromium takes it.
        failures: what the proxy's `on_failure` was told.
    """

    proxy: Proxy
    zone: Zone
    authority: bytes
    key_hash: str
    failures: list[Failure] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.proxy.address[0]}:{self.proxy.address[1]}"

    async def settle(self) -> None:
        """Wait until the proxy has done with every client."""
        while self.proxy.status().clients:
            await anyio.lowlevel.checkpoint()

    async def run(self, *command: str, home: Path) -> subprocess.CompletedProcess[str]:
        """Run a program that knows no proxy and no authority but those that it is told."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith(("_proxy", "_ca_bundle"))
            and not name.startswith(("PIP_", "SSL_CERT_"))
        }
        run = partial(
            subprocess.run,
            command,
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            stdin=subprocess.DEVNULL,
            env={**environment, "HOME": str(home), "LC_ALL": "C.UTF-8"},
            cwd=home,
        )
        done = await anyio.to_thread.run_sync(run)
        await self.settle()
        return done


@asynccontextmanager
async def world(
    pages: Mapping[str, bytes], *, censor: Sequence[Rule] = (), **options: Any
) -> AsyncIterator[World]:
    """Yield a world of sites with these pages, by path, over TLS on 443 and without on 80.

    The proxy races `direct` and, a little later, `tunnel`, which goes round the censor.
    """
    authority = trustme.CA()
    leaf = authority.issue_cert(*NAMES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    async with lab.Network() as net:
        for number, name in enumerate(NAMES, start=1):
            add = partial(net.add_site, name, f"192.0.2.{number}", handler=site(pages))
            await add(port=443, context=context)
            await add(port=80)
        zone = await net.add_name_server("resolver.example", _RESOLVER)
        net.rules.extend(censor)
        resolver: Any = {"resolver": f"udp://{_RESOLVER}", "dial_udp": net.dial_udp}
        direct = Entrant(Direct(dial_tcp=net.dial_tcp, **resolver))
        around: Any = net.connector(censored=False)
        tunnel = Entrant(Direct(dial_tcp=around, **resolver), name="tunnel", start_delay=2.0)
        failures: list[Failure] = []
        options.setdefault("on_failure", failures.append)
        async with Dialer([direct, tunnel]) as dialer, Proxy(dialer, port=0, **options) as proxy:
            yield World(
                proxy=proxy,
                zone=zone,
                authority=authority.cert_pem.bytes(),
                key_hash=_key_hash(leaf.private_key_pem.bytes()),
                failures=failures,
            )


def site(pages: Mapping[str, bytes]) -> Handler:
    """Return a handler that answers HTTP/1.1, one request after the other."""

    async def serve(stream: ByteStream) -> None:
        seen = b""
        while True:
            while b"\r\n\r\n" not in seen:
                seen += await stream.receive()
            head, _, seen = seen.partition(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            body = pages.get(path)
            status = b"200 OK" if body is not None else b"404 Not Found"
            kind = b"application/zip" if path.endswith(".whl") else b"text/html"
            body = body or b""
            await stream.send(
                b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
                % (status, kind, len(body), body)
            )

    return serve


def _key_hash(private_key: bytes) -> str:
    public = load_pem_private_key(private_key, None).public_key()
    raw = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(raw).digest()).decode()


def wheel(name: str) -> bytes:
    """Return a wheel with nothing in it."""
    folder = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{folder}/RECORD"] = "".join(f"{path},,\n" for path in files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return packed.getvalue()
