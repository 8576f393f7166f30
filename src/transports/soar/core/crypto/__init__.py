"""Soar's keys, handshake, sealed packets, and the proofs that a session has ended."""

from __future__ import annotations

from transports.soar.core.crypto.cookies import Cookies
from transports.soar.core.crypto.fragments import FRAGMENT_OVERHEAD, Fragment, read_fragment
from transports.soar.core.crypto.grants import Grant
from transports.soar.core.crypto.handshake import (
    First,
    FirstMessage,
    RetryCookie,
    clock_error,
    frames_room,
    open_first,
    sid_of,
)
from transports.soar.core.crypto.headers import (
    Header,
    Info,
    Kind,
    SizeClass,
    full_number,
    read_header,
)
from transports.soar.core.crypto.keys import HeaderKey, PublicKey, ServerKey
from transports.soar.core.crypto.noise import HandshakeFailed
from transports.soar.core.crypto.notices import EndCode, Notice, build_notice, read_notice
from transports.soar.core.crypto.packets import (
    ANSWER_OVERHEAD,
    PACKET_OVERHEAD,
    ClientSeals,
    Opened,
    ServerSeals,
)
from transports.soar.core.crypto.retries import Retry, RetryCode, build_retry
from transports.soar.core.crypto.terms import Claims, Status, Terms
from transports.soar.core.crypto.texts import InvalidKey

__all__ = (
    "ANSWER_OVERHEAD",
    "FRAGMENT_OVERHEAD",
    "PACKET_OVERHEAD",
    "Claims",
    "ClientSeals",
    "Cookies",
    "EndCode",
    "First",
    "FirstMessage",
    "Fragment",
    "Grant",
    "HandshakeFailed",
    "Header",
    "HeaderKey",
    "Info",
    "InvalidKey",
    "Kind",
    "Notice",
    "Opened",
    "PublicKey",
    "Retry",
    "RetryCode",
    "RetryCookie",
    "ServerKey",
    "ServerSeals",
    "SizeClass",
    "Status",
    "Terms",
    "build_notice",
    "build_retry",
    "clock_error",
    "frames_room",
    "full_number",
    "open_first",
    "read_fragment",
    "read_header",
    "read_notice",
    "sid_of",
)
