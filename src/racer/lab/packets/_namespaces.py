"""Network namespaces and TUN devices of Linux, which need root. Nothing here has a name that could be left behind.

A namespace lives as long as a process in it: `unshare` runs one that waits for the end of its standard input, and so ends
with this process, however this process ends. Then the namespace is gone, and the device in it. Packets of a device go
through a file of this process, wherever the device is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.to_thread

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import Process

__all__ = ("MTU", "Namespace", "Tun", "why_unavailable")

MTU: Final = 1500
"""Octets of the largest packet; as on Ethernet."""

_DEVICE: Final = Path("/dev/net/tun")
_TUNSETIFF: Final = 0x400454CA  # <linux/if_tun.h>
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_NAME: Final = b"racer%d"  # the kernel puts in a number that is free
_TOOLS: Final = ("ip", "unshare", "nsenter")
_UNSHARE: Final = ("unshare", "--net", "--mount", "--propagation=private")


def why_unavailable() -> str | None:
    """Return why packets cannot be looked at here, for people; `None` when they can.

    Runs a command, which takes a few milliseconds: not for an event loop's thread. Changes nothing.
    """
    if sys.platform != "linux":
        return "namespaces and TUN devices are Linux's"
    if os.geteuid() != 0:
        return "making a network namespace needs root"
    if not _DEVICE.exists():
        return f"this machine has no {_DEVICE}"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"missing: {', '.join(missing)} (Debian: iproute2, util-linux)"
    return _refused()


def _refused() -> str | None:
    """Return what the kernel does not let root do here; `None` when it lets it do all."""
    try:
        os.close(os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as exc:
        return f"{_DEVICE} cannot be opened: {exc.strerror}"
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False)  # noqa: S603 - root's PATH
    if tried.returncode:
        said = tried.stderr.decode("utf-8", "replace").strip()
        return f"the kernel makes no namespaces here: {said or tried.returncode}"
    return None


class Tun:
    """A TUN device whose other end is a file of this process; non-blocking, one IP packet for each read and write."""

    def __init__(self) -> None:
        """Make the device, in this process's own namespace.

        Raises:
            OSError: it cannot be made.
        """
        import fcntl  # noqa: PLC0415 - not on every system
        import struct  # noqa: PLC0415 - with it

        self._fd = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            wish = struct.pack("16sH22x", _NAME, _IFF_TUN | _IFF_NO_PI)
            made: bytes = fcntl.ioctl(self._fd, _TUNSETIFF, wish)
        except BaseException:
            os.close(self._fd)
            raise
        self.name = made[:16].rstrip(b"\0").decode("ascii")

    def fileno(self) -> int:
        """Return the file's number, to wait for."""
        return self._fd

    def read(self) -> bytes | None:
        """Return a packet that the host sends; `None` when there is none now."""
        try:
            return os.read(self._fd, 2 * MTU)
        except BlockingIOError:
            return None

    def write(self, octets: bytes) -> None:
        """Give the host a packet; what it does not want, it drops."""
        with contextlib.suppress(OSError):
            os.write(self._fd, octets)

    def close(self) -> None:
        """Close; the device is gone then. May be called twice."""
        if self._fd >= 0:
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = -1


class Namespace:
    """A network namespace of its own, with one TUN device. An async context manager.

    Args:
        name: for errors.
        addresses: addresses that the host has.
        resolver: the address that programs inside find in `resolv.conf`; `None` to leave theirs.
    """

    def __init__(self, name: str, addresses: Sequence[str], *, resolver: str | None = None) -> None:
        """Keep the arguments; nothing is made yet."""
        self._name = name
        self._addresses = tuple(addresses)
        self._resolver = resolver
        self._holder: Process | None = None
        self._tun: Tun | None = None

    async def __aenter__(self) -> Self:
        """Make it.

        Raises:
            ConfigError: it cannot be made here.
        """
        try:
            with anyio.fail_after(20):
                await self._open()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End it, and the device in it."""
        await self.aclose()

    @property
    def tun(self) -> Tun:
        """Its device."""
        assert self._tun is not None
        return self._tun

    def command(self, *command: str) -> list[str]:
        """Return a command line that runs `command` inside."""
        assert self._holder is not None
        pid = str(self._holder.pid)
        return [
            "nsenter",
            f"--net=/proc/{pid}/ns/net",
            f"--mount=/proc/{pid}/ns/mnt",
            "--",
            *command,
        ]

    async def aclose(self) -> None:
        """End it. What runs inside keeps the namespace alive, but is cut off."""
        if self._tun is not None:
            self._tun.close()
        holder, self._holder = self._holder, None
        if holder is None:
            return
        with contextlib.suppress(ProcessLookupError):
            holder.kill()
        with anyio.CancelScope(shield=True):
            await holder.aclose()

    async def _open(self) -> None:
        # What the holder runs: it mounts the resolver's address over the file, says that it is ready, and waits.
        script = "echo ready; exec cat"
        if self._resolver is not None:
            script = (
                f"echo nameserver {self._resolver} >/dev/shm/$$ && "
                f'mount --bind /dev/shm/$$ "$(readlink -f /etc/resolv.conf)" && rm /dev/shm/$$ && {script}'
            )
        self._holder = holder = await anyio.open_process(
            [*_UNSHARE, "sh", "-c", script],
            stderr=subprocess.PIPE,
        )
        assert holder.stdout is not None
        try:
            await holder.stdout.receive()
        except anyio.EndOfStream:
            assert holder.stderr is not None
            said = await _rest(holder.stderr)
            msg = f"the network namespace of the {self._name} could not be made: {said}"
            raise ConfigError(msg) from None
        self._tun = await anyio.to_thread.run_sync(Tun)
        device = self._tun.name
        await _run(["ip", "link", "set", device, "netns", str(holder.pid)])
        lines = [
            "link set lo up",
            f"link set {device} addrgenmode none",
            *(f"addr add {address}{_whole(address)} dev {device}" for address in self._addresses),
            f"link set {device} up mtu {MTU} txqueuelen 1000",
            f"route add default dev {device}",
            f"route add ::/0 dev {device}",
        ]
        await _run(self.command("ip", "-batch", "-"), "\n".join(lines).encode())


def _whole(address: str) -> str:
    return "/128 nodad" if ":" in address else "/32"


async def _run(command: list[str], given: bytes = b"") -> None:
    """Run a command to its end.

    Raises:
        ConfigError: it failed; with its own words.
    """
    done = await anyio.run_process(command, input=given, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        msg = f"{' '.join(command[:6])}: {said or done.returncode}"
        raise ConfigError(msg)


async def _rest(stream: Any) -> str:  # noqa: ANN401 - a process's output
    said = b"".join([chunk async for chunk in stream])
    return said.decode("utf-8", "replace").strip()
