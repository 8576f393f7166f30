"""The server as a program: signals, reload, and answers to `status`."""

from __future__ import annotations

import dataclasses
import json
import logging
import signal
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import SocketListener
from anyio.to_thread import run_sync

from racer.errors import ConfigError
from transports.soar.core.server.status import ServerStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from anyio.abc import SocketStream

    from transports.soar._server import SoarServer
    from transports.soar.program.settings import Settings

__all__ = ("ask_status", "run", "show_status", "status_table")

_STATUS_TIMEOUT: Final = 5.0
_MAX_STATUS: Final = 64 << 20
_PROBE_TIMEOUT: Final = 1.0  # seconds in which a server that lives takes a connection
_PAUSE: Final = 0.5
_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(ServerStatus))

logger = logging.getLogger("racer.soar")


async def run(
    load: Callable[[], Settings], announce: Callable[[Settings, SoarServer], None]
) -> None:
    """Serve until SIGINT or SIGTERM; on SIGHUP load grants and targets again.

    Args:
        load: returns what to serve; blocks.
        announce: is called once it listens.

    Raises:
        ConfigError, OSError: it could not begin.
    """
    settings = await run_sync(load)
    server = await run_sync(settings.server)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with server, _status_socket(settings.status) as listener:
            announce(settings, server)
            async with anyio.create_task_group() as tasks:
                if listener is not None:
                    tasks.start_soon(_tell_status, listener, server)
                async for number in signals:
                    if number != signal.SIGHUP:
                        break
                    await _reload(settings, load, server)
                tasks.cancel_scope.cancel()


async def _reload(settings: Settings, load: Callable[[], Settings], server: SoarServer) -> None:
    """Do as the files say now; where one is wrong, nothing is changed."""
    try:
        new = await run_sync(load)
        grants = await run_sync(new.issued)
        server.reconfigure(grants=grants, allow=new.allow, ports=new.ports, own=new.own)
    except (ConfigError, OSError) as exc:
        logger.error("not reloaded: %s", exc)  # noqa: TRY400 - the words say it all
        return
    logger.info("reloaded: %d grants", len(grants))
    if stale := new.differs(settings):
        logger.warning("only a restart changes: %s", ", ".join(stale))


@asynccontextmanager
async def _status_socket(path: Path | None) -> AsyncIterator[SocketListener | None]:
    """Yield what listens at `path`, for this user and group alone; leaving removes it.

    Raises:
        ConfigError: another server is there, or something that is no socket.
        OSError: it can't be.
    """
    if path is None:
        yield None
        return
    sock = await run_sync(_listen, path)
    try:
        mark = await run_sync(path.stat)
        async with await SocketListener.from_socket(sock) as listener:
            yield listener
        await run_sync(_remove, path, mark.st_ino)
    finally:
        sock.close()


def _listen(path: Path) -> socket.socket:
    _make_way(path)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(str(path))
        path.chmod(0o660)
        sock.listen()
    except BaseException as exc:
        sock.close()
        if isinstance(exc, OSError):
            msg = f"{path}: {exc.strerror or exc}"
            raise OSError(exc.errno, msg) from exc
        raise
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    return sock


def _make_way(path: Path) -> None:
    """Remove the socket that a killed server has left."""
    if not path.is_socket():
        if path.exists():
            msg = f"{path}: there is something that is no socket"
            raise ConfigError(msg)
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_TIMEOUT)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except TimeoutError:  # it is there, and busy
            pass
    msg = f"{path}: another server answers there already"
    raise ConfigError(msg)


def _remove(path: Path, number: int) -> None:
    with suppress(OSError):
        if path.stat().st_ino == number:
            path.unlink()


async def _tell_status(listener: SocketListener, server: SoarServer) -> None:
    """Answer whoever connects with the status."""

    async def tell(stream: SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_STATUS_TIMEOUT), suppress(anyio.BrokenResourceError):
                # Of thousands of sessions it takes a while to write, which nobody's question should wait for.
                await stream.send(await run_sync(_encoded, server.status()))

    while True:
        try:
            await listener.serve(tell)
        except* OSError as exc:  # the machine can't hold one more
            logger.warning("the status could not be told: %s", exc.exceptions[0])
        await anyio.sleep(_PAUSE)


def _encoded(status: ServerStatus) -> bytes:
    return json.dumps(status_table(status)).encode() + b"\n"


async def ask_status(path: Path) -> dict[str, Any]:
    """Return the status of the server behind the socket at `path`.

    Raises:
        OSError: nobody listens there.
        TimeoutError: no whole answer came within 5 s.
        ValueError: that is no status.
    """
    received = bytearray()
    with anyio.fail_after(_STATUS_TIMEOUT):
        try:
            stream = await anyio.connect_unix(path)
        except OSError as exc:
            msg = f"{path}: no server answers there: {exc.strerror or exc}"
            raise OSError(exc.errno, msg) from exc
        async with stream:
            try:
                while len(received) <= _MAX_STATUS:
                    received += await stream.receive()
            except anyio.EndOfStream:
                pass
    try:
        table = json.loads(received)
    except ValueError:
        table = None
    if not isinstance(table, dict) or not table.keys() >= _FIELDS:
        msg = f"{path}: what answers there is no Soar server"
        raise ValueError(msg)
    return table


def status_table(status: ServerStatus) -> dict[str, Any]:
    """Return a status as JSON has it; octets in hexadecimal, and no secrets in it."""
    plain: dict[str, Any] = _plain(dataclasses.asdict(status))
    return plain


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON's own types
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float():
            return round(value, 3)
        case _:
            return value


def show_status(table: Mapping[str, Any]) -> str:
    """Return a status as a person reads it."""
    sessions = table["sessions"]
    lines = [
        (
            f"up {table['uptime']:.0f} s{', shutting down' if table['is_shutting_down'] else ''}; "
            f"{len(sessions)} sessions hold {table['octets']} octets; {table['tombstones']} ended lately"
        ),
        f"questions: {_counts(table['questions'])}",
        f"handshakes: {_counts(table['handshakes'])}",
        f"answers: {_counts(table['answers'])}",
        f"ends: {_counts(table['ends'])}",
    ]
    if sessions:
        lines += ["", f"{'session':10} {'grant':14} {'age':>8} {'idle':>7} {'lease':>8} streams"]
    for session in sessions:
        lease = "-" if session["lease"] is None else f"{session['lease']:.0f} s"
        lines.append(
            f"{session['sid']:10} {session['grant_id'] or '-':14} {session['age']:6.0f} s "
            f"{session['idle']:5.1f} s {lease:>8} {session['streams']:7}"
        )
    return "\n".join(lines) + "\n"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
