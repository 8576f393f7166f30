"""One way to the server: a resolver, reached over one carrier, for one zone (SPEC 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from transports.soar.core.client.congestion import Window
from transports.soar.core.client.forms import FormChoice
from transports.soar.core.client.partials import Partials
from transports.soar.core.client.questions import FRAGMENT, IN_FLIGHT, Question
from transports.soar.core.client.recovery import PARK_S, Recovery
from transports.soar.core.client.rtt import RoundTrips
from transports.soar.core.client.silence import Silence
from transports.soar.core.client.sizes import Sizes
from transports.soar.core.dns.forms import QTYPES, Form
from transports.soar.core.dns.messages import Rcode
from transports.soar.core.dns.questions import build_question
from transports.soar.core.dns.zone import PartialAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports.soar.core.client.dice import Dice
    from transports.soar.core.client.partials import Timed
    from transports.soar.core.dns.answers import Answer
    from transports.soar.core.dns.zone import Zone
    from transports.soar.core.instants import Instant

__all__ = ("MOST_PATHS", "Outgoing", "Path")

MOST_PATHS: Final = 16
"""A path has a number of four bits (SPEC 8.2)."""

# At most one new try at once for each so many questions (SPEC 12.4), so that nobody can make a flood of them.
_QUESTIONS_FOR_A_TRY: Final = 20
_MOST_TRIES: Final = 4
_CHEAP: Final = 1.2  # round trips of short names that a long one may take
_MOST_PENDING: Final = 32_768  # half of the ids
_SMALLEST_LIMIT: Final = 512  # octets of an answer in size class 0
_new: Final = tuple.__new__  # what a named tuple's class does, without its own function in between
# Beside a path that bears so many times as many questions, and answers in so small a part of the time, one is left out:
# what it carries would be waited for longer than it is worth.
_SPARE_RATE: Final = 16.0
_SPARE_TIME: Final = 1 / 3
_FREE: Final = tuple(each.free for each in PartialAnswer)  # of a flag
_HELD_S: Final = 0.03  # that a question was held; after longer its resolver may have asked again
_POLLS_ABOVE: Final = 2  # polls that the floor asks for go out beside a full window


class Outgoing(NamedTuple):
    """A message to send.

    Attributes:
        path: on which.
        message: a DNS message.
        fresh_socket: whether to use a new source port from here on (SPEC 12.7).
    """

    path: int
    message: bytes
    fresh_socket: bool


class Path:
    """What is known of one path, and its questions.

    Args:
        index: its number, 0 to 15.
        zone: whose names are asked for.
        datagram: whether messages go by UDP.

    Attributes:
        forms, partials, sizes, window, recovery, silence: each about its own matter.
        answered_at: when the last authentic answer came, awake clock; minus infinity if none did.
        is_known: whether one ever came.
        is_doubted: whether others answer and this one does not: until it does, it gets a poll now and then, and nothing
            that would have to be sent again.
        is_spare: whether another is so much better that this one gets a question now and then, which shows if that changes.
    """

    __slots__ = (
        "_lanes",
        "_out",
        "_tails",
        "_tries",
        "answered_at",
        "datagram",
        "forms",
        "index",
        "is_doubted",
        "is_known",
        "is_spare",
        "partials",
        "recovery",
        "silence",
        "sizes",
        "window",
        "zone",
    )

    def __init__(self, index: int, zone: Zone, *, datagram: bool, out: list[Outgoing]) -> None:
        self.index = index
        self.zone = zone
        self.datagram = datagram
        self.forms = FormChoice()
        self.partials = Partials()
        self.sizes = Sizes(tuple(zone.classes), datagram=datagram)
        self.window = Window()
        self.recovery = Recovery()
        self.silence = Silence()
        self.answered_at = float("-inf")
        self.is_known = False
        self.is_doubted = False
        self.is_spare = False
        self._out = out
        self._lanes = tuple(RoundTrips() for _ in range(2 * len(Form)))
        self._tries = float(_MOST_TRIES)

    def lane(self, form: Form, *, several: bool) -> RoundTrips:
        """Return the round trips of questions in `form` whose names have one label, or several."""
        return self._lanes[form << 1 | several]

    @property
    def polls(self) -> RoundTrips:
        """The round trips of questions with one label, in the path's form."""
        return self._lanes[self.forms.current << 1]

    @property
    def patience(self) -> float:
        """The probe timeout by which silence is measured, in seconds."""
        return self.polls.probe_timeout + PARK_S

    @property
    def has_cheap_long_names(self) -> bool:
        """Whether names of several labels are known to take no longer than others."""
        long = self._lanes[self.forms.current << 1 | 1]
        return long.is_known and long.srtt < _CHEAP * self.polls.srtt

    def expected(self) -> float:
        """Return in how many seconds an answer can be hoped for, as far as paths are compared by it."""
        last = self.is_doubted or self.silence.is_dead
        return self.polls.srtt + self.recovery.probes * self.patience + last * 60.0

    def is_slow(self, now: float) -> bool:
        """Whether it has been asked in vain for so long that it gets two questions a second at most (SPEC 12.5)."""
        return self.silence.is_slow(now, self.patience)

    def compare(self, others: Iterable[Path]) -> None:
        """Find out whether one of the `others`, of the same zone, makes this one a spare (SPEC 12.1)."""
        srtt = self.polls.srtt
        many, time = _SPARE_RATE * self.window.size, _SPARE_TIME * srtt
        # Rates without a division: where a clock has coarse steps, a round trip may have taken none of them.
        self.is_spare = self.is_known and any(
            other.is_known
            and not (other.is_doubted or other.recovery.probes)
            and other.polls.srtt < time
            and other.window.size * srtt > many * other.polls.srtt
            for other in others
        )

    def room(self, now: float, *, poll: bool = False) -> int:
        """Return how many questions may be sent now; a `poll` that must be out may pass a full window."""
        silence, patience = self.silence, self.patience
        if silence.next_question(now, patience) > now:
            return 0
        if len(self.recovery.pending) >= _MOST_PENDING:
            return 0
        if self.is_doubted:
            return int(poll and self.window.in_flight == 0 and silence.is_rested(now))
        if self.is_spare:
            return int(self.window.in_flight == 0 and silence.is_rested(now))
        free = self.window.room(now, self.polls.srtt)
        if free > 1 and silence.is_slow(now, patience):
            free = 1  # losses have made room, which is not what it lacks
        if poll and free <= 0:
            above = self.window.in_flight - self.window.size
            return int(above < _POLLS_ABOVE or silence.is_slow(now, patience))
        return free

    def room_at(self, now: float) -> float | None:
        """Return when there is room without an answer having come; `None` if only an answer or a loss makes any."""
        if self.is_doubted:
            return None
        if (at := self.silence.next_question(now, self.patience)) > now:
            return at
        if self.is_spare:
            return None if self.window.in_flight else self.silence.rested_at
        if self.window.in_flight < int(self.window.size):
            return self.window.next_burst(now, self.polls.srtt)
        return None

    def pair(self, now: float) -> tuple[Timed, ...]:
        """Return the lanes of what is to be asked now with one label, and nothing in it, to know the resolver (SPEC 12.8)."""
        if self.forms.current is not Form.DS or not self.forms.is_proven:
            return ()
        short, long = self._lanes[Form.DS << 1], self._lanes[Form.DS << 1 | 1]
        return self.partials.pair(short=short, long=long, now=now)

    def ask(
        self,
        packet: bytes,
        *,
        owner: object,
        number: int,
        form: Form,
        name_class: int,
        size_class: int,
        may_park: bool,
        shard: tuple[int, int],
        partials: PartialAnswer,
        dice: Dice,
        now: Instant,
        lane: Timed | None = None,
    ) -> Question:
        """Return the question that carries `packet`; its message is queued.

        Args:
            packet: it fills a name of `name_class`.
            owner: who is told of its fate.
            number: the packet's, or `FRAGMENT`.
            form: in which to answer.
            name_class: of the name.
            size_class: what the packet allows, or 0.
            may_park: what it allows.
            shard: the server's number of shards, and the one that the session belongs to (SPEC 4.4).
            partials: which answer its partial names are to get (SPEC 4.5).
            dice: for id, selector and flag.
            now: when.
            lane: the round trips that its answer tells of, if not those of its form and kind of name.
        """
        recovery, forms, at = self.recovery, self.forms, now.awake
        pending = recovery.pending
        chance = dice.quad()
        id_ = chance & 0xFFFF
        while id_ in pending:
            id_ = dice.word()
        name = self.zone.encode(
            packet,
            number=name_class,
            selector=chance >> 16 & 31 & -shard[0] | shard[1],
            flag=chance >> 20 & _FREE[partials] | partials,
            fill=chance >> 25,
        )
        message = build_question(id_, name, QTYPES[form], edns=forms.edns)
        question = Question(
            id=id_,
            asked=message[12 : 16 + len(name)],
            owner=owner,
            number=number,
            form=form,
            name_class=name_class,
            size_class=size_class,
            may_park=may_park,
            sent_at=at,
            sent_elapsed=now.elapsed,
            lane=self._lanes[form << 1 | (name_class > 1)] if lane is None else lane,
        )
        question.had_edns = forms.edns
        is_fresh = not self.silence.is_trusted and self._is_fresh(at)
        self._out.append(_new(Outgoing, (self.index, message, is_fresh)))
        self.silence.sent(at)
        recovery.sent(question)
        self.window.sent(at)
        if self._tries < _MOST_TRIES:
            self._tries += 1 / _QUESTIONS_FOR_A_TRY
        if number != FRAGMENT:
            sizes = self.sizes
            if name_class > sizes.up.current:
                sizes.up.began(name_class)
            if size_class > sizes.down.current:
                sizes.down.began(size_class)
        return question

    def answered(
        self, question: Question, *, octets: int, held: float, is_productive: bool, now: float
    ) -> None:
        """Take an authentic answer, the first to `question`.

        Args:
            question: in flight, or lost not long ago.
            octets: of the whole message.
            held: seconds that the server held the question.
            is_productive: whether it brought stream octets, or a backlog.
            now: when.
        """
        lane = question.lane
        rtt = now - question.sent_at - held
        if rtt < 0.0:  # noqa: PLR1730 - max() takes several times as long
            rtt = 0.0
        lane.observe(rtt, now)
        window = self.window
        is_packet = question.number != FRAGMENT
        if question.fate is IN_FLIGHT:
            window.left()
        elif is_packet and not question.is_local:
            window.was_late()
        least = lane.least
        if held < _HELD_S:
            window.answered(rtt - least, least, lane.srtt, now)
        else:
            window.answered_late(lane.srtt, now)
        self.recovery.answered(question, is_productive=is_productive)
        self.silence.answered(now, window.in_flight)
        self.answered_at = now
        self.is_known = True
        self.is_doubted = False
        forms = self.forms
        if not forms.is_proven:
            forms.worked(question.form)
        if question.had_edns:
            forms.edns = True  # whoever said that it is a format error was not the resolver
        if is_packet:
            sizes, size_class, sent_at = self.sizes, question.size_class, question.sent_at
            sizes.up.passed(question.name_class, sent_at)
            if size_class and octets <= _SMALLEST_LIMIT:
                sizes.down.told_nothing(size_class)
            else:
                sizes.down.passed(size_class, sent_at)

    def detect(self, now: float) -> list[Question]:
        """Return the questions that are lost by now; their places are free."""
        lost = self.recovery.detect(now)
        # Where nothing is answered there is no place to be freed.
        is_limited = self.datagram and not self.recovery.probes and self.window.is_limited(now)
        for question in lost:
            self._gave_up(question, now)
            if is_limited and not question.is_local and question.number != FRAGMENT:
                self._repeat(question)
        return lost

    def give_up(self, now: float) -> list[Question]:
        """Return all questions in flight, taken as lost: the carrier failed, or the path is dead."""
        lost = self.recovery.in_flight()
        for question in lost:
            self.recovery.lose(question, now)
            self.window.left()
        return lost

    def hint(self, question: Question, answer: Answer, now: float) -> bool:
        """Take an unproven answer to `question`; return whether its frames may be sent anew at once (SPEC 12.4).

        It changes nothing but how fast, in what form and how large this path is asked.
        """
        if question.is_hinted:
            return False
        question.is_hinted = True
        lane = question.lane
        is_quick = lane.is_known and now - question.sent_at < lane.least
        is_failure = answer.rcode in (Rcode.REFUSED, Rcode.SERVFAIL)
        if is_failure and not (is_quick and answer.rcode == Rcode.REFUSED):
            self.partials.failed(question, now)
        if question.fate is not IN_FLIGHT:
            return False
        if is_quick and is_failure:
            # A limit of the resolver's own. The place comes back when the question is lost: one round trip later.
            question.is_local = True
            self.window.refused(lane.srtt, now)
            return False
        if not _lacked_others(question, answer):
            self.window.failed(lane.srtt, now)
        self._adapt(question, answer, now)
        if question.number == FRAGMENT:
            return False  # the flight has tries of its own
        if self._tries < 1:
            return False
        self._tries -= 1
        self.recovery.lose(question, now)
        self._gave_up(question, now)
        return True

    def _adapt(self, question: Question, answer: Answer, now: float) -> None:
        """Ask in another way from now on, if that may be what was wrong."""
        if answer.truncated:
            self.sizes.down.too_big(question.size_class, now)
        elif answer.rcode == Rcode.FORMERR and not self.forms.is_proven:
            self.forms.edns = False
        elif answer.rcode == Rcode.NXDOMAIN and question.name_class > 1:
            self.partials.was_taken_for_missing()

    def _repeat(self, question: Question) -> None:
        """Send a lost question once more as it was, to free the place that its resolver keeps for it (SPEC 12.4)."""
        name, qtype = question.asked[:-4], QTYPES[question.form]
        message = build_question(question.id, name, qtype, edns=question.had_edns)
        self._out.append(Outgoing(self.index, message, fresh_socket=False))

    def _gave_up(self, question: Question, now: float) -> None:
        self.window.left()
        if question.number == FRAGMENT:
            return  # it may have lacked the others; its loss says nothing of this path
        if not question.is_local:
            self.window.lost(question.lane.srtt, now)
        self.forms.failed(question.form)
        up = self.sizes.up
        name_class = up.current
        up.missed(question.name_class, question.sent_at, now)
        if up.current < name_class:
            self.partials.shrank(now)
        self.sizes.down.missed(question.size_class, question.sent_at, now)

    def _is_fresh(self, now: float) -> bool:
        is_fresh = self.datagram and self.silence.wants_fresh_socket(now, self.patience)
        if is_fresh:
            self.partials.doubt()
        return is_fresh


def _lacked_others(question: Question, answer: Answer) -> bool:
    """Whether NODATA says that a fragment waited in vain for another (SPEC 7.4): that one's loss, and no failure."""
    return question.number == FRAGMENT and answer.rcode == Rcode.NOERROR and not answer.truncated
