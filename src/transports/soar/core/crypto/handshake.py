"""The handshake, each side as one object: a session in one round trip (SPEC 7)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final, NamedTuple

from racer.errors import LocalProtocolError
from transports.soar.core.crypto.fragments import (
    FRAGMENT_OVERHEAD,
    MOST_FRAGMENTS,
    MOST_OCTETS,
    split_message,
)
from transports.soar.core.crypto.grants import proof, proves
from transports.soar.core.crypto.hashes import digest
from transports.soar.core.crypto.noise import (
    KEY_SIZE,
    OVERHEAD,
    HandshakeFailed,
    Initiator,
    Responder,
)
from transports.soar.core.crypto.packets import ClientSeals, ServerSeals, SessionKeys
from transports.soar.core.crypto.retries import BodyType, Retry, read_retry, unwrap, wrap
from transports.soar.core.crypto.terms import MAX_VERSION, Claims, Status, Terms

if TYPE_CHECKING:
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.crypto.keys import PublicKey, ServerKey
    from transports.soar.core.crypto.noise import Split
    from transports.soar.core.crypto.texts import Entropy

__all__ = (
    "First",
    "FirstMessage",
    "RetryCookie",
    "clock_error",
    "frames_room",
    "open_first",
    "sid_of",
)

_PROLOGUE: Final = b"soar/1"
_FIXED_SIZE: Final = 6  # time, flags, max_version
_COOKIE_SIZE: Final = 12
_GRANT_SIZE: Final = 22


class RetryCookie(NamedTuple):
    """What a RETRY asks to bring back.

    Attributes:
        cookie: its cookie.
        sid: that of the first message which it answered.
    """

    cookie: bytes
    sid: bytes


def sid_of(message: bytes) -> bytes:
    """Return the SID of a first message (SPEC 7.2)."""
    return digest(4, b"", message)


def frames_room(capacity: int, *, cookie: bool, grant: bool) -> int:
    """Return how many octets of frames a first message can carry, in at most four packets of `capacity` octets.

    Below 0 if it cannot be said in them at all.
    """
    size = capacity - FRAGMENT_OVERHEAD
    count = min(MOST_FRAGMENTS, MOST_OCTETS // size) if size > 0 else 0
    return count * size - OVERHEAD - _FIXED_SIZE - cookie * _COOKIE_SIZE - grant * _GRANT_SIZE


def clock_error(time: int, wall: float) -> float:
    """Return by how many seconds `time`, of a handshake message, is ahead of the Unix time `wall`.

    Messages carry 32 bits of it, so the nearest moment with these bits is meant: this works beyond the year 2106.
    """
    return (time - wall + 0x80000000) % 0x100000000 - 0x80000000


class FirstMessage:
    """The client's side of one handshake.

    Make another for every other payload, zone, credential or RETRY: each has its own ephemeral key (SPEC 7.5). The same
    one may be sent again, cut in any way.

    Args:
        public: the server's key.
        zone: lower-case wire octets, root included.
        wall: Unix time, in seconds; after a RETRY for the clock, the server's.
        frames: encoded; the first streams. At most `frames_room()` octets.
        capacity: of the packets that will carry it; the message is padded to fill them.
        cookie: what a RETRY asked for.
        grant: the credential to show.
        entropy: gives the ephemeral key, 32 octets.

    Attributes:
        message: `msg1`.
        sid: the session's name.
        seals: early packets can be sealed at once; data packets after the welcome.

    Raises:
        LocalProtocolError: the frames have no room.
    """

    __slots__ = ("_header_key", "_noise", "_welcome", "_welcomed_by", "message", "seals", "sid")

    def __init__(
        self,
        *,
        public: PublicKey,
        zone: bytes,
        wall: float,
        frames: bytes,
        capacity: int,
        entropy: Entropy,
        cookie: RetryCookie | None = None,
        grant: Grant | None = None,
    ) -> None:
        """Seal `msg1`."""
        room = frames_room(capacity, cookie=cookie is not None, grant=grant is not None)
        if len(frames) > room:
            msg = f"{len(frames)} octets of frames, where a first message has room for {room}"
            raise LocalProtocolError(msg)
        noise = Initiator(
            remote_static=public.raw, prologue=_PROLOGUE + zone, ephemeral=entropy(KEY_SIZE)
        )
        shown = None if grant is None else (grant.id, proof(grant.secret, noise.hash))
        claims = Claims(
            time=int(wall), max_version=MAX_VERSION, cookie=cookie, grant=shown, frames=frames
        ).encode()
        size = capacity - FRAGMENT_OVERHEAD
        length = -(-(OVERHEAD + len(claims)) // size) * size
        self.message = noise.seal(claims.ljust(length - OVERHEAD, b"\0"))
        self.sid = sid_of(self.message)
        self.seals = ClientSeals(
            sid=self.sid, header_key=public.header_key, early_key=_early_key(noise.chaining_key)
        )
        self._header_key = public.header_key
        self._noise = noise
        self._welcomed_by = b""
        self._welcome: Terms | None = None

    def fragments(self, capacity: int, *, form: int, entropy: Entropy) -> list[bytes]:
        """Return the packets that carry the message under names of this capacity, in questions of this form.

        Args:
            capacity: need not be that for which the message was made.
            form: that of the questions.
            entropy: fills what the last packet leaves over.

        Raises:
            LocalProtocolError: it would take more than four.
        """
        return split_message(
            self._header_key,
            self.sid,
            self.message,
            capacity=capacity,
            form=form,
            entropy=entropy,
        )

    def receive(self, payload: bytes) -> Terms | Retry | None:
        """Return what the answer to a fragment says; `None` if it proves nothing, or adds nothing.

        The first `Terms` count: they ready `seals` if their status is a welcome. The same answer to another fragment
        gives the same object; another server's answer to the same message gives `None` (SPEC 16.6).

        Raises:
            RemoteProtocolError: the server made it, and broke the rules; no session comes of this first message.
        """
        unwrapped = unwrap(self._header_key, payload)
        if unwrapped is None:
            return None
        body_type, body = unwrapped
        if body_type == BodyType.RETRY:
            return read_retry(self._header_key, self.sid, body)
        return self.finish(body)

    def finish(self, message: bytes) -> Terms | None:
        """Return the terms in `msg2`, as `receive()` does for a whole answer.

        Raises:
            RemoteProtocolError: as there.
        """
        if self._welcome is not None:
            return self._welcome if message == self._welcomed_by else None
        try:
            payload, split = self._noise.open(message)
        except HandshakeFailed:
            return None
        terms = Terms.decode(payload)
        self._welcome, self._welcomed_by = terms, message
        if terms.status is Status.WELCOME:
            self.seals.establish(_session_keys(split))
        return terms

    def __repr__(self) -> str:
        return f"FirstMessage(sid={self.sid.hex()})"


class First:
    """The server's side of one handshake: a first message that was for this server, and what it claims.

    Attributes:
        sid: the session's name.
        claims: time, version, cookie, grant and frames, as the client gives them.
        seals: opens early packets at once; all else after `answer()` with a welcome.
    """

    __slots__ = ("_header_key", "_noise", "claims", "seals", "sid")

    def __init__(
        self, *, sid: bytes, claims: Claims, noise: Responder, server_key: ServerKey
    ) -> None:
        """Derive the early key."""
        self.sid = sid
        self.claims = claims
        self.seals = ServerSeals(early_key=_early_key(noise.chaining_key))
        self._noise = noise
        self._header_key = server_key.public.header_key

    def proves(self, secret: bytes) -> bool:
        """Return whether the client has shown that it has the grant with this secret."""
        grant = self.claims.grant
        return grant is not None and proves(secret, self._noise.hash, grant[1])

    def answer(self, terms: Terms, *, entropy: Entropy) -> bytes:
        """Return the answer to every fragment, `msg2` in it; a welcome readies `seals`.

        Args:
            terms: what to say; `status_key` is `server_key.status_key(first.sid)` in a welcome.
            entropy: gives the ephemeral key, 32 octets.

        Raises:
            LocalProtocolError: it was answered already, or the terms cannot be said.
        """
        message, split = self._noise.seal(terms.encode(), ephemeral=entropy(KEY_SIZE))
        if terms.status is Status.WELCOME:
            self.seals.establish(_session_keys(split))
        return wrap(self._header_key, BodyType.MSG2, message)

    def __repr__(self) -> str:
        return f"First(sid={self.sid.hex()})"


def open_first(server_key: ServerKey, zone: bytes, message: bytes) -> First | None:
    """Return the first message, opened; `None` if it isn't one for this key and zone, or is not well formed.

    It costs a curve operation, so a server asks for the gate, and under load for fewer first messages, before.
    Whether its time, cookie and grant are good is the server's to say.

    Args:
        server_key: the server's own.
        zone: that of the fragments' names, lower-case wire octets.
        message: put together; that it hashes to the fragments' SID is checked by whoever did so.
    """
    if not OVERHEAD <= len(message) <= MOST_OCTETS:
        return None
    try:
        noise = Responder(
            static=server_key.private,
            static_public=server_key.public.raw,
            prologue=_PROLOGUE + zone,
            message=message,
        )
    except HandshakeFailed:
        return None
    claims = Claims.decode(noise.payload)
    if claims is None:
        return None
    return First(sid=sid_of(message), claims=claims, noise=noise, server_key=server_key)


def _early_key(chaining_key: bytes) -> bytes:
    return hmac.digest(chaining_key, b"soar1 early", "sha256")


def _session_keys(split: Split) -> SessionKeys:
    return SessionKeys(to_server=split.to_responder, to_client=split.to_initiator)
