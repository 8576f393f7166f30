"""A server that says what a test tells it to, through the real codecs; and a client at its other end."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from transports.soar.core.client.client import Client
from transports.soar.core.client.settings import ClientSettings
from transports.soar.core.crypto import (
    First,
    Grant,
    Kind,
    Notice,
    Retry,
    RetryCode,
    ServerKey,
    Status,
    Terms,
    build_notice,
    build_retry,
    full_number,
    open_first,
    read_fragment,
    read_header,
)
from transports.soar.core.dns.answers import (
    Form,
    build_answer,
    failure,
    nodata,
    nxdomain,
    truncated,
)
from transports.soar.core.dns.questions import read_copy
from transports.soar.core.dns.zone import Whole, Zone
from transports.soar.core.instants import Instant
from transports.soar.core.streams.frames import Opened, StreamData, decode, encode_frame
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.events import ClientEvent
    from transports.soar.core.client.path import Outgoing
    from transports.soar.core.client.session import Session
    from transports.soar.core.dns.messages import Rcode
    from transports.soar.core.dns.questions import Copy
    from transports.soar.core.streams.frames import Frame

__all__ = ("KEY", "RTT", "TARGET", "ZONE", "Asked", "Echo", "Peer", "Rig", "grant")

ZONE = Zone.parse("t.example.com")
KEY = ServerKey.generate(random.Random("key").randbytes)
TARGET = Target.of("example.org", 443)
RTT = 0.070


@dataclass(slots=True, kw_only=True)
class Asked:
    """One question as the server reads it."""

    path: int
    fresh_socket: bool
    message: bytes
    copy: Copy
    form: Form
    name_class: int
    selector: int
    zone: Zone
    kind: Kind
    sid: bytes
    number: int = -1
    may_park: bool = False
    size_class: int = 0
    frames: list[Frame] = field(default_factory=list)
    whole: bool = False

    @property
    def name(self) -> bytes:
        return self.copy.name

    def of(self, kind: type) -> list[Any]:
        """Return its frames of that kind."""
        return [frame for frame in self.frames if isinstance(frame, kind)]


class Half:
    """The server's half of one session."""

    def __init__(self, sid: bytes) -> None:
        self.sid = sid
        self.pieces: dict[int, bytes] = {}
        self.first: First | None = None
        self.frames: list[Frame] = []
        self.early: list[Asked] = []
        self.answer: bytes | None = None
        self.highest = -1
        self.seen: dict[int, Asked] = {}


class Peer:
    """Reads what a client asks; makes the answers that tests want."""

    def __init__(self, zones: tuple[Zone, ...] = (ZONE,)) -> None:
        self.zones = zones
        self.halves: dict[bytes, Half] = {}
        self._dice = random.Random("peer")

    def read(self, sent: Outgoing) -> Asked:
        copy = read_copy(sent.message)
        assert copy is not None
        zone, whole = next(
            (zone, found) for zone in self.zones if isinstance(found := zone.read(copy.name), Whole)
        )
        header = read_header(KEY.public.header_key, whole.packet)
        assert header is not None
        assert copy.qtype == Form(header.form).qtype
        asked = Asked(
            path=sent.path,
            fresh_socket=sent.fresh_socket,
            message=sent.message,
            copy=copy,
            form=Form(header.form),
            name_class=whole.number,
            selector=whole.selector,
            zone=zone,
            kind=Kind(header.kind),
            sid=header.sid,
        )
        half = self.halves.setdefault(header.sid, Half(header.sid))
        if asked.kind is Kind.FRAGMENT:
            fragment = read_fragment(KEY.public.header_key, header, whole.packet)
            assert fragment is not None
            half.pieces[fragment.offset] = fragment.piece
            message = b"".join(piece for _, piece in sorted(half.pieces.items()))
            asked.whole = len(message) == fragment.total
            if asked.whole and half.first is None:
                half.first = open_first(KEY, zone.wire, message)
                assert half.first is not None
                half.frames = decode(half.first.claims.frames, from_client=True)
        if half.first is not None and asked.kind is not Kind.FRAGMENT:
            number = full_number(header.x, half.highest)
            index = self.zones.index(zone) if asked.kind is Kind.DATA else 0
            opened = half.first.seals.open_packet(header, whole.packet, number, index)
            assert opened is not None, "the client sealed it so that its server can't open it"
            info, frames = opened
            before = half.seen.get(number)
            assert before is None or before.name == asked.name, "one number, two packets"
            half.seen[number] = asked
            half.highest = max(half.highest, number)
            assert info.path == sent.path
            asked.number = number
            asked.may_park = info.may_park
            asked.size_class = info.size_class
            asked.frames = decode(frames, from_client=True)
        return asked

    # --- answers

    def terms(
        self,
        asked: Asked,
        *,
        status: Status = Status.WELCOME,
        frames: Iterable[Frame] = (),
        **terms: Any,
    ) -> bytes:
        half = self.halves[asked.sid]
        if half.answer is None:
            assert half.first is not None, "not all fragments have come"
            said = {
                "time": 1_800_000_000,
                "idle_timeout": 120.0,
                "max_streams": 128,
                "stream_window": 256 << 10,
                "session_window": 1 << 20,
                "status_key": KEY.status_key(asked.sid),
                **terms,
            }
            octets = b"".join(map(encode_frame, frames))
            half.answer = half.first.answer(
                Terms(status=status, frames=octets, **said), entropy=self._dice.randbytes
            )
        return self.carry(asked, half.answer)

    def retry(self, asked: Asked, code: RetryCode, *, time: int = 1_800_000_000) -> bytes:
        made = build_retry(KEY.public.header_key, asked.sid, Retry(code, b"cookie..", time))
        return self.carry(asked, made)

    def answer(
        self,
        asked: Asked,
        *frames: Frame,
        backlog: int = 0,
        held: float = 0.0,
        octets: bytes | None = None,
    ) -> bytes:
        half = self.halves[asked.sid]
        assert half.first is not None
        if octets is None:
            octets = b"".join(map(encode_frame, frames))
        return self.carry(asked, half.first.seals.seal_answer(asked.number, backlog, held, octets))

    def notice(self, asked: Asked, notice: Notice, *, key: bytes | None = None) -> bytes:
        key = KEY.status_key(asked.sid) if key is None else key
        return nxdomain(asked.copy, asked.zone, build_notice(key, notice, asked.name))

    def carry(self, asked: Asked, payload: bytes) -> bytes:
        return build_answer(asked.copy, asked.form, payload, asked.zone)

    def nodata(self, asked: Asked) -> bytes:
        return nodata(asked.copy, asked.zone)

    def nxdomain(self, asked: Asked) -> bytes:
        return nxdomain(asked.copy, asked.zone, None)

    def failure(self, asked: Asked, rcode: Rcode) -> bytes:
        return failure(asked.copy, rcode)

    def truncated(self, asked: Asked) -> bytes:
        return truncated(asked.copy)


class Rig:
    """A client, its scripted server, and the clocks.

    Args:
        paths: how many.
        datagram: whether they are UDP.
        seed: of all that is random at the client.
        settings: of the client, beyond key and zones.
    """

    def __init__(
        self,
        *,
        paths: int = 1,
        datagram: bool = True,
        seed: str = "client",
        zones: tuple[Zone, ...] = (ZONE,),
        **settings: Any,
    ) -> None:
        self.time = 0.0
        self.slept = 0.0
        self.peer = Peer(zones)
        self.settings = ClientSettings(public_key=KEY.public, zones=zones, **settings)
        self.client = Client(self.settings, entropy=random.Random(seed).randbytes, owner=1)
        self.paths = [self.client.add_path(datagram=datagram) for _ in range(paths)]
        self.told: list[ClientEvent] = []
        self.log: list[tuple[float, Asked]] = []
        self._mail: list[tuple[float, int, Asked, bytes]] = []
        self._posted = 0

    @property
    def now(self) -> Instant:
        return Instant(
            5000.0 + self.time, 300.0 + self.time - self.slept, 1_800_000_000.0 + self.time
        )

    def send(self) -> list[Asked]:
        """Return what the client sends now."""
        asked = [self.peer.read(sent) for sent in self.client.messages_to_send(self.now)]
        self.log += [(self.time, each) for each in asked]
        self._listen()
        return asked

    def tell(self, asked: Asked, message: bytes) -> None:
        """Give the client a message, on the path that `asked` came on."""
        self.client.receive_message(asked.path, message, self.now)
        self._listen()

    def post(self, asked: Asked, message: bytes | None, delay: float = RTT) -> None:
        """Give the client a message later, if there is one."""
        if message is not None:
            self._posted += 1
            heapq.heappush(self._mail, (self.time + delay, self._posted, asked, message))

    def due(self) -> float | None:
        """Return when the client wants to be called."""
        at = self.client.next_timeout()
        return None if at is None else max(self.time, at - 300.0 + self.slept)

    def run(
        self,
        until: float,
        reply: Callable[[Asked], bytes | None] | None = None,
        *,
        delay: float = RTT,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let time pass; each question is answered by `reply`, if by anything, `delay` seconds later."""
        for _ in range(200_000):
            for asked in self.send():
                if reply is not None:
                    self.post(asked, reply(asked), delay)
            if stop():
                return
            due = self.due()
            next_mail = self._mail[0][0] if self._mail else None
            at = min((each for each in (due, next_mail) if each is not None), default=None)
            if at is None or at > until:
                self.time = until
                return
            self.time = at
            if next_mail is not None and next_mail <= at:
                _, _, asked, message = heapq.heappop(self._mail)
                self.tell(asked, message)
            else:
                self.client.handle_timeout(self.now)
                self._listen()
        raise AssertionError("the client never comes to rest")

    def sleep(self, seconds: float) -> None:
        """Let the machine sleep: elapsed time passes, awake time doesn't."""
        self.time += seconds
        self.slept += seconds

    def events(self, kind: type | None = None) -> list[Any]:
        """Return all events so far, or those of one kind."""
        return [event for event in self.told if kind is None or isinstance(event, kind)]

    @property
    def sessions(self) -> list[Session]:
        return self.client._pool.sessions

    def welcomed(self, **terms: Any) -> Session:
        """Shake hands in one round trip, and return the session."""
        asked = [each for each in self.send() if each.kind is Kind.FRAGMENT]
        self.time += RTT
        for each in asked:
            self.tell(each, self.peer.terms(each, **terms))
        return self.sessions[-1]

    def dialed(self, **terms: Any) -> Dial:
        """Return a dial whose target is connected, on a session of its own."""
        dial = self.client.dial(TARGET, self.now)
        self.welcomed(frames=[Opened(0)], **terms)
        return dial

    def _listen(self) -> None:
        while (event := self.client.next_event()) is not None:
            self.told.append(event)


class Echo:
    """Answers for a server that is quick: welcomes, connects, and sends back what it gets.

    Args:
        rig: whose peer answers.
        park: whether questions that may park wait for 0.6 s while there is nothing to say.
        terms: of the welcome.
    """

    def __init__(self, rig: Rig, *, park: bool = True, **terms: Any) -> None:
        self.rig = rig
        self.park = park
        self.terms = terms
        self.got: dict[int, bytearray] = {}
        self.said: set[int] = set()

    def __call__(self, asked: Asked) -> bytes | None:
        peer = self.rig.peer
        half = peer.halves[asked.sid]
        if asked.kind is Kind.FRAGMENT:
            return peer.terms(asked, **self.terms) if half.first is not None else None
        if asked.number < 0:
            return None
        frames: list[Frame] = []
        for frame in [*half.frames, *asked.frames]:
            if isinstance(frame, StreamData):
                had = self.got.setdefault(frame.stream, bytearray())
                had += bytes(max(0, frame.offset - len(had)))
                had[frame.offset : frame.offset + len(frame.data)] = frame.data
                if frame.stream not in self.said:
                    self.said.add(frame.stream)
                    frames.append(Opened(frame.stream))
        half.frames = []
        if not frames and asked.may_park and self.park:
            self.rig.post(asked, peer.answer(asked, held=0.6), 0.6 + RTT)
            return None
        return peer.answer(asked, *frames)


def grant(seed: str = "grant") -> Grant:
    """Return a credential of its own for each seed."""
    return Grant.generate(random.Random(seed).randbytes)
