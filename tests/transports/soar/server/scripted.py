"""A client that does what a test says, and nothing else; and a server with a clock that a test turns."""

from __future__ import annotations

import hashlib
import itertools
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from transports.soar.core.crypto import (
    FirstMessage,
    Info,
    Kind,
    Opened,
    Retry,
    RetryCookie,
    ServerKey,
    SizeClass,
    Terms,
    read_notice,
)
from transports.soar.core.dns.answers import Answer, Form, read_answer
from transports.soar.core.dns.authority import Authority
from transports.soar.core.dns.messages import QType, Rcode
from transports.soar.core.dns.questions import build_question
from transports.soar.core.dns.zone import PartialAnswer, Zone, Zones
from transports.soar.core.instants import Instant
from transports.soar.core.server.events import StreamOpened
from transports.soar.core.server.server import Server
from transports.soar.core.server.settings import ServerSettings
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import (
    Challenge,
    Response,
    StreamData,
    decode,
    encode_frame,
)
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from transports.soar.core.crypto import Grant, Notice
    from transports.soar.core.server.events import ServerEvent
    from transports.soar.core.server.server_stream import ServerStream
    from transports.soar.core.streams.frames import Frame

E = TypeVar("E", bound="ServerEvent")

WALL = 1_800_000_000.0
ZONE = Zone.parse("t.example.com")
OTHER_ZONE = Zone.parse("u.example.net")
RESOLVER = Source(bytes([192, 0, 2, 53]), 5353)
TARGET = Target.of("target.example", 443)
SETTLED = 1_000.0  # seconds of uptime after which first messages of now may be executed


class Dice:
    """Octets that look random and are the same each time."""

    def __init__(self, seed: str = "server") -> None:
        self._seed = seed.encode()
        self._calls = itertools.count()

    def __call__(self, size: int) -> bytes:
        return hashlib.shake_256(self._seed + next(self._calls).to_bytes(4)).digest(size)


KEY = ServerKey.generate(Dice("key"))


class Desk:
    """A server, its clock, and what it has said."""

    def __init__(
        self, *, uptime: float = SETTLED, zones: Zones | None = None, **settings: Any
    ) -> None:
        zones = zones or Zones((ZONE,))
        authority = Authority(zones, {"ns.example.org": [IPv4Address("192.0.2.1")]})
        self.settings = ServerSettings(key=KEY, zones=zones, authority=authority, **settings)
        self.time = 0.0
        self.dice = Dice()
        self.server = Server(self.settings, entropy=self.dice, now=self.now)
        self.said: list[tuple[float, Source, bytes]] = []
        self.events: list[ServerEvent] = []
        self._began = self.time
        self.time += uptime

    @property
    def now(self) -> Instant:
        return Instant(self.time + 70.0, self.time, WALL + self.time)

    def restart(self) -> None:
        """Lose all that the process knew."""
        self.server = Server(self.settings, entropy=self.dice, now=self.now)

    def ask(self, message: bytes, source: Source = RESOLVER) -> list[bytes]:
        """Give the server a message, and return what it says at once."""
        self.server.receive_message(message, source, self.now)
        return self.flush()

    def flush(self) -> list[bytes]:
        """Collect what the server has to say, and return it."""
        while (event := self.server.next_event()) is not None:
            self.events.append(event)
        messages = self.server.messages_to_send(self.now)
        while (event := self.server.next_event()) is not None:
            self.events.append(event)
        self.said += [(self.time, source, message) for source, message in messages]
        return [message for _, message in messages]

    def run(self, until: float) -> list[bytes]:
        """Let time pass, and return what is said meanwhile."""
        messages = self.flush()
        while (due := self.server.next_timeout()) is not None and due <= until:
            self.time = max(self.time, due)
            self.server.handle_timeout(self.now)
            messages += self.flush()
        self.time = until
        return messages

    def wait(self, seconds: float) -> list[bytes]:
        """Let so much time pass."""
        return self.run(self.time + seconds)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def streams(self) -> list[ServerStream]:
        """All streams that were opened so far."""
        return [event.stream for event in self.of(StreamOpened)]


class Asked(NamedTuple):
    """A question that the client has made."""

    message: bytes
    number: int
    name: bytes
    form: Form


class Said(NamedTuple):
    """What an authentic answer said."""

    opened: Opened
    frames: list[Frame]


class Script:
    """One session at the client, by hand."""

    def __init__(
        self,
        desk: Desk,
        *frames: Frame,
        seed: str = "client",
        zone: Zone = ZONE,
        grant: Grant | None = None,
        cookie: RetryCookie | None = None,
        wall: float | None = None,
        form: Form = Form.DS,
        ids: int = 1,
    ) -> None:
        self.desk = desk
        self.zone = zone
        self.form = form
        self.dice = Dice(seed)
        self.ids = itertools.count(ids)
        self.first = FirstMessage(
            public=KEY.public,
            zone=zone.wire,
            wall=desk.now.wall if wall is None else wall,
            frames=b"".join(map(encode_frame, frames)),
            capacity=zone.classes[1].capacity,
            entropy=self.dice,
            grant=grant,
            cookie=cookie,
        )
        self.terms: Terms | None = None

    @property
    def sid(self) -> bytes:
        return self.first.sid

    def name(self, packet: bytes, number: int = 1, zone: Zone | None = None) -> bytes:
        zone = zone or self.zone
        selector, flag = self.dice(2)
        return zone.encode(
            packet, number=number, selector=selector & 31, flag=flag & PartialAnswer.NXDOMAIN.free
        )

    def question(
        self, name: bytes, form: Form, *, edns: bool = True, qtype: QType | None = None
    ) -> bytes:
        return build_question(next(self.ids) & 0xFFFF, name, qtype or form.qtype, edns=edns)

    def flight(self, *, number: int = 1, form: Form | None = None) -> list[bytes]:
        """Return the questions of a first flight."""
        form = self.form if form is None else form
        packets = self.first.fragments(
            self.zone.classes[number].capacity, form=form, entropy=self.dice
        )
        return [self.question(self.name(packet, number), form) for packet in packets]

    def shake(self, source: Source = RESOLVER) -> Terms | Retry | None:
        """Send a first flight, and return what is said to it."""
        said = None
        for question in self.flight():
            for message in self.desk.ask(question, source):
                said = self.take_welcome(message) or said
        return said

    def take_welcome(self, message: bytes) -> Terms | Retry | None:
        payload = self.read(message).payload
        said = None if payload is None else self.first.receive(payload)
        if isinstance(said, Terms):
            self.terms = said
        return said

    def read(self, message: bytes) -> Answer:
        return read_answer(message)

    def packet(
        self,
        *frames: Frame,
        kind: Kind = Kind.DATA,
        form: Form | None = None,
        path: int = 0,
        size: SizeClass = SizeClass.OCTETS_1232,
        may_park: bool = False,
        name_class: int = 1,
        zone: Zone | None = None,
        zone_index: int = 0,
        edns: bool = True,
        raw: bytes | None = None,
    ) -> Asked:
        """Return a question with a new packet."""
        form = self.form if form is None else form
        zone = zone or self.zone
        number = self.first.seals.next_number
        packet = self.first.seals.seal_packet(
            kind,
            form,
            number,
            Info(path, size, may_park),
            b"".join(map(encode_frame, frames)) if raw is None else raw,
            capacity=zone.classes[name_class].capacity,
            zone_index=zone_index,
        )
        name = self.name(packet, name_class, zone)
        return Asked(self.question(name, form, edns=edns), number, name, form)

    def again(self, asked: Asked, *, edns: bool = True, qtype: QType | None = None) -> bytes:
        """Return another copy of a question: other id, other case."""
        spelled = bytes(o - 32 if i % 3 and 97 <= o <= 122 else o for i, o in enumerate(asked.name))
        return self.question(spelled, asked.form, edns=edns, qtype=qtype)

    def open(self, asked: Asked, message: bytes) -> Said | None:
        """Return what an answer says, or None if it isn't an authentic one."""
        payload = self.read(message).payload
        opened = None if payload is None else self.first.seals.open_answer(asked.number, payload)
        if opened is None:
            return None
        return Said(opened, decode(opened.frames, from_client=False))

    def notice(self, asked: Asked, message: bytes) -> Notice | None:
        """Return what a proven NXDOMAIN says."""
        answer = self.read(message)
        if answer.rcode != Rcode.NXDOMAIN or answer.notice is None:
            return None
        return read_notice(answer.notice, KEY.status_key(self.sid), asked.name)

    def open_stream(
        self, number: int = 0, target: Target = TARGET, data: bytes = b""
    ) -> ServerStream:
        """Open a stream, have it connected and the client told so, and return the server's end of it."""
        self.exchange(StreamData(number, 0, target.to_wire() + data, False), name_class=4)
        stream = self.desk.streams[-1]
        stream.opened()
        self.exchange()
        return stream

    def prove(self) -> None:
        """Send back the token of a CHALLENGE."""
        said = self.exchange()
        (challenge,) = (frame for frame in said.frames if isinstance(frame, Challenge))
        self.exchange(Response(challenge.token))

    def exchange(self, *frames: Frame, **options: Any) -> Said:
        """Send frames, and return what the immediate answer says."""
        asked = self.packet(*frames, **options)
        (message,) = self.desk.ask(asked.message)
        said = self.open(asked, message)
        assert said is not None
        return said
