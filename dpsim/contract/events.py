"""Events: what happens in a schedule, as a value. The label of an op is the text of an event.

    ScheduleEvent.read("rank 3 delivers box[2]")            # ScheduleEvent("rank 3", DELIVERS, "box", 2)
    str(ScheduleEvent("rank 3", GOES_ON, number=4))         # "rank 3 goes on #4"

An event has an actor and a verb. The actor is a host thread ("rank 3", or "rank 3/NAME" for another thread than the
main one), a communicator, or `KILL`. Then follow the parts that the event has:

    rank 3 engine.poll[2]             a call, the third one at this site; its verb is empty
    rank 3 delivers box[2]            an op that follows from this call
    rank 3 asks at (look 2) key[0]    the second look of a wait
    rank 3 goes on #4                 a repeated act, counted from 0
    dp #4, dp_cpu 0>1 #2              a collective or a transfer, when all its members have arrived
    rank 3 gives dp #4                in either, the read of rank 3's memory
    rank 3 dp #4                      rank 3's part, if it ends before all have arrived
    kill rank 3
    rank 3 dp #4: eager               a draw, with the option that was drawn
    rank 3 has kernels that raise     the strategy knows this when the run begins: the first entry

A writer of labels uses the words and functions of this module, and a reader asks `ScheduleEvent.read`. So a verb has
another text if its line in this file changes, and `OLD` lets dpsim read the labels of older versions.

A search compares millions of labels. So machine and strategies pass them as texts, and the functions below the class
write and read them without a `ScheduleEvent`. A test compares both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

CALLS = ""
DELIVERS, DELIVERS_FROM_OUTSIDE, LETS_IN = "delivers", "delivers from outside", "lets in"
REACHES, STARTS, GOES_ON, GETS_THROUGH, BREAKS = "reaches", "starts", "goes on", "gets through", "breaks"
SEES_THE_END, WAITS_IN_VAIN, WAITS_FOR_ALL = "sees the end of", "waits in vain at", "waits for all at"
ISSUES, IS_LATE, IS_LATE_FOR, LEAVES = "issues", "is late", "is late for", "leaves"
GIVES, TAKES_FROM, IS_SERVED_BY, MAKES, JOINS = "gives", "takes from", "is served by", "makes", "joins"
IS_OVER, BREAKS_OFF, LEAVES_BY, ENDS_A_GROUP = "is over in", "breaks off", "leaves by", "ends a group after"
LISTENS, SETS, ASKS, CHANGES, CLOSES, GIVES_BACK = "listens at", "sets", "asks at", "changes", "closes", "gives back"
IS_NOTIFIED, EVENT, PASSES, SHOWS = "is notified by", "event", "passes", "shows"
FAILS_AT, LOSES_ITS_DEVICE, HEARS_OF_ITS_DEVICE = "fails at", "loses its device", "hears of its device"
FAILING = "has kernels that raise"

VERBS = frozenset(value for name, value in vars().copy().items() if name.isupper() and isinstance(value, str))
"""All verbs."""

KILL = "kill"
"""The actor of a rank's death."""

EAGER, RENDEZVOUS = "eager", "rendezvous"
"""The answers to `Strategy.waits`: the op does not wait, or waits."""
IN_TIME, EARLY = "in time", "early"
YES, NO = "yes", "no"
OPTIONS = EAGER, RENDEZVOUS, IN_TIME, EARLY, YES, NO
"""The options of all draws. No event without a draw ends with ": " and one of them."""
IN_THE_END = "in the end, "
"""Begins the draw of a death that happens when nothing else can: YES or NO."""

OLD = {"comes to": REACHES, "is told by": IS_NOTIFIED}
"""The verbs that older versions of dpsim wrote, each with the present verb."""

_WORDS = "|".join(map(re.escape, sorted({*VERBS - {CALLS}, *OLD}, key=len, reverse=True)))
_OF_RANK = re.compile(
    rf"(rank \d+(?:/\S+)?)(?: ({_WORDS})(?: \(look (\d+)\))?(?= |$))?(?: (?:(\S+)\[(\d+)\]|(.+?))??(?: ?#(\d+))?)?"
)
_OF_ALL = re.compile(r"(.+?)(?: (\d+>\d+))? #(\d+)")
_KILL = re.compile(rf"({KILL}) (rank \d+)")


class ScheduleEvent(NamedTuple):
    """An event. `site`: a site, a communicator, or another word; empty without one. `ordinal`: of a call at the site.
    `number`: of an op of a communicator, or of a repeated act. `look`: how often a wait has looked, 1 for all else.
    `option`: what was drawn, empty if the event is no draw.
    """

    actor: str
    verb: str = CALLS
    site: str = ""
    ordinal: int | None = None
    number: int | None = None
    look: int = 1
    option: str = ""

    def __str__(self) -> str:
        verb = self.verb if self.look == 1 else f"{self.verb} (look {self.look})"
        site = self.site if self.ordinal is None else f"{self.site}[{self.ordinal}]"
        number = "" if self.number is None else f"#{self.number}"
        text = " ".join(part for part in (self.actor, verb, site, number) if part)
        return f"{IN_THE_END * (self.option in (YES, NO))}{text}: {self.option}" if self.option else text

    @property
    def rank(self) -> int | None:
        """The rank that acts, or that dies; None for all members of a communicator."""
        word, _, number = (self.site if self.actor == KILL else self.actor.partition("/")[0]).partition(" ")
        return int(number) if word == "rank" else None

    @property
    def thread(self) -> str:
        """The host thread that acts."""
        return self.actor.partition("/")[2] or "main"

    @staticmethod
    @lru_cache(10_000)
    def read(label: str) -> ScheduleEvent | None:
        """Returns the event of a label, with present verbs; None for a text that is none.

        >>> ScheduleEvent.read("rank 1/ubatch.1 comes to start[2]")
        ScheduleEvent(actor='rank 1/ubatch.1', verb='reaches', site='start', ordinal=2, number=None, look=1, option='')
        >>> ScheduleEvent.read("dp_cpu 0>1 #2: eager")
        ScheduleEvent(actor='dp_cpu', verb='', site='0>1', ordinal=None, number=2, look=1, option='eager')
        """
        text, _, option = label.rpartition(": ")
        if option not in OPTIONS:
            text, option = label, ""
        elif option in (YES, NO):
            text = text.removeprefix(IN_THE_END)
        if killed := _KILL.fullmatch(text):
            return ScheduleEvent(killed[1], site=killed[2], option=option)
        if own := _OF_RANK.fullmatch(text):
            verb = OLD.get(own[2], own[2]) or CALLS
            known = bool(verb) or own[5] or own[7]
            return _event(own[1], verb, own[4] or own[6], own[5], own[7], own[3], option) if known else None
        found = _OF_ALL.fullmatch(text)
        return _event(found[1], CALLS, found[2], None, found[3], None, option) if found else None


def _event(
    actor: str, verb: str, site: str | None, ordinal: str | None, number: str | None, look: str | None, option: str
) -> ScheduleEvent:
    at, count = (int(one) if one else None for one in (ordinal, number))
    return ScheduleEvent(actor, verb, site or "", at, count, int(look or 1), option)


# ---- labels, written without an event


def host_word(rank: int, thread: str = "main") -> str:
    """Returns the name of a host thread in labels.

    >>> host_word(3), host_word(3, "ubatch.1"), visit_label(host_word(3, "ubatch.1"), "poll", 0)
    ('3', '3/ubatch.1', 'rank 3/ubatch.1 poll[0]')
    """
    return str(rank) if thread == "main" else f"{rank}/{thread}"


def visit_label(rank: int | str, site: str, ordinal: int, verb: str = CALLS) -> str:
    """Returns the label of a rank's call at a site, or, with a verb, of an op that follows from this call.

    >>> visit_label(3, "engine.poll", 2), visit_label(3, "box", 2, DELIVERS)
    ('rank 3 engine.poll[2]', 'rank 3 delivers box[2]')
    """
    return f"rank {rank} {verb} {site}[{ordinal}]" if verb else f"rank {rank} {site}[{ordinal}]"


def own_label(rank: int | str, what: str) -> str:
    """Returns the label of an op that a rank does once.

    >>> own_label(3, STARTS)
    'rank 3 starts'
    """
    return f"rank {rank} {what}"


def numbered_label(what: str, number: int, rank: int | str | None = None) -> str:
    """Returns a label with a number, for an op of a communicator or of a rank.

    >>> numbered_label("dp", 4), numbered_label(GOES_ON, 4, rank=3)
    ('dp #4', 'rank 3 goes on #4')
    """
    return f"{what} #{number}" if rank is None else f"rank {rank} {what} #{number}"


def transfer_label(communicator: str, sender: int, receiver: int) -> str:
    """Returns sender and receiver, the label of an op with a number (`numbered_label`).

    >>> numbered_label(transfer_label("dp_cpu", 0, 1), 2)
    'dp_cpu 0>1 #2'
    """
    return f"{communicator} {sender}>{receiver}"


def kill_label(rank: int) -> str:
    """Returns the label of a rank's death."""
    return f"{KILL} rank {rank}"


def draw_word(label: str, option: str) -> str:
    """Returns a draw and its result, as an entry of a schedule.

    >>> draw_word("dp_cpu 0>1 #2", EAGER)
    'dp_cpu 0>1 #2: eager'
    """
    return f"{label}: {option}"


def failing_word(rank: int) -> str:
    """Returns the entry of a schedule for a rank whose kernels raise.

    >>> failing_word(3)
    'rank 3 has kernels that raise'
    """
    return own_label(rank, FAILING)


# ---- labels, read without an event


def actor(label: str) -> str:
    """Returns the actor of an op, by its label: "rank 3", or the communicator.

    >>> actor("rank 3 engine.poll[2]"), actor("dp #4")
    ('rank 3', 'dp')
    """
    first, _, rest = label.partition(" ")
    return f"{first} {rest.partition(' ')[0]}" if first == "rank" else first


def failing_rank(word: str) -> int | None:
    """Returns the rank of a `failing_word`; None for other entries.

    >>> failing_rank("rank 3 has kernels that raise"), failing_rank("rank 3 poll[0]")
    (3, None)
    """
    return int(word.split(" ")[1]) if word.endswith(f" {FAILING}") else None


def is_delivery(label: str) -> bool:
    """Returns whether an op delivers a message to a mailbox.

    >>> is_delivery("rank 3 delivers box[2]"), is_delivery("rank 3 box[2]")
    (True, False)
    """
    return label.split(" ")[2:3] == [DELIVERS]


def continuing_actor(label: str) -> str:
    """Returns the independent actor of this op. It is `actor`, except for messages, which do not wait for their sender.

    >>> [continuing_actor(label) for label in ("rank 3 engine.poll[2]", "rank 3 delivers wake[2]", "dp #4")]
    ['rank 3', 'rank 3 delivers wake', 'dp']
    """
    return site(label) if is_delivery(label) else actor(label)


def site(label: str) -> str:
    """Returns a label without its ordinal, the same for all calls at one site.

    >>> site("rank 3 engine.poll[2]"), site("dp #4")
    ('rank 3 engine.poll', 'dp')
    """
    return actor(label) if " #" in label else label.partition("[")[0]


def act(label: str) -> str:
    """Returns a label without its rank, the same for all ranks.

    >>> act("rank 3 engine.poll"), act("rank 3"), act("dp")
    ('engine.poll', 'rank 3', 'dp')
    """
    rank, _, rest = label.partition(" ")
    return (rest.partition(" ")[2] if rank == "rank" else "") or label
