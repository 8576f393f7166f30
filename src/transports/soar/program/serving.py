"""The server as a program: signals, reload, and answers to `status`."""

from __future__ import annotations

import dataclasses
import json
import logging
import signal
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.to_thread import run_sync

from racer.errors import ConfigError
from transports.soar.program.grants_file import issued, read_grants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyio.abc import SocketStream

    from transports.soar._server import SoarServer
    from transports.soar.core.server.status import ServerStatus
    from transports.soar.program.settings import Settings

__all__ = ("ask_status", "run", "show_status", "status_table")

_STATUS_TIMEOUT: Final = 5.0
_MAX_STATUS: Final = 64 << 20

logger = logging.getLogger("racer.soar")


async def run(settings: Settings, announce: Callable[[SoarServer], None]) -> None:
    """Serve until SIGINT or SIGTERM; on SIGHUP read the grants again.

    Args:
        settings: what to serve.
        announce: is called once it listens.

    Raises:
        ConfigError, OSError: it could not begin.
    """
    server = await run_sync(settings.server)
    async with server, anyio.create_task_group() as tasks:
        announce(server)
        if settings.status is not None:
            await tasks.start(_tell_status, settings.status, server)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGHUP:
                    break
                await _reload(settings, server)
        tasks.cancel_scope.cancel()


async def _reload(settings: Settings, server: SoarServer) -> None:
    """Know the grants that the file has now; a file that is wrong changes nothing."""
    if settings.grants is None:
        logger.warning("nothing to reload: no file of grants is named")
        return
    try:
        entries = await run_sync(read_grants, settings.grants)
        server.set_grants(issued(entries))
    except (ConfigError, OSError) as exc:
        logger.error("not reloaded: %s", exc)  # noqa: TRY400 - the words say it all
    else:
        logger.info("reloaded: %d grants", len(entries))


async def _tell_status(
    path: Path, server: SoarServer, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    """Answer whoever connects to the socket at `path` with the status, for this user and group alone."""
    listener = await anyio.create_unix_listener(path, mode=0o660)

    async def tell(stream: SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_STATUS_TIMEOUT):
                await stream.send(json.dumps(status_table(server.status())).encode() + b"\n")

    try:
        async with listener:
            task_status.started()
            await listener.serve(tell)
    finally:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - one quick call, at the end


async def ask_status(path: Path) -> dict[str, Any]:
    """Return the status of the server behind the socket at `path`.

    Raises:
        OSError: nobody listens there.
        TimeoutError: no whole answer came within 5 s.
        ValueError: that is no status.
    """
    received = bytearray()
    with anyio.fail_after(_STATUS_TIMEOUT):
        async with await anyio.connect_unix(path) as stream:
            try:
                while len(received) <= _MAX_STATUS:
                    received += await stream.receive()
            except anyio.EndOfStream:
                pass
    table = json.loads(received)
    if not isinstance(table, dict):
        msg = f"{path}: that is no server's status"
        raise ValueError(msg)  # noqa: TRY004 - what was sent is wrong, not its type
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
