"""Small random scripts of hosts from a seed, which mix all that hosts do.

    random_script(7)        # threads, groups made in a run, any source, stores, time-outs, deaths and aborts

A script has two or three ranks. The generator adds a few acts, each of one rank or of several that communicate. Each
act is about one topic: a communicator, a mailbox or a store. Then it may move all instructions of a rank about one
topic into a thread, add aborts, and choose a rank that may die. So the calls of a rank on one communicator keep their
order, because all members have to make the same calls.

Receives from any source have their own communicator, because a rank may not mix them with receives from a named one.
"""

from __future__ import annotations

import random

from tests.interpreter.language import Instruction, Script, Shape, tidy

OPS = ("all_reduce", "barrier", "broadcast", "broadcast", "reduce", "gather", "scatter", "all_gather", "send", "send")

ACTS = ("call", "call", "any", "any", "group", "group", "mail", "store", "store")

MAKE, MADE = ("start", "m", "g", "make", ()), ("await", "m")

MOST = {2: 5, 3: 3}
"""The most instructions of a rank before the aborts and threads, by the number of ranks."""

Topics = list[tuple[str, Instruction]]
"""The instructions of a rank, each with its topic."""


def random_script(seed: int) -> Script:
    return Drawn(random.Random(seed)).script()


class Drawn:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.size = rng.choice((2, 2, 2, 3))
        self.lists: list[Topics] = [[] for _ in range(self.size)]
        self.times = iter(rng.sample(range(5, 400), 40))
        self.hosts = {"h": tuple(range(self.size)), "a": tuple(range(self.size))}
        self.timed = rng.random() < 0.4
        self.handles = 0

    def script(self) -> Script:
        rng = self.rng
        for act in rng.sample(ACTS, rng.choice((1, 2, 2, 3) if self.size == 2 else (1, 1, 2))):
            getattr(self, act)()
        threaded = rng.randrange(self.size) if rng.random() < 0.45 else None
        for said in self.lists:
            del said[MOST[self.size] - (threaded is not None) :]
        if rng.random() < 0.65:
            self.abort()
        for said in self.lists:
            if self.timed and rng.random() < 0.5:
                said.insert(rng.randint(0, len(said)), ("", ("sleep", next(self.times))))
        ranks = [self.threaded(said, rank == threaded) for rank, said in enumerate(self.lists)]
        mortal = (rng.randrange(self.size),) if rng.random() < 0.3 else ()
        loses = bool(mortal) and rng.random() < 0.6
        for rank in mortal:
            if rng.random() < 0.7:
                (self.last_words if loses else self.watch)(ranks, rank)
        return tidy(Script(tuple(map(tuple, ranks)), tuple(self.hosts.items()), mortal=mortal, loses_mail=loses))

    def add(self, rank: int, topic: str, *instructions: Instruction) -> None:
        self.lists[rank] += [(topic, how) for how in instructions]

    def maybe(self, instruction: Instruction) -> Instruction:
        return ("odd", instruction) if self.rng.random() < 0.3 else instruction

    # ---- acts

    def call(self, kind: str = "h") -> None:
        members = self.hosts[kind]
        op, root = self.rng.choice(OPS), self.rng.choice(members)
        if op == "send":
            sender, receiver = self.rng.sample(members, 2)
            self.start(sender, kind, "send", (1, receiver))
            self.start(receiver, kind, "recv", (1, sender))
            return
        shapes: dict[str, Shape] = {
            "all_reduce": (1,),
            "barrier": (),
            "all_gather": self.rng.choice(((1, 1, 1), (0, 1, 1)))[: len(members)],
        }
        for member in members:
            self.start(member, kind, op, shapes.get(op, (1, root)))

    def start(self, rank: int, kind: str, op: str, shape: Shape) -> None:
        """Adds a call, after which the rank looks at it, waits for it, or lets it run."""
        self.handles += 1
        handle, rng = f"w{self.handles}", self.rng
        self.add(rank, kind, ("start", handle, kind, op, shape))
        if rng.random() < 0.15:
            self.mail(rank)
        if self.timed and rng.random() < 0.3:
            self.add(rank, kind, ("within", "none", next(self.times)))
        if self.timed and rng.random() < 0.4:
            self.add(rank, kind, ("until", handle, next(self.times)))
        elif rng.random() < 0.4:
            self.add(rank, kind, ("asks", handle))
        if rng.random() < 0.75:
            self.add(rank, kind, ("await", handle))

    def any(self) -> None:
        receiver, *others = self.rng.sample(range(self.size), self.size)
        senders = [self.rng.choice(others) for _ in range(self.rng.choice((1, 2)))]
        for sender in senders:
            self.start(sender, "a", "send", (1, receiver))
        for _ in range(len(senders) + (self.rng.random() < 0.15)):
            self.start(receiver, "a", "any", (1,))

    def group(self) -> None:
        if "g" in self.hosts:
            return
        self.hosts["g"] = tuple(sorted(self.rng.sample(range(self.size), 2)))
        for member in self.hosts["g"]:
            self.add(member, "g", MAKE, MADE)
        self.call("g")

    def mail(self, sender: int | None = None) -> None:
        sender = self.rng.randrange(self.size) if sender is None else sender
        receiver = self.rng.choice([rank for rank in range(self.size) if rank != sender])
        for box in self.rng.choice(("p", "p", "pq")):
            takes: list[Instruction] = [("poll", box), ("get", box), ("idle", box)]
            if self.timed:
                takes += [("within", box, next(self.times))] * 3
            self.add(sender, "p", self.maybe(("post", receiver, box)))
            self.add(receiver, "p", self.rng.choice(takes))

    def store(self) -> None:
        """Adds a store behind a port: one rank listens, and all of them use it."""
        rng, listener = self.rng, self.rng.randrange(self.size)
        for rank in range(self.size):
            limit = next(self.times) if self.timed and rng.random() < 0.4 else None
            self.add(rank, "s", ("open", "s", 1) if rank == listener else ("enter", "s", 1, limit))
            for _ in range(rng.choice((1, 1, 2))):
                uses: list[Instruction] = [("put", "s", "k"), ("add", "s", "k", 1), ("fetch", "s", "k", limit)]
                uses += [("drop", "s", "k"), ("swap", "s", "k", rng.choice(("", 1)), 7), ("fetch", "s", "k", 0)]
                self.add(rank, "s", self.maybe(rng.choice(uses)))
            if rng.random() < 0.2:
                self.add(rank, "s", ("close", "s"))

    # ---- what is added to the acts

    def abort(self) -> None:
        """Adds an abort of one communicator by one or two members. A group exists from its await on."""
        used = sorted({topic for said in self.lists for topic, how in said if how[0] == "start"})
        if not used:
            return
        kind = self.rng.choice(used)
        members = [rank for rank in self.hosts[kind] if kind != "g" or ("g", MADE) in self.lists[rank]]
        for rank in self.rng.sample(members, min(len(members), self.rng.choice((1, 1, 2)))):
            said = self.lists[rank]
            first = 1 + said.index(("g", MADE)) if kind == "g" else 0
            calls = [place + 1 for place, (topic, how) in enumerate(said) if topic == kind and how[0] == "start"]
            places = [place for place in (*calls, len(said), self.rng.randint(first, len(said))) if place >= first]
            topic = kind if kind == "g" else self.rng.choice((kind, "p"))
            said.insert(self.rng.choice(places), (topic, self.maybe(("abort", kind))))

    def threaded(self, said: Topics, wanted: bool) -> list[Instruction]:
        """Moves the instructions about one topic into a thread, if it is wanted."""
        topics = sorted({topic for topic, _ in said if topic})
        if not wanted or not topics:
            return [how for _, how in said]
        topic = self.rng.choice(topics)
        thread, rest = [how for one, how in said if one == topic], [how for one, how in said if one != topic]
        rest.insert(self.rng.randint(0, len(rest)), ("spawn", "t"))
        if self.rng.random() < 0.2:
            thread.append(("set", "f"))
            rest.insert(self.rng.randint(rest.index(("spawn", "t")) + 1, len(rest)), ("flag", "f"))
        if self.rng.random() < 0.4:
            rest.append(("ended", "t"))
        return [*rest, ("thread", "t"), *thread]

    def watch(self, ranks: list[list[Instruction]], mortal: int) -> None:
        said = ranks[self.rng.choice([one for one in range(self.size) if one != mortal])]
        said.insert(_end(said), ("get", "p"))
        said.insert(self.rng.randint(0, _end(said) - 1), ("watch", mortal, "p"))

    def last_words(self, ranks: list[list[Instruction]], mortal: int) -> None:
        """Adds two messages of the mortal rank, as the last calls of its main thread. Each of them may be lost."""
        peer = self.rng.choice([one for one in range(self.size) if one != mortal])
        for box in "pq":
            ranks[mortal].insert(_end(ranks[mortal]), ("post", peer, box))
        for box in self.rng.sample("pq", 2):
            ranks[peer].insert(_end(ranks[peer]), (self.rng.choice(("get", "idle")), box))


def _end(said: list[Instruction]) -> int:
    """Returns the place behind the last instruction of the main thread."""
    return next((place for place, how in enumerate(said) if how[0] == "thread"), len(said))
