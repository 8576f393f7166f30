"""`racer.dial`, and the one dialer each event loop has for it."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import anyio

from racer._dialer import Dialer, target_of
from racer._loops import current_loop, is_closed_loop
from racer.errors import ConfigError, WrongLoop

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable

    from anyio.abc import ByteStream

    from racer._connection import Connection
    from racer._target import Target

__all__ = ("aclose", "default_dialer", "dial", "set_default_dialer")

# One default dialer for each loop. Hosts end, and so leave, with their loop; what a loop that was closed without ending
# its tasks leaves behind is swept when the next one is made.
_defaults: dict[object, Dialer] = {}
_defaults_lock = threading.Lock()


async def dial(
    host: str | Target,
    port: int | None = None,
    *,
    tls: bool | ssl.SSLContext | None = None,
    timeout: float | None = None,
    check: Callable[[ByteStream], Awaitable[bool | None]] | None = None,
    only: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
) -> Connection:
    """Return the first usable stream to `host`, by this event loop's default dialer; the caller closes it.

    Args:
        host: a name or address, which may carry the port, or a `racer.abc.Target`.
        port: where `host` carries none; 443 when neither does.
        tls: `None` means TLS on port 443 and raw elsewhere; an `ssl.SSLContext` is used as it is.
        timeout: seconds for the whole race; `None` for 80 (R4).
        check: a coroutine that may demand more of a stream before it counts.
        only: names of the entrants that may take part; `None` for all.
        exclude: names of those that may not.

    Raises:
        InvalidTarget, ConfigError: before any IO; also a configuration file that cannot be used.
        NoTransports: none is installed, or none serves the target.
        AllAttemptsFailed, DialTimeout: with `.report`, `.group`, `.find()`.

    Cancelling closes every attempt.
    """
    target = target_of(host, port, tls, ())
    dialer = await default_dialer()
    return await dialer.dial(target, timeout=timeout, check=check, only=only, exclude=exclude)


async def aclose() -> None:
    """End this loop's default dialer, if there is one; the next `dial` makes a new one."""
    dialer = _defaults.get(current_loop())
    if dialer is not None:
        await dialer.aclose()


def set_default_dialer(dialer: Dialer | None) -> None:
    """Choose what `racer.dial` uses in the running loop; `None` for the configured one again.

    The dialer that was the default before is not closed: whoever made it does that. One that racer made ends when the
    last of its connections is gone.

    Raises:
        ConfigError: not a dialer.
        WrongLoop, DialerClosed: no loop runs in this thread, or the dialer is bound to another, or has ended.
    """
    if dialer is not None and not isinstance(dialer, Dialer):
        msg = f"the default dialer must be a racer.Dialer or None, not {type(dialer).__name__}"
        raise ConfigError(msg)
    try:
        loop = current_loop()
    except RuntimeError as exc:
        msg = (
            "set_default_dialer() chooses for the running event loop, and none runs in this thread"
        )
        raise WrongLoop(msg) from exc
    if dialer is None:
        with _defaults_lock:
            _defaults.pop(loop, None)
        return
    _remember(loop, dialer, quiet=False)


async def default_dialer() -> Dialer:
    """Return the running loop's default dialer, made as configured when there is none that can serve."""
    loop = current_loop()
    if (dialer := _usable(loop)) is not None:
        return dialer
    from racer.config import configured  # noqa: PLC0415 - who brings a dialer never reads a configuration

    # Reads files and imports guests: not on the loop.
    made = await anyio.to_thread.run_sync(configured, abandon_on_cancel=True)
    if (dialer := _usable(loop)) is not None:
        return dialer  # another dial of this loop was faster
    _remember(loop, made, quiet=True)
    return made


def _usable(loop: object) -> Dialer | None:
    dialer = _defaults.get(loop)
    return dialer if dialer is not None and dialer.is_usable else None


def _remember(loop: object, dialer: Dialer, *, quiet: bool) -> None:
    # Weak: the host, which its keeper keeps alive, must not keep alive the dialer, whose drop ends the host.
    ref = weakref.ref(dialer)

    def forget() -> None:
        with _defaults_lock:
            if _defaults.get(loop) is ref():
                _defaults.pop(loop, None)

    dialer.use_as_default(forget, quiet=quiet)
    with _defaults_lock:
        for other in [one for one in _defaults if is_closed_loop(one)]:
            del _defaults[other]
        _defaults[loop] = dialer
