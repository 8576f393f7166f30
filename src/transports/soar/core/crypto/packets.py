"""What is sealed in packets and answers, and the objects that seal each number once (SPEC 8).

The hot path: one AEAD object for each direction, and what is made for each answer is a NamedTuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from racer.errors import LocalProtocolError
from transports.soar.core.crypto.headers import HEADER_SIZE, INFOS, Kind

if TYPE_CHECKING:
    from transports.soar.core.crypto.headers import Header, Info
    from transports.soar.core.crypto.keys import HeaderKey

__all__ = (
    "ANSWER_OVERHEAD",
    "PACKET_OVERHEAD",
    "ClientSeals",
    "Opened",
    "ServerSeals",
    "SessionKeys",
)

PACKET_OVERHEAD: Final = 24
"""Octets of a packet that aren't frames: header 7, info 1, tag 16."""
ANSWER_OVERHEAD: Final = 18
"""Octets of an answer that aren't frames: backlog 1, held 1, tag 16."""
NUMBER_WINDOW: Final = 8192
"""Packet numbers that can be outstanding at once (SPEC 8.7)."""

# A nonce is one integer of 12 octets: direction 1, zeros 3, number 8 (SPEC 8.1). From the client the direction is 0.
_NONCE_SIZE: Final = 12
_TO_CLIENT: Final = 1 << 88
_OCTETS: Final = tuple(bytes([value]) for value in range(256))
_new: Final = tuple.__new__  # what a named tuple's class does, without its own function in between
_EARLY: Final = int(Kind.EARLY)  # as plain integers they compare at a third of the cost
_DATA: Final = int(Kind.DATA)
_BACKLOGS: Final = tuple(octet if octet < 128 else 128 + 16 * (octet - 128) for octet in range(256))
_HELD_UNIT: Final = 0.008
_HELD: Final = tuple(octet * _HELD_UNIT for octet in range(256))


class Opened(NamedTuple):
    """An authentic answer.

    Attributes:
        backlog: at least so many more full answers the server could fill now.
        held: seconds that the question waited at the server.
        frames: encoded.
    """

    backlog: int
    held: float
    frames: bytes

    def __repr__(self) -> str:
        return f"Opened(backlog={self.backlog}, held={self.held:.3f}, {len(self.frames)} octets)"


class SessionKeys:
    """The keys of a finished handshake; no `repr` shows them, and they are neither copied nor pickled.

    Attributes:
        to_server: `k_c2s`.
        to_client: `k_s2c`.
    """

    __slots__ = ("to_client", "to_server")

    def __init__(self, *, to_server: bytes, to_client: bytes) -> None:
        """Hold the keys."""
        self.to_server = to_server
        self.to_client = to_client

    def __reduce__(self) -> NoReturn:
        """Refuse: whoever holds keys twice may use a nonce twice."""
        _refuse_copy()


class _Numbers:
    """Which numbers were used lately, so that none is used twice.

    Of numbers more than a window below the highest none may be used any more, so that is all it remembers: at most
    about 260 words.
    """

    __slots__ = ("_highest", "_words")

    def __init__(self) -> None:
        self._highest = -1
        self._words: dict[int, int] = {}

    def use(self, number: int) -> None:
        """Note `number`, or raise `LocalProtocolError`."""
        word = number >> 6
        bit = 1 << (number & 63)
        used = self._words.get(word, 0)
        if used & bit or number <= self._highest - NUMBER_WINDOW:
            msg = f"packet number {number} was answered, or is too old to know: one number is sealed once"
            raise LocalProtocolError(msg)
        self._words[word] = used | bit
        if number > self._highest:
            self._highest = number
            if len(self._words) > 2 * NUMBER_WINDOW // 64:
                oldest = (number - NUMBER_WINDOW) >> 6
                self._words = {w: bits for w, bits in self._words.items() if w >= oldest}


class ClientSeals:
    """The client's end of a session's keys: seals packets, opens answers.

    It seals each packet number once, in order, and only ever under keys that no other object has.

    Args:
        sid: the session.
        header_key: that of the server's public key.
        early_key: `k_early`.

    Attributes:
        next_number: the packet number that must come next.
    """

    __slots__ = ("_early", "_header_key", "_open", "_seal", "_sid", "next_number")

    def __init__(self, *, sid: bytes, header_key: HeaderKey, early_key: bytes) -> None:
        """Begin with early packets only."""
        self._sid = int.from_bytes(sid) << 16  # at its place in a header
        self._header_key = header_key
        self._early: ChaCha20Poly1305 | None = ChaCha20Poly1305(early_key)
        self._seal: ChaCha20Poly1305 | None = None
        self._open: ChaCha20Poly1305 | None = None
        self.next_number = 0

    def establish(self, keys: SessionKeys) -> None:
        """Take the keys of `msg2`: data packets from here on, and no early ones.

        Raises:
            LocalProtocolError: there are keys already.
        """
        if self._seal is not None:
            msg = "a session gets its keys once"
            raise LocalProtocolError(msg)
        self._early = None
        self._seal = ChaCha20Poly1305(keys.to_server)
        self._open = ChaCha20Poly1305(keys.to_client)

    def seal_packet(
        self,
        kind: int,
        form: int,
        number: int,
        info: Info,
        frames: bytes,
        *,
        capacity: int,
        zone_index: int = 0,
    ) -> bytes:
        """Return a packet of exactly `capacity` octets (SPEC 8.2); the room behind `frames` is PAD.

        Args:
            kind: `Kind.EARLY` before `establish()`, `Kind.DATA` after.
            form: that of the question that will carry it.
            number: `next_number`.
            info: for the server.
            frames: encoded, at most `capacity - PACKET_OVERHEAD` octets.
            capacity: that of the name's class.
            zone_index: that of the name's zone.

        Raises:
            LocalProtocolError: the kind cannot be sent now, the number isn't the next, or the frames have no room.
        """
        cipher = self._seal if kind == _DATA else self._early if kind == _EARLY else None
        if cipher is None:
            msg = f"a packet of kind {kind} cannot be sealed now"
            raise LocalProtocolError(msg)
        if number != self.next_number:
            msg = f"packet number {number}, where {self.next_number} is the next: one number is sealed once"
            raise LocalProtocolError(msg)
        room = capacity - PACKET_OVERHEAD
        if len(frames) > room:
            msg = f"{len(frames)} octets of frames, where {room} fit"
            raise LocalProtocolError(msg)
        self.next_number = number + 1
        path, size_class, may_park = info
        header = kind << 54 | form << 52 | self._sid | number & 0xFFFF  # one number, to be masked
        sealed = cipher.encrypt(
            number.to_bytes(_NONCE_SIZE),
            _OCTETS[path << 4 | size_class << 2 | may_park << 1] + frames.ljust(room, b"\0"),
            (header << 8 | zone_index).to_bytes(HEADER_SIZE + 1),
        )
        mask = int.from_bytes(self._header_key.mask(sealed[-16:]))
        return (header ^ mask).to_bytes(HEADER_SIZE) + sealed

    def open_answer(self, number: int, payload: bytes) -> Opened | None:
        """Return the answer to packet `number`; `None` unless the server sealed `payload` for it (SPEC 8.3).

        Raises:
            LocalProtocolError: `establish()` has not been called; keep what comes before.
        """
        if self._open is None:
            msg = "an answer cannot be opened before msg2 has come"
            raise LocalProtocolError(msg)
        try:
            plain = self._open.decrypt((_TO_CLIENT | number).to_bytes(_NONCE_SIZE), payload, None)
        except InvalidTag:
            return None
        if len(plain) < 2:
            return None
        return _new(Opened, (_BACKLOGS[plain[0]], _HELD[plain[1]], plain[2:]))

    def __reduce__(self) -> NoReturn:
        """Refuse: a copy would seal the same number again."""
        _refuse_copy()


class ServerSeals:
    """The server's end of a session's keys: opens packets, seals answers.

    Opening is pure, and may be tried on anything. Each number is sealed once.

    Args:
        early_key: `k_early`.
    """

    __slots__ = ("_early", "_numbers", "_open", "_seal")

    def __init__(self, *, early_key: bytes) -> None:
        """Begin with early packets only."""
        self._early = ChaCha20Poly1305(early_key)
        self._open: ChaCha20Poly1305 | None = None
        self._seal: ChaCha20Poly1305 | None = None
        self._numbers = _Numbers()

    def establish(self, keys: SessionKeys) -> None:
        """Take the keys that `msg2` makes: answers can be sealed from here on.

        Raises:
            LocalProtocolError: there are keys already.
        """
        if self._seal is not None:
            msg = "a session gets its keys once"
            raise LocalProtocolError(msg)
        self._open = ChaCha20Poly1305(keys.to_server)
        self._seal = ChaCha20Poly1305(keys.to_client)

    def open_packet(
        self, header: Header, packet: bytes, number: int, zone_index: int = 0
    ) -> tuple[Info, bytes] | None:
        """Return what `packet` says of itself, and its frames; `None` unless this session's client sealed it.

        Args:
            header: what `read_header` gave for `packet`; kind early or data.
            packet: whole, as masked.
            number: the full packet number, of `full_number`.
            zone_index: that of the zone which the question's name is under.
        """
        kind, _, _, _, octets = header
        cipher = self._open if kind == _DATA else self._early if kind == _EARLY else None
        if cipher is None:
            return None
        try:
            plain = cipher.decrypt(
                number.to_bytes(_NONCE_SIZE),
                packet[HEADER_SIZE:],
                octets + _OCTETS[zone_index],
            )
        except InvalidTag:
            return None
        if not plain:
            return None
        return INFOS[plain[0]], plain[1:]

    def seal_answer(self, number: int, backlog: int, held: float, frames: bytes) -> bytes:
        """Return the one answer to packet `number` (SPEC 8.3, 8.5).

        Args:
            number: the full packet number.
            backlog: how many more full answers could be filled now.
            held: seconds that the question waited here.
            frames: encoded.

        Raises:
            LocalProtocolError: `number` was sealed before, or is 8,192 or more below the highest that was; or
                `establish()` has not been called.
        """
        if self._seal is None:
            msg = "an answer cannot be sealed before the handshake's"
            raise LocalProtocolError(msg)
        self._numbers.use(number)
        waiting = backlog if backlog < 128 else min(255, 128 + (backlog - 128 >> 4))
        units = min(255, int(held / _HELD_UNIT)) if held >= _HELD_UNIT else 0
        plain = _OCTETS[waiting] + _OCTETS[units] + frames
        return self._seal.encrypt((_TO_CLIENT | number).to_bytes(_NONCE_SIZE), plain, None)

    def __reduce__(self) -> NoReturn:
        """Refuse: a copy would seal the same number again."""
        _refuse_copy()


def _refuse_copy() -> NoReturn:
    msg = "what seals is not copied: one key and number would seal twice"
    raise TypeError(msg)
