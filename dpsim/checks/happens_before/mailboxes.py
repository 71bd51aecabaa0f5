"""Messages during the walk: which posts a host may have taken.

A journal has the content of a taken message and not its sender. Three rules hold. A host takes messages of one sender
in the order of their posts. It leaves none out, and takes none before its post. An *explanation* of the messages taken
so far is a choice of posts that follows these rules. If a post is in every explanation, the host took it and knows what
the sender knew at the post. The host knows nothing else.

    sender 1 posts "ok"          after one "ok":   either sender may have sent it, so neither post is certain
    sender 2 posts "ok"          after two:        each sender has only one post, so the host took both

So this module counts taken messages by content. For each sender it keeps two numbers: how many of its posts were
certainly taken, and how many at most. The maximum follows its posts in order, while messages of their content have no
explanation yet. A post is certain if all possible posts of the other senders are too few for the count. For equal
messages of several senders, this finds all posts that every explanation has. For mixed contents, it may count a post as
possible that contradicts another content. Then it knows less than it could.

In addition, the message just taken is the next one of *some* sender. Take the first such post of each possible sender.
What all of these posts knew is known.

The *walk* (`walk.py`) is the pass over all journals. It may reach the record of a take before it has reached all posts
to that mailbox. Such a post may come before the take, or depend on it. If this matters, the walk stops this host at its
take and continues with other hosts. When all hosts have stopped, the walk decides. If the reached posts explain the
take of only one host, that mailbox had no other posts. Otherwise it may have had any of them.

If several host threads of a rank post to a box, hosts do not take these in the order of the journal. If several take
from it, one thread does not know what another took. Then this module does not count: a message may be any post of its
content.

A message from outside has a separate sender, which knows what the rank knew at the op where the machine sent it. A
notice that an actor is gone is a message without a post, from a separate sender. It carries what the actor knew at its
end, and what the watcher knew at the beginning of its watch.

Messages of a dead rank may be lost, so this module does not count in a box to which the rank posts. After a message
without an explanation, or too many messages (`MANY`), it does not count either. It explains each separately.
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
"""The largest number of messages without an explanation up to which a box counts."""

Posts: TypeAlias = Literal["wait", "there", "any"]
"""Posts that the walk has not reached: wait for them if they matter, none was in the box, or any may have been."""


class Letters:
    """All posts of one rank to a mailbox: how many the walk has reached, and how many are certainly taken."""

    __slots__ = ("posts", "sent", "sure")

    def __init__(self) -> None:
        self.posts: list[tuple[Any, Signal]] = []
        self.sent = self.sure = 0

    def known(self, number: int, clocks: Clocks) -> Clock:
        """The knowledge at a post. If the walk has not reached it, the knowledge at the last post before it that the
        walk reached.
        """
        number = min(number, self.sent - 1)
        return self.posts[number][1].clock if number >= 0 else clocks.nothing


class Explanations(NamedTuple):
    """The common part of all explanations of the messages taken so far. Lists have an entry for each sender."""

    sure: list[int]  # the number of its posts that are certainly taken
    most: list[int]  # the largest number that may be taken
    first: list[int | None]  # its first post that may be the last message
    left: Counter[Any]  # messages without an explanation, by content


class MailboxHistory:
    """A mailbox. `counts`: whether it counts messages. `mixed`: several threads of a rank post or take."""

    def __init__(self) -> None:
        self.senders: dict[Any, Letters] = {}
        self.counts = True
        self.mixed = False
        self._left: Counter[Any] = Counter()

    def take(self, message: Any, posts: Posts, clocks: Clocks) -> tuple[Clock | None, Signal | None]:
        """The host takes a message. Returns the knowledge of it (None: nothing), and a post to wait for before the next
        call.
        """
        if self.mixed:
            return self._take_any(message, posts, clocks)
        senders = list(self.senders.values())
        if len(senders) == 1 and self.counts:  # the usual case: there is one explanation
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
        """Whether posts that the walk has reached explain the message."""
        if self.mixed:
            return any(post.clock is not None for post in self._posts_of(message))
        return self._explain(message, list(self.senders.values()), there=True) is not None

    def _posts_of(self, message: Any) -> list[Signal]:
        return [post for one in self.senders.values() for content, post in one.posts if content == message]

    def _take_any(self, message: Any, posts: Posts, clocks: Clocks) -> tuple[Clock | None, Signal | None]:
        """The knowledge of a message that may be any post with its content."""
        maybe = self._posts_of(message)
        late = next((post for post in maybe if post.clock is None), None)
        if late is not None and posts == "wait":
            return None, late
        if late is not None and posts == "any":
            return None, None
        known = [post.clock for post in maybe if post.clock is not None]
        return (clocks.common(known) if known else None), None

    def _explain(self, message: Any, senders: list[Letters], there: bool) -> Explanations | None:
        """The explanations after one more message; None if no post explains it. `there`: use only posts that the walk
        has reached.
        """
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
    """The largest number of taken posts of each sender, among those up to `ends`; None if all are too few. Raises
    `sure` to the certain posts, and removes them from `left`.
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
    """The place behind `number` posts of that content."""
    while number:
        number -= one.posts[at][0] == content
        at += 1
    return at


def _find(one: Letters, content: Any, at: int, end: int) -> int | None:
    """The first post of that content."""
    return next((number for number in range(at, end) if one.posts[number][0] == content), None)


class NoticePost:
    """The notice that an actor is gone, for one watcher. The post exists when the walk has reached both the end and the
    watch.
    """

    __slots__ = ("_known", "_letters")

    def __init__(self, letters: Letters) -> None:
        self._letters = letters
        self._known: Clock | None = None

    def learn(self, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """The knowledge at the end of the actor, or at the watch; the second of the two calls sets the post."""
        if self._known is None:
            self._known = clock
            return
        self._letters.posts[0][1].set(clocks.join(self._known, clock), 0, 0, ready)
        self._letters.sent = 1


class MailOrder:
    """The mailboxes of a run. A box to which `lossy` ranks post does not count."""

    def __init__(self, lossy: Collection[int] = ()) -> None:
        self._lossy = lossy
        self._boxes: defaultdict[tuple[int, str], MailboxHistory] = defaultdict(MailboxHistory)
        self._watched: defaultdict[int, list[NoticePost]] = defaultdict(list)
        self._watches: dict[tuple[int, Any], NoticePost] = {}

    def add(self, rank: int, raw: RawRecord) -> None:
        """Before the walk: a record of the run that may be a post."""
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
        """The walk has reached the beginning of a watch."""
        self._watches[rank, raw[ADDRESS]].learn(clock, clocks, ready)

    def gone(self, rank: int, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """The walk has reached the end of an actor."""
        for notice in self._watched.pop(rank, ()):
            notice.learn(clock, clocks, ready)

    def share(self, rank: int, journal: Sequence[RawRecord]) -> None:
        """Before the walk: a rank with several threads, which may use one box."""
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
        """The walk has reached a record that may be a post."""
        letter = posted(raw)
        if letter is None:
            return
        letters = self._boxes[letter[0], letter[1]].senders[rank if raw[KIND] == "post" else outside(rank)]
        letters.posts[letters.sent][1].set(clock, 0, 0, ready)
        letters.sent += 1

    def box(self, rank: int, name: str) -> MailboxHistory:
        return self._boxes[rank, name]
