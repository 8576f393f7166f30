"""What the partial names of one path's long names are to be answered (SPEC 4.5), and how the client finds out (SPEC 12.8).

Unbound asks the same partial name twice after NXDOMAIN, and once after REFUSED. It also is the one resolver that asks a
second question of its own for a type other than A or DS, even for a name of one label. So its round trips give it away.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from transports.soar.core.client.rtt import RoundTrips
from transports.soar.core.dns.forms import Form
from transports.soar.core.dns.zone import PartialAnswer

if TYPE_CHECKING:
    from transports.soar.core.client.questions import Question

__all__ = ("Partials", "Timed")

_NXDOMAIN: Final = PartialAnswer.NXDOMAIN  # an enumeration is slow to ask for its members
_NODATA: Final = PartialAnswer.NODATA
_REFUSED: Final = PartialAnswer.REFUSED
_NEVER: Final = float("inf")

_ENOUGH: Final = 8  # answers of each form, by which resolvers are told apart
_MOST_PAIRS: Final = 16
_SPREAD: Final = 8  # pairs that begin within one round trip
_WAIT: Final = 1.25  # round trips for the answers to enough of them
_STALE_S: Final = 30.0  # of an earlier upload, or another network
_LEAST_EXTRA_S: Final = 0.005  # what is less than this may be anything
_LEAST_PART: Final = 0.5  # of what several labels cost; what TXT costs must lie between these
_MOST_PART: Final = 2.0
_FAILING: Final = 20  # questions for each failure that means nothing
_MOST_FAILURES: Final = 8.0  # beyond those
_REST_S: Final = 60.0  # after a resolver was not seen to be Unbound, or long names were lost
_LONG_REST_S: Final = 600.0  # after refusals seemed to do harm
_TOGETHER_S: Final = 5.0  # within which failures of one label show that it was not they
_TRIALS: Final = 3  # that may end so


class Timed(RoundTrips):
    """The lane of one question that is asked to see how long it takes.

    Args:
        form: in which it is asked.
        now: when.
        like: what its round trip is likely to be.

    Attributes:
        form: see above.
        asked_at: seconds of the awake clock.
        took: seconds until its answer came; `None` if none did. What the server calls held counts: it holds a question of
            one label in TXT from when it heard the one for an address before it.
    """

    __slots__ = ("asked_at", "form", "took")

    def __init__(self, form: Form, now: float, *, like: RoundTrips) -> None:
        super().__init__()
        self.form = form
        self.took: float | None = None
        self.asked_at = now
        super().observe(like.srtt, now)

    def observe(self, rtt: float, now: float) -> None:
        """Take the answer."""
        super().observe(rtt, now)
        if self.took is None:
            self.took = now - self.asked_at


class Partials:
    """How the long names of one path are flagged; times are seconds of the awake clock.

    Attributes:
        answer: what their partial names are to be answered.
        next_at: when, on the way of an upload, `pair` has something to ask; infinity for never.
    """

    __slots__ = (
        "_failed_at",
        "_failing",
        "_failing_at",
        "_fell_at",
        "_is_guilty",
        "_pairs",
        "_since",
        "_trials",
        "answer",
        "next_at",
    )

    def __init__(self) -> None:
        self.answer = _NXDOMAIN
        self.next_at = 0.0
        self._trials = _TRIALS
        self._pairs: list[tuple[Timed, Timed]] = []  # in TXT, and as usual
        self._since = 0.0  # when partial names began to be refused
        self._failing = 0.0
        self._failing_at = 0  # the question that failed last
        self._failed_at = -_NEVER  # when one of one label did
        self._fell_at = -_NEVER  # when too many of the others had failed
        self._is_guilty = (
            False  # whether they did so alone, so that it was for what partial names were answered
        )

    def pair(self, *, short: RoundTrips, long: RoundTrips, now: float) -> tuple[Timed, ...]:
        """Return what to ask now, with nothing in it: one question of one label on each lane; or nothing.

        Args:
            short: the path's round trips in DS, with one label.
            long: those with several.
            now: when; not before `next_at`.
        """
        if not (short.is_known and long.is_known):
            return ()
        if self._is_guilty:
            self.next_at = _NEVER
            return ()
        pairs = self._pairs
        if pairs and now - pairs[0][0].asked_at > _STALE_S:
            pairs.clear()
        txt = [one.took for one, _ in pairs if one.took is not None]
        usual = [one.took for _, one in pairs if one.took is not None]
        if min(len(txt), len(usual)) >= _ENOUGH:
            pairs.clear()
            if _costs_a_round_trip(txt, usual, short=short, long=long):
                self._have_refused(now)
            else:
                self._rest(now + _REST_S)
            return ()
        if len(pairs) >= _MOST_PAIRS:
            pairs.clear()
            self._rest(now + _REST_S)
            return ()
        pair = Timed(Form.TXT, now, like=long), Timed(Form.DS, now, like=short)
        pairs.append(pair)
        wait = short.srtt / _SPREAD if len(pairs) < _ENOUGH else long.srtt * _WAIT
        self.next_at = now + wait
        return pair

    def failed(self, question: Question, now: float) -> None:
        """Take a failure that the resolver answered, and that is no limit of its own.

        Long names of which more than one in twenty fail are not to have their partial names refused any more.
        """
        if question.name_class == 1:
            self._failed_at = now
            if now - self._fell_at <= _TOGETHER_S:
                self._is_guilty = False
        elif self.answer is _REFUSED and question.sent_at >= self._since:
            sequence = question.sequence
            passed = max(0, sequence - self._failing_at) / _FAILING
            self._failing = max(0.0, self._failing - passed) + 1.0
            self._failing_at = sequence
            if self._failing > _MOST_FAILURES:
                self.answer = _NXDOMAIN
                self._fell_at = now
                self._is_guilty = now - self._failed_at > _TOGETHER_S
                self._rest(now + _LONG_REST_S)

    def shrank(self, now: float) -> None:
        """Have no partial name refused for now: names had to become shorter, since long ones are lost."""
        if self.answer is _REFUSED:
            self.answer = _NXDOMAIN
            self._rest(now + _REST_S)

    def was_taken_for_missing(self) -> None:
        """Have partial names answered NODATA for good: the resolver took NXDOMAIN for what it says."""
        self.answer = _NODATA
        self.next_at = _NEVER

    def doubt(self) -> None:
        """Let the resolver be proven anew: the path was silent for long, and may lead to another one."""
        self._pairs.clear()
        if self.answer is _REFUSED:
            self.answer = _NXDOMAIN
            self.next_at = 0.0

    def _have_refused(self, now: float) -> None:
        self.answer = _REFUSED
        self.next_at = _NEVER
        self._since = now
        self._failing = 0.0

    def _rest(self, until: float) -> None:
        self._trials -= 1
        self.next_at = until if self._trials else _NEVER


def _costs_a_round_trip(
    txt: list[float], usual: list[float], *, short: RoundTrips, long: RoundTrips
) -> bool:
    """Return whether each question in TXT took about as much longer as names of several labels do.

    Chance may make the least of eight long, or half of the others, but not by as much; unless what is to be seen is so
    small that anything may hide it.

    Args:
        txt: how long questions in TXT took.
        usual: how long others took that were asked beside them.
        short: the path's round trips with one label, as usual.
        long: those with several.
    """
    extra = long.least - min(short.least, *usual)
    gap = min(txt) - median(usual)
    return extra >= _LEAST_EXTRA_S and _LEAST_PART * extra < gap < _MOST_PART * extra
