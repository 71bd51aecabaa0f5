"""Mailboxes: which posts a host took, as far as the journals prove it. A part of the walk over all journals.

The journal of a take has the content of the message and not its sender. But mailboxes obey three rules. A host takes
the messages of one sender in the order of their posts, it skips none, and it takes none before its post. An
*explanation* is an assignment of the taken messages to posts that obeys these rules. If all explanations contain a
post, the host took it. Then everything that happened before the post also happened before the take.

    sender 1 posts "ok"          after one "ok":   either sender may have sent it, so neither post is certain
    sender 2 posts "ok"          after two:        each sender has only one post, so the host took both

So the module counts taken messages by content. For each sender it keeps the number of posts that were certainly taken,
and the largest number that may have been. A post is certain if the possible posts of the other senders are too few for
the count. For equal messages of several senders, this finds all certain posts. For mixed contents, it may miss some.

In addition, the message just taken is the next one of *some* sender. So what happened before all of these candidate
posts, also happened before the take.

The walk may reach a take before all posts to that mailbox. If an unreached post may be the taken one, the walk stops
this host and continues with others. If all hosts have stopped, one of them was the first to take its message in the
run. The walk has reached the post of that message. If the reached posts explain only one host's take, that host was the
first. No unreached post was in its mailbox then, so the walk ignores them. Otherwise the walk continues with any host,
and assumes that the taken message may be any post, reached or not.

If several host threads of a rank post to a mailbox or take from it, the journal does not show their order. Then a taken
message may be any post with its content. A mailbox stops counting after a message without an explanation, and after
`MANY` messages without a certain post. It does not count either if a rank that died posts to it, because messages of a
dead rank may be lost. Without counts, the module explains each message separately.

A fault may inject a message from outside. It has a separate sender, whose knowledge is that of the rank at which
the machine sent it. The notice that an actor is gone is a message without a post. It follows the last op of that actor
and the beginning of the watch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from dpsim.checks.happens_before.clocks import Clock, Clocks
from dpsim.checks.happens_before.points import Signal, Waiter
from dpsim.contract.ops import ADDRESS, KIND, TAKE_MAILBOX, THREAD, WATCH_ACTOR, WATCH_MAILBOX, RawRecord, posted
from dpsim.contract.world import outside

MANY = 256
"""The largest number of messages without a certain post for which a mailbox keeps counting."""

Posts: TypeAlias = Literal["wait", "there", "any"]
"""What the walk assumes of posts that it has not reached: wait for them, none was in the box, or any may have been."""


class SenderPosts:
    """All posts of one sender to a mailbox: how many the walk has reached, and how many are certainly taken."""

    __slots__ = ("posts", "sent", "sure")

    def __init__(self) -> None:
        self.posts: list[tuple[Any, Signal]] = []
        self.sent = self.sure = 0

    def known(self, number: int, clocks: Clocks) -> Clock:
        """Returns the clock of a post. If the walk has not reached it, returns that of the last post that
        it reached.
        """
        number = min(number, self.sent - 1)
        return self.posts[number][1].clock if number >= 0 else clocks.nothing


class Explanations(NamedTuple):
    """What all explanations of the messages taken so far have in common. Lists have an entry for each sender."""

    sure: list[int]  # the number of its posts that are certainly taken
    most: list[int]  # the largest number that may be taken
    first: list[int | None]  # its first post that may be the message just taken
    left: Counter[Any]  # messages without a certain post, by content


class MailboxHistory:
    """A mailbox. `counts`: it still counts messages. `mixed`: several threads of a rank post to it or take from it."""

    def __init__(self) -> None:
        self.senders: dict[Any, SenderPosts] = {}
        self.counts = True
        self.mixed = False
        self._left: Counter[Any] = Counter()

    def take(self, message: Any, posts: Posts, clocks: Clocks) -> tuple[Clock | None, Signal | None]:
        """Handles a take. Returns the clock that it adds (or None), and a post to wait for before the next try (or
        None).
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
        """Returns whether posts that the walk has reached explain the message."""
        if self.mixed:
            return any(post.clock is not None for post in self._posts_of(message))
        return self._explain(message, list(self.senders.values()), there=True) is not None

    def _posts_of(self, message: Any) -> list[Signal]:
        return [post for one in self.senders.values() for content, post in one.posts if content == message]

    def _take_any(self, message: Any, posts: Posts, clocks: Clocks) -> tuple[Clock | None, Signal | None]:
        maybe = self._posts_of(message)
        late = next((post for post in maybe if post.clock is None), None)
        if late is not None and posts == "wait":
            return None, late
        if late is not None and posts == "any":
            return None, None
        known = [post.clock for post in maybe if post.clock is not None]
        return (clocks.common(known) if known else None), None

    def _explain(self, message: Any, senders: list[SenderPosts], there: bool) -> Explanations | None:
        """Returns the explanations after one more message, or None. `there`: only posts that the walk has reached
        count.
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


def _count(senders: list[SenderPosts], ends: list[int], sure: list[int], left: Counter[Any]) -> list[int] | None:
    """Returns the largest number of taken posts of each sender, at most `ends`; None if there are too few posts.

    Raises `sure` to the certain posts, and removes these from `left`.
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
            spare = sum(given[content] for given in gives) - count  # posts that an explanation does not need
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


def _nth(one: SenderPosts, content: Any, at: int, number: int) -> int:
    """Returns the index after `number` posts of that content."""
    while number:
        number -= one.posts[at][0] == content
        at += 1
    return at


def _find(one: SenderPosts, content: Any, at: int, end: int) -> int | None:
    return next((number for number in range(at, end) if one.posts[number][0] == content), None)


class NoticePost:
    """The notice that an actor is gone, for one watcher. It counts as posted after both the end and the start of the
    watch.
    """

    __slots__ = ("_known", "_of_sender")

    def __init__(self, of_sender: SenderPosts) -> None:
        self._of_sender = of_sender
        self._known: Clock | None = None

    def learn(self, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """Adds the clock of the actor's end, or of the watch. The second of the two calls sets the post."""
        if self._known is None:
            self._known = clock
            return
        self._of_sender.posts[0][1].set(clocks.join(self._known, clock), 0, 0, ready)
        self._of_sender.sent = 1


class MailOrder:
    """The mailboxes of a run. If one of the ranks `lossy` posts to a mailbox, that mailbox keeps no counts."""

    def __init__(self, lossy: Collection[int] = ()) -> None:
        self._lossy = lossy
        self._boxes: defaultdict[tuple[int, str], MailboxHistory] = defaultdict(MailboxHistory)
        self._watched: defaultdict[int, list[NoticePost]] = defaultdict(list)
        self._watches: dict[tuple[int, Any], NoticePost] = {}

    def add(self, rank: int, raw: RawRecord) -> None:
        """Registers a record that may be a post, before the walk."""
        sent_message = posted(raw)
        if sent_message is None:
            return
        to, name, content = sent_message
        box, sender = self._boxes[to, name], rank if raw[KIND] == "post" else outside(rank)
        box.senders.setdefault(sender, SenderPosts()).posts.append((content, Signal()))
        box.counts = box.counts and rank not in self._lossy

    def announce(self, rank: int, raw: RawRecord) -> None:
        """Registers a rank that watches an actor, before the walk."""
        box, at = self._boxes[rank, raw[WATCH_MAILBOX]], (rank, raw[ADDRESS])
        of_sender = box.senders[at] = SenderPosts()
        of_sender.posts.append((("gone", raw[WATCH_ACTOR]), Signal()))
        notice = self._watches[at] = NoticePost(of_sender)
        self._watched[raw[WATCH_ACTOR]].append(notice)

    def watches(self, rank: int, raw: RawRecord, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """Handles the beginning of a watch during the walk."""
        self._watches[rank, raw[ADDRESS]].learn(clock, clocks, ready)

    def gone(self, rank: int, clock: Clock, clocks: Clocks, ready: list[Waiter]) -> None:
        """Handles the end of an actor during the walk."""
        for notice in self._watched.pop(rank, ()):
            notice.learn(clock, clocks, ready)

    def share(self, rank: int, journal: Sequence[RawRecord]) -> None:
        """Marks the mailboxes that several threads of a rank use, before the walk."""
        threads: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
        for raw in journal:
            sent_message = posted(raw)
            if sent_message is not None:
                threads[raw[KIND], sent_message[0], sent_message[1]].add(raw[THREAD])
            elif raw[KIND] == "take":
                threads["take", rank, raw[TAKE_MAILBOX]].add(raw[THREAD])
        for (_, to, name), users in threads.items():
            if len(users) > 1:
                self._boxes[to, name].mixed = True

    def post(self, rank: int, raw: RawRecord, clock: Clock, ready: list[Waiter]) -> None:
        """Handles a record that may be a post, during the walk."""
        sent_message = posted(raw)
        if sent_message is None:
            return
        of_sender = self._boxes[sent_message[0], sent_message[1]].senders[
            rank if raw[KIND] == "post" else outside(rank)
        ]
        of_sender.posts[of_sender.sent][1].set(clock, 0, 0, ready)
        of_sender.sent += 1

    def box(self, rank: int, name: str) -> MailboxHistory:
        return self._boxes[rank, name]
