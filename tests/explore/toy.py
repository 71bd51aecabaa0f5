"""A toy machine to test strategies: a few actors with a few ops each. It makes thousands of runs a second, and uses
nothing of dpsim's simulation.

    Toy("wx rx", "wx").run(strategy)          # two actors; the first writes x and then reads it

An actor is a line of words, and each word is one op on one resource:

    rx  reads x            as  acquires a slot of s, if one is free          ?x  a draw: the op reads x, or writes it
    wx  writes x           ls  releases a slot of s                          px  reads x; if it was written an odd
                                                                                 number of times, the next is left out

`slots` is the number of slots of each resource. `mortal` lists the actors that may be killed. A kill is an op, which
removes the remaining ops of its actor. A run returns two records of itself, both made without `dpsim.explore`:

* `Seen.outcome`: what each op read. It uses no footprints.
* `Seen.order`: the labels, and all pairs of conflicting steps in their order. A release and an acquire are no such
  pair, because no op reads their order.

`every(toy)` makes all runs, one after another, without any reduction.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from dpsim.contract.events import kill_label, visit_label
from dpsim.contract.schedule import Candidate, Footprint, Strategy
from tests.answers import Answers


class Seen(NamedTuple):
    """The result of a run. `blocked`: the acquires that never found a free slot."""

    outcome: Hashable
    order: Hashable
    blocked: tuple[str, ...]


class Ready:
    """An op of an actor, as a strategy sees it."""

    def __init__(self, label: str, footprint: Footprint, causes: int, disables: bool = False) -> None:
        self.label = label
        self.disables = disables
        self.causes = causes
        self.footprint = footprint

    def touches(self) -> Footprint:
        return self.footprint


class Toy:
    """A program of some actors. Its runs are independent of one another."""

    def __init__(self, *lines: str, slots: int = 1, mortal: Sequence[int] = ()) -> None:
        self.lines = [line.split() for line in lines]
        self.slots = slots
        self.mortal = tuple(mortal)

    def __repr__(self) -> str:
        words = [repr(" ".join(line)) for line in self.lines]
        return f"Toy({', '.join(words)}, slots={self.slots}, mortal={self.mortal})"

    def run(self, strategy: Strategy) -> Seen:
        return _Run(self, strategy).seen()


class _Run:
    def __init__(self, toy: Toy, strategy: Strategy) -> None:
        self.toy = toy
        self.strategy = strategy
        self.values: dict[str, tuple[str, ...]] = {}  # who wrote a resource, in order
        self.free: dict[str, int] = {}
        self.at = [0] * len(toy.lines)
        self.ready: dict[int, Ready] = {}  # in the order in which they became ready
        self.views: list[Hashable] = []
        self.log: list[tuple[str, Footprint]] = []
        self.draws: list[str] = []
        for actor in range(len(toy.lines)):
            self.advance(actor, 0)
        for actor in toy.mortal:
            self.ready[-1 - actor] = Ready(kill_label(actor), ((("life", actor), "w"),), 0, disables=True)

    def advance(self, actor: int, causes: int) -> None:
        """Make the actor's next op ready."""
        line, at = self.toy.lines[actor], self.at[actor]
        if at == len(line):
            return
        how, resource = line[at][0], line[at][1:]
        label = visit_label(actor, line[at], at)
        mode = {"p": "r"}.get(how, how)
        if how == "?":
            index = self.strategy.draw(f"rank {actor} draw[{at}]", ("reads", "writes"))
            self.draws.append(f"{label} {index}")
            mode = "rw"[index]
        footprint: Footprint = ((resource, mode),)
        if actor in self.toy.mortal:
            footprint = (*footprint, (("life", actor), "r"))
        self.ready[actor] = Ready(label, footprint, causes)

    def open(self, op: Ready) -> bool:
        resource, mode = op.footprint[0]
        return mode != "a" or self.free.get(resource, self.toy.slots) > 0

    def seen(self) -> Seen:
        while able := {actor: op for actor, op in self.ready.items() if self.open(op)}:
            closed = [op for op in self.ready.values() if not self.open(op)]
            if closed:
                self.strategy.blocked(closed)
            candidates: list[Candidate] = list(able.values())
            op = candidates[self.strategy.pick(candidates)]
            actor = next(one for one, other in able.items() if other is op)
            del self.ready[actor]
            self.log.append((op.label, op.touches()))
            if actor < 0:
                self.ready.pop(-1 - actor, None)
            else:
                self.fire(actor, *op.touches()[0])
                self.advance(actor, op.causes)
        blocked = list(self.ready.values())
        if blocked:
            self.strategy.blocked(blocked)
        left = tuple(sorted(op.label for op in blocked))
        return Seen((*sorted(self.views, key=repr), *sorted(self.values.items()), left), self.order(), left)

    def fire(self, actor: int, resource: str, mode: str) -> None:
        word = self.toy.lines[actor][self.at[actor]]
        before = self.values.get(resource, ())
        step = 1
        if mode in "al":
            self.free[resource] = self.free.get(resource, self.toy.slots) + (1 if mode == "l" else -1)
            if mode == "a":
                self.values[resource] = (*before, f"{actor}")
            self.views.append((actor, self.at[actor], mode))
        else:
            self.views.append((actor, self.at[actor], mode, before))
            if mode == "w":
                self.values[resource] = (*before, f"{actor}.{self.at[actor]}")
            if word[0] == "p" and len(before) % 2:
                step = 2
        self.at[actor] = min(self.at[actor] + step, len(self.toy.lines[actor]))

    def order(self) -> Hashable:
        pairs: list[Hashable] = [label for label, _ in self.log]
        for late, (label, footprint) in enumerate(self.log):
            for before, other in self.log[:late]:
                for resource, mode in footprint:
                    for same, was in other:
                        if resource == same and {mode, was} not in ({"r"}, {"l"}, {"a", "l"}):
                            pairs.append((before, label, resource))
        return frozenset([*pairs, *self.draws])


class Answering(Strategy):
    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return self.answers.next(len(candidates))

    def draw(self, label: str, options: Sequence[str]) -> int:
        return self.answers.next(len(options))


def every(toy: Toy) -> Iterator[Seen]:
    """Yields the result of every schedule."""
    answers: Answers | None = Answers()
    while answers is not None:
        yield toy.run(Answering(answers))
        answers = answers.following()


WORDS = ("rx", "wx", "ry", "wy", "wx", "as", "ls", "?x", "px", "rz", "at", "lt")


def at_random(seed: int) -> Toy:
    """Returns a random toy of two or three actors with one to four ops each. Some toys have two slots, and some an
    actor that may be killed.
    """
    rng = random.Random(f"toy {seed}")
    actors = rng.randint(2, 3)
    most = 4 if actors == 2 else 3
    words = rng.sample(WORDS, rng.randint(2, len(WORDS)))
    lines = []
    for _ in range(actors):
        line = [rng.choice(words) for _ in range(rng.randint(1, most))]
        lines.append(" ".join(line))
    mortal = [rng.randrange(actors)] if rng.random() < 0.2 else []
    return Toy(*lines, slots=rng.choice((1, 1, 1, 2)), mortal=mortal)
