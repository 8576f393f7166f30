"""A local proxy for programs that cannot be changed: SOCKS5 and HTTP on one port, and every connection is a race.

    async with racer.Dialer(entrants) as dialer, racer.proxy.Proxy(dialer, port=1080) as proxy:
        await anyio.sleep_forever()

* `Proxy`: listens, serves, tells its `status()`, and comes to a graceful end with `drain()`.
* `ProxyStatus`, `Failure`: what is going on, and why a client got nothing, as frozen data.
"""

from __future__ import annotations

from racer.proxy._house import Failure
from racer.proxy._proxy import Proxy
from racer.proxy._tally import ProxyStatus

__all__ = ("Failure", "Proxy", "ProxyStatus")
