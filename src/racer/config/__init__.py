"""Configuration from a TOML file, strictly: what is not understood is an error that says where, why, and what was meant.

    timeout = 60.0                # seconds for a whole race; left out: 80
    redact = false                # keep hosts and peers out of telemetry

    [[entrant]]
    transport = "direct"          # the name of an installed transport

    [[entrant]]
    transport = "soar"
    name = "last-resort"          # left out: the transport's name
    start_delay = 8.0             # seconds; left out: the transport's own
    tier = 0
    [entrant.options]             # the transport's own options
    domain = "t.example.com"
    credential = "${SOAR_GRANT}"  # a variable of the environment, in any text

    [memory]
    enabled = true                # remember who won, and let it start first

    [proxy]
    listen = "127.0.0.1:1080"     # of `racer proxy`

Only what is listed takes part: there is never a direct attempt that the file does not name.
"""

from __future__ import annotations

from racer.config._places import configured, default_path, load, read, reload
from racer.config._sample import sample
from racer.config._settings import Configuration, EntrantSettings, MemorySettings, ProxySettings

__all__ = (
    "Configuration",
    "EntrantSettings",
    "MemorySettings",
    "ProxySettings",
    "configured",
    "default_path",
    "load",
    "read",
    "reload",
    "sample",
)
