"""What can be wrong with a connection, in a sentence each, and what to try. Shared by explanations and the doctor."""

from __future__ import annotations

from typing import Final

__all__ = ("REMEDIES",)

REMEDIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "no_network": (
        "This machine has no working network: nothing at all answered.",
        (
            "See that it is connected: cable, Wi-Fi, flight mode, a VPN that is down.",
            "Open any page in a browser: some networks want you to sign in first.",
        ),
    ),
    "clock": (
        "The clock of this machine is wrong, or the host's certificate is out of date: it is not valid at this hour.",
        (
            "Set the clock of this machine, date and year included, and try again.",
            "If the clock is right, the host has let its certificate expire, and only its owner can help.",
        ),
    ),
    "credential": (
        "The proxy does not accept the user or password it was given, or wants one and was given none.",
        ("Check user and password in the proxy's options; ask whoever runs the proxy.",),
    ),
    "grant": (
        "The Soar server does not accept the grant: it is missing, expired, revoked, or another server's.",
        (
            "Ask whoever runs the server for a new grant, and put it into the entrant's option `credential`.",
        ),
    ),
    "interception": (
        "Somebody on the way answers in the host's place: a page to sign in at, a filter, or a forged address.",
        (
            "Open any page in a browser, and sign in if the network asks for it.",
            "Use a way that this network's name servers have no part in: `proxyless`, or `direct` with an https:// resolver.",
            "Do not switch verification off: what answers is not the host.",
        ),
    ),
    "name_filter": (
        "A filter on the way reads which host is wanted from the beginning of TLS, and cuts the connection off.",
        (
            "Add the transport `proxyless`, which hides the name from such filters.",
            "Add `fronting`, a proxy, or `soar`, for which the filter sees another name or none.",
        ),
    ),
    "dns": (
        "Name servers do not answer, or say what is not so.",
        (
            "Run `racer doctor HOST`, which asks each resolver and says who lies.",
            'Use an encrypted resolver: resolver = "https://…" or "tls://…" in the options of `direct`.',
            "Check the spelling of the host: a name that nobody has registered fails in the same way.",
        ),
    ),
    "address_block": (
        "Nothing comes through from the host's address: it is blocked on the way, or the host is down.",
        (
            "Add a way that does not go to that address: `fronting`, a proxy, or `soar`.",
            "See from another network whether the host is up.",
        ),
    ),
    "refused": (
        "The address refuses connections: nothing listens on that port, or a filter answers in its place.",
        (
            "Check the port.",
            "See from another network whether the host is up; if it is, add a way that does not go to its address.",
        ),
    ),
    "proxy": (
        "The proxy does not connect to the host: its rules forbid it, it cannot reach the host itself, or it is down.",
        (
            "See that the proxy runs, and that its address and port are right.",
            "Ask whoever runs it whether the host and port are allowed; many allow port 443 only.",
        ),
    ),
    "server": (
        "The transport's own server, a proxy or the far end of a tunnel, does not answer as it should.",
        (
            "See that it runs, and that its address, port and key are right in the configuration.",
            "Run `racer doctor`, which looks closer.",
        ),
    ),
    "target": (
        "The tunnel works; its far end may not, or cannot, reach the host.",
        (
            "Check host and port: the far end looks the name up by itself.",
            "Ask whoever runs the server which targets are allowed.",
        ),
    ),
    "tunnel": (
        "No Soar server answers: its zone is not delegated, it is down, its key is another, or resolvers ask it nothing.",
        (
            "Compare `domain` and `server_key` with what the server's operator gave out.",
            "List other resolvers in the option `resolvers`, also tls:// and https:// ones.",
            "Run `racer doctor`, which tells these apart.",
        ),
    ),
    "session": (
        "The server restarted, or ended the session.",
        ("Try again: the next dial makes a new session.",),
    ),
    "peer": (
        "What answers is something else than was expected: another kind of server, or a box on the way.",
        (
            "Check address, port and the kind of transport in the configuration.",
            "With a host that speaks no TLS, dial with tls=False (`--no-tls`).",
        ),
    ),
    "check": (
        "The connection stood, and did not do what was asked of it.",
        (
            "See what the program's `check` demands.",
            "If it is right, something on the way spoils connections; add another transport.",
        ),
    ),
    "firewall": (
        "A firewall or sandbox on this machine does not let the program connect.",
        ("Allow it there, or run the program where it is allowed to connect.",),
    ),
    "limits": (
        "This machine, or a transport, is at its limit.",
        (
            "Close connections that are not used any more, and try again.",
            "Allow more open files (`ulimit -n`), or more simultaneous attempts.",
        ),
    ),
    "plugin": (
        "A transport has a bug; the log has its traceback.",
        (
            "Report it to whoever made the transport, with the traceback, and leave it out until then.",
        ),
    ),
    "too_short": (
        "The time was too short: some transports had no turn.",
        (
            "Give the race more time: `timeout=` in the program or the configuration, `--timeout` on the command line.",
        ),
    ),
    "nothing_answered": (
        "Nothing at all answered: it may also be that this machine has no working network.",
        ("See whether anything else on this machine reaches the internet.",),
    ),
    "nothing_serves": (
        "No transport serves this host; the report has each one's reason.",
        (
            "List another transport in the configuration, or choose with `only=` and `exclude=` anew.",
        ),
    ),
    "unknown": (
        "Why it failed is not known.",
        ("Look at the report, which has the error's own words, and at the log.",),
    ),
}
"""By `Cause`: what is wrong, and what to try, what promises most first."""
