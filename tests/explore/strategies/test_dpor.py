"""Tests that DPOR runs one schedule of each class of a small program, and claims a proof only at the end.

DPOR is a search; schedules of one class differ only in the order of steps that commute. The programs are toys with so
few schedules that the tests can enumerate all of them and compare. For each rule of DPOR there is a faulty variant
without the rule. The tests contain a program of a few ops for which this variant claims a wrong proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest

from dpsim.contract.schedule import Candidate, Footprint, Strategy, conflict
from dpsim.explore import Budget, Exploration, Problem, explore
from dpsim.explore.order import Order, Step
from dpsim.explore.strategies import dpor
from dpsim.explore.strategies.base import Search
from dpsim.explore.strategies.dpor import Diverged, Dpor
from dpsim.explore.strategies.pct import Pct
from dpsim.explore.strategies.places import ChoicePoint
from dpsim.explore.strategies.portfolio import Portfolio
from dpsim.explore.strategies.pos import Pos
from dpsim.explore.strategies.walks import RandomWalk
from tests.explore.toy import Seen, Toy, at_random, every
from tests.properties import nightly_but

MOST = 1_500  # the tests enumerate at most this number of schedules of a program


def explored(toy: Toy, search: Search, schedules: int = 10_000) -> tuple[Exploration, list[Seen]]:
    """Returns the result of the exploration, and what each whole run showed."""
    seen: list[Seen] = []

    def once(strategy: Strategy) -> list[Problem]:
        seen.append(toy.run(strategy))
        return []

    return explore(once, search, Budget(schedules)), seen


def complaints(toy: Toy) -> list[str]:
    """Returns what DPOR does wrong with this program. It returns nothing for a program with too many schedules to
    enumerate.
    """
    every_run = list(islice(every(toy), MOST + 1))
    if len(every_run) > MOST:
        return []
    result, seen = explored(toy, Dpor())
    wrong = []
    if result.verdict != "proven":
        wrong.append(f"the verdict is {result.verdict}")
    if {one.outcome for one in seen} != {one.outcome for one in every_run}:
        wrong.append("an outcome was missed")
    if {one.order for one in seen} != {one.order for one in every_run}:
        wrong.append("a class was missed")
    if not all(result.fresh):
        wrong.append("a class was seen twice")
    if result.runs != len(seen) + result.redundant:
        wrong.append("runs that were cut off are not counted")
    return wrong


@pytest.mark.parametrize("first", [*range(0, 150, 50), *nightly_but(range(150, 2_000, 50), lambda first: first < 800)])
def test_every_class_of_random_programs_once(first: int) -> None:
    for seed in range(first, first + 50):
        toy = at_random(seed)
        assert not complaints(toy), f"{seed}: {toy}"


RULES: dict[str, tuple[Toy, int, int]] = {
    # the program, and the number of its schedules and of its classes
    "acquires that stay blocked race": (Toy("as", "as"), 2, 2),
    "and in runs that are cut off": (Toy("ry as", "px wx", "px as wx"), 88, 5),
    "and those that a kill takes away": (Toy("as", "as", mortal=(1,)), 3, 2),
    "a release and an acquire race": (Toy("as ls as ls", "as ls", "as ls", slots=2), 216, 12),
    "a release does not hide that acquires compete": (Toy("as ls", "as ls"), 2, 2),
    "a kill comes last": (Toy("rx wx", mortal=(0,)), 3, 3),
    "what conflicts wakes up": (Toy("wx", "wx", "rx"), 6, 6),
    "what a step needs is tried in its stead": (Toy("wx", "ry wx"), 3, 2),
    "every option of a draw is tried": (Toy("?x", "rx"), 4, 3),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_world_of_a_rule_has_its_count_of_schedules_and_classes(rule: str) -> None:
    toy, schedules, classes = RULES[rule]
    runs = list(every(toy))
    assert (len(runs), len({one.order for one in runs})) == (schedules, classes)
    assert not complaints(toy)


# ---- faulty variants of DPOR, each without one rule


def deaf(self: Dpor, candidates: Sequence[Candidate]) -> None:
    """A variant of `Dpor.blocked` that ignores acquires that find no free slot."""


def deaf_until_the_end(self: Dpor, candidates: Sequence[Candidate]) -> None:
    """A variant of `Dpor.blocked` that only stores the blocked acquires. `learned_at_the_end` passes them on when the
    run ends.

    The machine reports blocked acquires at each step; it promises no more than those at the end.
    """
    vars(self)["told"] = candidates


def learned_at_the_end(self: Dpor, whole: bool) -> None:
    if whole and vars(self).get("told"):
        happened = {step.label for step in self.order.steps}
        BLOCKED(self, [one for one in vars(self)["told"] if one.label not in happened])
    END(self, whole)


BLOCKED, END, BEFORE = Dpor.blocked, Dpor.end, Order.before


def races(competing: bool, released: bool) -> Callable[[Order, Footprint, int], tuple[int, list[Step]]]:
    """Returns a variant of `Order.before`. A release and an acquire race only if `released` is true. Without
    `competing`, a release between two acquires hides that these race.
    """

    def before(self: Order, footprint: Footprint, causes: int) -> tuple[int, list[Step]]:
        steps: list[tuple[Step, str]] = []
        for resource, mode in footprint:
            for other, was in self._touched.get(resource, ()):
                if not causes & other.bit and conflict(was, mode) and (released or {was, mode} != {"a", "l"}):
                    steps.append((other, was + mode))
        found = [
            one
            for one, how in steps
            if not any(
                other is not one and other.causes & one.bit and not (competing and how == "aa" and way == "la")
                for other, way in steps
            )
        ]
        return BEFORE(self, footprint, causes)[0], found

    return before


def kill_first(candidates: Sequence[Candidate]) -> int:
    kills = [index for index, one in enumerate(candidates) if one.disables]
    return (kills or [0])[0]


def itself_alone(self: Dpor, label: str, races: list[Step], causes: int, end: int, footprint: Footprint) -> None:
    for other in races:
        place: ChoicePoint = self.places[other.at]
        if label in place.options and label not in place.todo:
            place.todo.append(label)


def first_option(self: Dpor, label: str, options: Sequence[str]) -> int:
    at = self._at
    if at == len(self.places):
        self.places.append(ChoicePoint(list(options), self._asleep(), options[0]))
    self._at = at + 1
    return 0


TWINS: dict[str, list[tuple[Any, str, Any]]] = {
    "acquires that stay blocked race": [(Dpor, "blocked", deaf)],
    "and in runs that are cut off": [(Dpor, "blocked", deaf_until_the_end), (Dpor, "end", learned_at_the_end)],
    "and those that a kill takes away": [(Dpor, "blocked", deaf_until_the_end), (Dpor, "end", learned_at_the_end)],
    "a release and an acquire race": [(Order, "before", races(competing=True, released=False))],
    "a release does not hide that acquires compete": [
        (Order, "before", races(competing=False, released=True)),
        (Dpor, "blocked", deaf_until_the_end),  # if told at each step, DPOR does not need this rule
        (Dpor, "end", learned_at_the_end),
    ],
    "a kill comes last": [(dpor, "ordinary", kill_first)],
    "what conflicts wakes up": [(dpor, "overlap", lambda one, other: False)],
    "what a step needs is tried in its stead": [(Dpor, "_turn_round", itself_alone)],
    "every option of a draw is tried": [(Dpor, "drawn", first_option)],
}


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_the_proof_is_false(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, other in TWINS[rule]:
        monkeypatch.setattr(owner, name, other)
    found = complaints(RULES[rule][0])
    assert "an outcome was missed" in found
    assert not [one for one in found if one.startswith("the verdict")], "and it says that it is proven"


# ---- a search in parts, and runs that are cut off


@pytest.mark.parametrize(
    "toy", [Toy("wx rx", "wx rx", "?x"), Toy("as wx ls", "as rx ls", "wx"), at_random(58)], ids=repr
)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_units_of_dpor_together_have_its_classes(toy: Toy, size: int) -> None:
    """A search stops after a few runs, and another DPOR resumes its state. All parts together make the same runs as one
    search.
    """
    result, whole = explored(toy, Dpor())
    pieces, runs, state = list[Seen](), 0, None
    for _ in range(1000):
        search = Dpor()
        if state is not None:
            search.resume(state)
        part, seen = explored(toy, search, size)
        pieces += seen
        runs += part.runs
        state = search.state()
        if search.exhausted:
            break
        assert part.verdict == "sampled"
    assert (pieces, runs) == (whole, result.runs)


def test_no_proof_before_the_end() -> None:
    """DPOR finds a bug that only the schedule of the very last class shows. With a budget of one schedule less, it
    claims no proof.
    """
    toy = Toy("wx rx", "wx rx", "wx")
    result, seen = explored(toy, Dpor())
    last = seen[-1].order

    def once(strategy: Strategy) -> list[Problem]:
        return [Problem("LAST", "last")] * (toy.run(strategy).order == last)

    found = explore(once, Dpor(), Budget(10_000))
    assert (found.verdict, found.runs, found.failures["last"].first) == ("violated", result.runs, result.runs)
    less = explore(once, Dpor(), Budget(result.runs - 1))
    assert (less.verdict, less.runs) == ("sampled", result.runs - 1)


@pytest.mark.parametrize("kind", [RandomWalk, Pct, Pos, Portfolio])
def test_other_strategies_find_no_class_that_dpor_misses(kind: type[Search]) -> None:
    for seed in range(40):
        toy = at_random(seed)
        classes = {one.order for one in explored(toy, Dpor())[1]}
        result, seen = explored(toy, kind(), 60)
        assert {one.order for one in seen} <= classes
        if result.verdict == "proven":
            assert kind is Portfolio
            assert {one.order for one in seen} == classes


@pytest.mark.parametrize("kind", [Dpor, Portfolio])
def test_cut_off_is_bounded_and_never_proven(kind: type[Search]) -> None:
    """A run has eight steps, but the search cuts runs off after six. So the verdict is "bounded" and not "proven"."""
    toy = Toy("rx rx rx rx", "wx ry ry ry")
    assert explored(toy, kind(longest=8))[0].verdict == "proven"
    result, seen = explored(toy, kind(longest=6))
    assert result.verdict == "bounded"
    assert not seen, "no run finished"
    assert result.summary() == (
        f"bounded: no schedule was judged: {result.runs} of {result.runs} were cut off after 6 choices and not judged; "
        f"{result.runs} schedules (0 classes)"
    )


def test_cut_off_beside_others() -> None:
    """If only some schedules are too long, DPOR judges the other ones. The claim states how many runs it cut off."""
    toy = Toy("wx", "px ry ry ry")
    result, seen = explored(toy, Dpor(longest=4))
    assert (result.verdict, result.runs, result.cut, len(seen)) == ("bounded", 2, 1, 1)
    assert result.claim() == "holds in every schedule that ends; 1 of 2 were cut off after 4 choices and not judged"


@pytest.mark.parametrize("name", ["fifo", "random"])
def test_cut_off_without_a_tree_is_sampled(name: str) -> None:
    """These strategies do not record which schedules are left. So their verdict for runs that were cut off is "sampled"
    and not "bounded".
    """
    from dpsim.explore import STRATEGIES

    search = STRATEGIES[name]()
    search.longest = 3
    result, _ = explored(Toy("wx wx", "wx wx"), search, 5)
    assert result.verdict == "sampled"
    assert result.summary().startswith("sampled: no schedule was judged: ")


def test_a_program_that_remembers_is_no_function_of_its_schedule() -> None:
    resources = iter("ab")

    class Remembers(Toy):
        def run(self, strategy: Strategy) -> Seen:
            self.lines[0] = [f"r{next(resources)}"]
            return super().run(strategy)

    said = (
        r"^choice 1 of a repeated schedule should be 'rank 0 ra\[0\]', possible are rank 0 rb\[0\], rank 1 wx\[0\], "
        r".*\. .*no function of the schedule: a clock, an unseeded random number, state of an earlier run$"
    )
    with pytest.raises(Diverged, match=said):
        explored(Remembers("", "wx", "wx"), Dpor())


def test_a_run_that_ends_too_early_is_no_repetition() -> None:
    """The second run has to repeat the first steps of the first run, but its program ends before that. DPOR refuses
    this.
    """
    programs = iter([["ra", "wx", "wx"], ["ra"]])

    class Shrinks(Toy):
        def run(self, strategy: Strategy) -> Seen:
            self.lines = [line.split() for line in next(programs)]
            return super().run(strategy)

    with pytest.raises(Diverged, match=r"ended after choice 1 and should go on with 'rank 2 wx\[0\]'"):
        explored(Shrinks(), Dpor())
