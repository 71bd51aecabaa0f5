"""Messages while a run is walked: which posts they may have been that a host took.

Journals say what was taken, not from whom. What is known: messages of one sender are taken in the order in which they
were posted, none is left out, and none is taken before it was posted. An *explanation* of the messages taken so far is
a choice of posts that keeps to that. A post that is in every explanation was taken, so what was known there is known to
the taker; all else it does not know.

    sender 1 posts "ok"          after one "ok":   it may be of either sender: neither is known to be taken
    sender 2 posts "ok"          after two:        one sender has one post only, so the other was taken as well

So taken messages are counted by content. For each sender two numbers are kept up: how many of its posts were taken for
sure, and how many at most. At most: its posts in order, as long as messages of their content are not accounted for.
For sure: those without which all that the other senders may have given would not make up the count. Where equal
messages come from several senders this finds all that every explanation has. Where contents are mixed it may count as
possible what clashes with another content, and then less is known than could be.

Besides, the message just taken is the next one of *some* sender: what the first such post of each that it may have come
from knew is known, whichever it was.

A post that the walk has not come to may depend on this very take, so it may or may not have been there: the host waits.
When nothing else can move, `walk` decides: a host is told that nothing else was there if it alone could have gone on.

Where several host threads of a rank post to a box or take from it, neither is what they post taken in the order of the
journal, nor does one know what another took. There nothing is counted either, and a message may be of any post that has
its content.

A message from outside is one of a sender of its own, which knows what the rank knew at whose op it was sent.

That an actor is gone is a message which nobody posts. In the box it is one of a sender of its own, with one post: known
there is what that actor knew at its end, and what the watcher knew when it began to watch.

Of a rank that died messages may be lost, so nothing is counted in a box that it posts to. Nor where a message
came that no post explains, or too many to look at (`MANY`). There each message is taken for itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from dpsim.checks.happens_before.clocks import Clock, Clocks
from dpsim.checks.happens_before.points import Signal, Waiter
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    TAKE_MAILBOX,
    THREAD,
    WATCH_ACTOR,
    WATCH_MAILBOX,
    RawRecord,
    posted,
)
from dpsim.contract.world import outside

MANY = 256
"""Messages that are not accounted for, up to which they are counted."""

Posts: TypeAlias = Literal["wait", "there", "any"]
"""What to make of posts that the walk has not come to: wait for them if they matter, say that none was there, or that
any may have been.
"""


class Letters:
    """All that one rank ever posts to a mailbox, how much of it it has posted, and how much is surely taken."""

    __slots__ = ("posts", "sent", "sure")

    def __init__(self) -> None:
        self.posts: list[tuple[Any, Signal]] = []
        self.sent = self.sure = 0

    def known(self, number: int, clocks: Clocks) -> Clock:
        """What was known at a post; if the walk has not come to it, at the last one before it that it has come to."""
        number = min(number, self.sent - 1)
        return self.posts[number][1].clock if number >= 0 else clocks.nothing


class Explanations(NamedTuple):
    """What the explanations of all messages taken so far have in common. Lists have an entry for each sender."""

    sure: list[int]  # so many of its posts are taken
    most: list[int]  # and no more than so many
    first: list[int | None]  # the first that may be the last message
    left: Counter[Any]  # messages by content that are not accounted for


class MailboxHistory:
    """A mailbox. `counts`: whether messages are counted. `mixed`: several threads of a rank post or take."""

    def __init__(self) -> None:
        self.senders: dict[Any, Letters] = {}
        self.counts = True
        self.mixed = False
        self._left: Counter[Any] = Counter()

    def take(self, message: Any, posts: Posts, clocks: Clocks) -> tuple[Clock | None, Signal | None]:
        """The host takes a message: what is known of it (None: nothing), and a post to wait for before this is asked
        again.
        """
        if self.mixed:
            return self._take_any(message, posts, clocks)
        senders = list(self.senders.values())
        if len(senders) == 1 and self.counts:  # the usual case: nothing is open
            [one] = senders
            content, signal = one.posts[one.sure] if one.sure < len(one.posts) else (None, None)
            if signal is not None and content == message:
                if signal.clock is None and posts == "wait":
                    return None, signal
                one.sure += 1
                return one.known(one.sure - 1, clocks), None
        found = self._explain(message, senders, there=False)
        late = [one for one, end in zip(senders, found.most, strict=True) if one.sent < end] if found else []
        if late and posts != "any":
            now = self._explain(message, senders, there=True)
            if posts == "wait" and (not now or not found or (now.sure, now.first) != (found.sure, found.first)):
                return None, late[0].posts[late[0].sent][1]
            found = now
        if found is None:
            self.counts = False
            return None, None
        self.counts = self.counts and sum(found.left.values()) < MANY
        self._left = found.left
        maybe = zip(senders, found.first, strict=True)
        known = clocks.common([one.known(number, clocks) for one, number in maybe if number is not None])
        for one, sure in zip(senders, found.sure, strict=True):
            if sure > one.sure:
                one.sure = sure
                known = clocks.join(known, one.known(sure - 1, clocks))
        return known, None

    def explains(self, message: Any) -> bool:
        """Whether posts that the walk has come to explain the message."""
        if self.mixed:
            return any(post.clock is not None for post in self._posts_of(message))
        return self._explain(message, list(self.senders.values()), there=True) is not None

    def _posts_of(self, message: Any) -> list[Signal]:
        return [post for one in self.senders.values() for content, post in one.posts if content == message]

    def _take_any(self, message: Any, posts: Posts, clocks: Clocks) -> tuple[Clock | None, Signal | None]:
        """What is known of a message that may be of any post with its content."""
        maybe = self._posts_of(message)
        late = next((post for post in maybe if post.clock is None), None)
        if late is not None and posts == "wait":
            return None, late
        if late is not None and posts == "any":
            return None, None
        known = [post.clock for post in maybe if post.clock is not None]
        return (clocks.common(known) if known else None), None

    def _explain(self, message: Any, senders: list[Letters], there: bool) -> Explanations | None:
        """After one more message; None if no post explains it. `there`: by what the walk has come to."""
        ends = [one.sent if there else len(one.posts) for one in senders]
        begin, sure, left = [one.sure for one in senders], [one.sure for one in senders], self._left
        if self.counts:
            left = left.copy()
            left[message] += 1
            counted = _count(senders, ends, sure, left)
            if counted is None:
                return None
            ends = counted
        first = [_find(one, message, at, end) for one, at, end in zip(senders, begin, ends, strict=True)]
        may = [index for index, number in enumerate(first) if number is not None]
        if not may:
            return None
        if not self.counts:
            ends = [one.sure if number is None else number + 1 for one, number in zip(senders, first, strict=True)]
            if len(may) == 1:  # all up to its first such post
                sure[may[0]] = ends[may[0]]
        return Explanations(sure, ends, first, left)


def _count(senders: list[Letters], ends: list[int], sure: list[int], left: Counter[Any]) -> list[int] | None:
    """How many posts of each sender are taken at most, of those up to `ends`; None if all are too few. Raises `sure` to
    those that are taken for sure, and takes these off `left`.
    """
    while True:
        most, gives = [], []
        for one, at, end in zip(senders, sure, ends, strict=True):
            given: Counter[Any] = Counter()
            while at < end and given[one.posts[at][0]] < left[one.posts[at][0]]:
                given[one.posts[at][0]] += 1
                at += 1
            most.append(at)
            gives.append(given)
        before = list(sure)
        for content, count in left.items():
            spare = sum(given[content] for given in gives) - count  # posts that some explanation leaves out
            if spare < 0:
                return None
            for index, given in enumerate(gives):
                if spare < given[content]:
                    sure[index] = max(sure[index], _nth(senders[index], content, before[index], given[content] - spare))
        if sure == before:
            return most
        for one, at, end in zip(senders, before, sure, strict=True):
            for content, _ in one.posts[at:end]:
                left[content] -= 1
                if not left[content]:
                    del left[content]


def _nth(one: Letters, content: Any, at: int, number: int) -> int:
    """Behind so many posts of that content."""
    while number:
        number -= one.posts[at][0] == content
        at += 1
    return at


def _find(one: Letters, content: Any, at: int, end: int) -> int | None:
    """The first post of that content."""
    return next((number for number in range(at, end) if one.posts[number][0] == content), None)


class NoticePost:
    """That an actor is gone, for one who watches it: a post that is there when both have come so far."""

    __slots__ = ("_known", "_letters")

    def __init__(self, letters: Letters) -> None:
        self._letters = letters
        self._known: Clock | None = None

    def learn(self, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """What is known at the end of the one, or at the watch of the other; the second of the two posts it."""
        if self._known is None:
            self._known = clock
            return
        self._letters.posts[0][1].set(clocks.join(self._known, clock), 0, 0, ready)
        self._letters.sent = 1


class MailOrder:
    """The mailboxes of a run. Those that `lossy` ranks post to are not counted."""

    def __init__(self, lossy: Collection[int] = ()) -> None:
        self._lossy = lossy
        self._boxes: defaultdict[tuple[int, str], MailboxHistory] = defaultdict(MailboxHistory)
        self._watched: defaultdict[int, list[NoticePost]] = defaultdict(list)
        self._watches: dict[tuple[int, Any], NoticePost] = {}

    def add(self, rank: int, raw: RawRecord) -> None:
        """Before the walk: a record of the run that may tell of a post."""
        letter = posted(raw)
        if letter is None:
            return
        to, name, content = letter
        box, sender = self._boxes[to, name], rank if raw[KIND] == "post" else outside(rank)
        box.senders.setdefault(sender, Letters()).posts.append((content, Signal()))
        box.counts = box.counts and rank not in self._lossy

    def announce(self, rank: int, raw: RawRecord) -> None:
        """Before the walk: a rank that watches an actor."""
        box, at = self._boxes[rank, raw[WATCH_MAILBOX]], (rank, raw[ADDRESS])
        letters = box.senders[at] = Letters()
        letters.posts.append((("gone", raw[WATCH_ACTOR]), Signal()))
        notice = self._watches[at] = NoticePost(letters)
        self._watched[raw[WATCH_ACTOR]].append(notice)

    def watches(self, rank: int, raw: RawRecord, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """The walk has come to the beginning of a watch."""
        self._watches[rank, raw[ADDRESS]].learn(clock, clocks, ready)

    def gone(self, rank: int, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """The walk has come to the end of an actor."""
        for notice in self._watched.pop(rank, ()):
            notice.learn(clock, clocks, ready)

    def share(self, rank: int, journal: Sequence[RawRecord]) -> None:
        """Before the walk: a rank that has several threads, which may use one box."""
        threads: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
        for raw in journal:
            letter = posted(raw)
            if letter is not None:
                threads[raw[KIND], letter[0], letter[1]].add(raw[THREAD])
            elif raw[KIND] == "take":
                threads["take", rank, raw[TAKE_MAILBOX]].add(raw[THREAD])
        for (_, to, name), users in threads.items():
            if len(users) > 1:
                self._boxes[to, name].mixed = True

    def post(self, rank: int, raw: RawRecord, clock: Clock, ready: list[Waiter]) -> None:
        """The walk has come to a record that may tell of a post."""
        letter = posted(raw)
        if letter is None:
            return
        letters = self._boxes[letter[0], letter[1]].senders[rank if raw[KIND] == "post" else outside(rank)]
        letters.posts[letters.sent][1].set(clock, 0, 0, ready)
        letters.sent += 1

    def box(self, rank: int, name: str) -> MailboxHistory:
        return self._boxes[rank, name]
