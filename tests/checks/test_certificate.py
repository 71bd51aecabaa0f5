"""Tests the certificate, a cheap pass that finds checks which a run certainly passes. On random programs, scenarios and
other backends, each certified check has no finding. For each condition of the certificate, a faulty twin and the random
programs show that it is needed.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import pytest

from dpsim.checks import Finding, certificate, judge
from dpsim.checks.certificate import certified
from dpsim.checks.memory import own_order, touches
from dpsim.checks.memory.own_order import all_in_order, in_order
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import KIND
from dpsim.contract.world import Run, World
from dpsim.sim.backend import SimBackend
from tests.checks.handmade import Made
from tests.checks.held import ALL, found, held_against
from tests.checks.memory.layouts import Layouts
from tests.checks.painted import painted
from tests.checks.twins import TWINS
from tests.properties import nightly_but
from tests.records import changed
from tests.worlds.random_threads import threaded_case

# ---- random programs


def test_certified_programs_with_random_threads_pass_the_checks() -> None:
    """The certificate holds on random programs with host threads. It never covers their accesses to memory."""
    clean = 0
    for seed in range(80):
        case = threaded_case(seed)
        run = SimBackend(memory=case.memory).run_program(case.world, case.program, case.args)
        passed = held_against(case.world, run, f"seed {seed}")
        several = any(raw[KIND] == "thread" for journal in run.journals for raw in journal)
        owns = any(raw[KIND] == "alloc" for journal in run.journals for raw in journal)
        assert not (several and owns and "race" in passed)
        clean += bool(passed)
    assert clean > 10


def fuzzed(seeds: range) -> Counter[str]:
    """Returns counts of random programs: without findings, with certified accesses to memory, and with all checks
    certified.
    """
    said: Counter[str] = Counter()
    for seed in seeds:
        made = painted(seed)
        if made is None:
            continue
        run = made.run()
        passed = held_against(made.world, run, f"seed {seed}")
        wrong = found(made.world, run)
        said["clean" if not wrong else "wrong"] += 1
        if not wrong:
            said["in order"] += "race" in passed
            said["all"] += passed == ALL
        said.update(f"{name} of {klass}" for name, classes in wrong.items() for klass in {*classes})
    return said


def test_certified_random_programs_pass_the_checks() -> None:
    said = fuzzed(range(250))
    assert said["in order"] > 25
    assert said["all"]
    assert {"race of RACE:BUFFER", "race of RACE:REUSED_IN_FLIGHT", "stale of STALE:UNWRITTEN"} <= {*said}


@pytest.mark.parametrize("part", nightly_but(range(10), lambda part: part < 3))
def test_certified_programs_of_thousands_pass_the_checks(part: int) -> None:
    said = fuzzed(range(1_000 + part * 2_000, 3_000 + part * 2_000))
    assert said["all"] > 50
    assert said["in order"] > 0.6 * said["clean"], "the certificate covers too few clean programs to save work"


def laid_out(seeds: range) -> int:
    """Compares the certificate with all layouts of memory. Returns the number of certified programs."""
    certain = 0
    for seed in seeds:
        program = Layouts(seed)
        if program.stuck():
            continue
        passed = certified(program.made.world, program.made.run())
        truth = program.verdict() if "race" in passed else None
        assert truth is None or not (truth.race or truth.stale), f"seed {seed}: certified, and {truth}"
        certain += truth is not None
    return certain


def test_certified_programs_have_no_memory_layout_with_a_race() -> None:
    assert laid_out(range(300)) > 20


@pytest.mark.slow
def test_of_thousands_no_certified_program_has_a_memory_layout_with_a_race() -> None:
    assert laid_out(range(300, 6_000)) > 400


# ---- twins


@pytest.mark.parametrize("name", TWINS)
def test_each_clause_has_a_twin(name: str) -> None:
    twin = TWINS[name]
    healthy, faulty = twin.made(wrong=False), twin.made(wrong=True)
    assert certified(healthy.world, healthy.run()) == ALL
    assert found(healthy.world, healthy.run()) == {}
    assert twin.klass in found(faulty.world, faulty.run())[twin.check]
    assert twin.check not in certified(faulty.world, faulty.run())


def test_pieces_of_an_all_to_all_are_left_to_the_ledger() -> None:
    """Both members pass equal sizes, but a member sends another number than its peer expects. The ledger finds this, so
    it is not certified.
    """
    made = Made(2)
    for hand in made.hands:
        hand.collective("dp", "main", op="all_to_all", count=3, sizes=(1, 2, 1, 1))
    assert found(made.world, made.run()) == {"ledger": ["MISMATCH:COLLECTIVE:SIZES"]}
    assert "ledger" not in certified(made.world, made.run())


def test_two_names_of_one_call_are_certified() -> None:
    made = Made(2)
    for hand in made.hands:
        for _ in range(2):
            hand.collective("dp", "main", op="broadcast", root=0)
            hand.journal[-1] = changed(hand.journal[-1], site="take" if hand.rank else "give")
    assert certified(made.world, made.run()) == ALL
    assert found(made.world, made.run()) == {}


def test_of_runs_without_an_end_nothing_is_certified() -> None:
    made = Made(1)
    assert certified(made.world, made.run()) == ALL
    ends: list[Any] = ["blocked", "raised", "died"]
    for end in ends:
        assert certified(made.world, made.run(end)) == frozenset()
    for lost in ({"lost": "no room"}, {"endless": (0,)}):
        assert certified(made.world, replace(made.run(), **lost)) == frozenset()


def test_memory_behind_a_collective_that_not_all_made_is_not_certified() -> None:
    """A collective that one member never called does not end. So no op has written the memory that it should write."""
    made = Made(2)
    for hand in made.hands:
        x = hand.alloc("main", 8)
        if not hand.rank:
            hand.collective("dp", "main", writes=[x])
            hand.read("main", x)
            hand.launch("use", "side", reads=[x])
    off = [*judge.CHECKS["ledger"].finds]
    assert {one.klass for one in judge.judge(made.world, made.run(), off)} == {"STALE:UNWRITTEN"}


def test_a_rank_in_an_idle_get_is_certified() -> None:
    made = Made(1)
    made[0].take("idle")
    assert certified(made.world, made.run()) == ALL


def test_buffers_that_no_machine_has_placed_share_nothing() -> None:
    made = Made(1)
    x = made[0].alloc("main", 8)
    made[0].launch("write", "side", writes=[x])
    made[0].free("main", x)
    made[0].launch("write", "main", writes=[made[0].alloc("main", 8)])
    assert certified(made.world, made.run()) == ALL


def test_the_certificate_skips_checks_that_are_not_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> bool:
        raise AssertionError("the certificate reads the memory")

    monkeypatch.setattr(certificate, "all_in_order", never)
    made = TWINS["reads after writes"].made(wrong=True)
    assert certified(made.world, made.run(), ["race", "stale"]) == ALL - {"race", "stale"}
    with pytest.raises(AssertionError, match="the certificate reads the memory"):
        certified(made.world, made.run(), ["race"])


def test_all_checks_run_after_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def spy(name: str, check: judge.Check) -> judge.Check:
        def run(index: RunIndex) -> list[Finding]:
            asked.append(name)
            return check.run(index)

        return check._replace(run=run)

    healthy, faulty = (TWINS["decisions are equal"].made(wrong) for wrong in (False, True))
    for name, check in judge.CHECKS.items():
        monkeypatch.setitem(judge.CHECKS, name, spy(name, check))
    assert judge.judge(healthy.world, healthy.run()) == []
    assert asked == []
    assert [one.klass for one in judge.judge(faulty.world, faulty.run())] == ["DISAGREEMENT:PLAN"]
    assert sorted(asked) == sorted(judge.CHECKS)


# ---- faulty twins: the certificate without one of its conditions


FAULTS: list[tuple[Any, str, str]] = [
    (touches, "writer < 0 or clock[writer] < cell[WROTE]", "writer < 0"),
    (touches, "writer < 0 or clock[writer]", "clock[writer]"),
    (touches, "writer >= 0 and clock[writer] < cell[WROTE]", "False"),
    (touches, "if reader != number and clock[reader] < cell[READ]:", "if False:"),
    (touches, "for other, upto in cell[OTHERS].items():", "for other, upto in ():"),
    (touches, "dict(cell[OTHERS] or ())", "{}"),
    (touches, "others[reader] = cell[READ]", "pass"),
    (touches, "for other, upto in enumerate(life.behind):", "for other, upto in ():"),
    (touches, "if number not in life.writers:", "if not life.writers:"),
    (own_order, "raw[LEARNED_OUTCOME] or not learns[1]", "True"),
    (own_order, "is_idle(raw[CALL])", "False"),
    (own_order, "if last != at - 1:", "if False:"),
    (own_order, "for refs in written for one", "for refs in () for one"),
    (own_order, "for refs in read for one", "for refs in () for one"),
    (touches, "cell[TAG] is tag or cell[TAG] == tag", "True"),
    (touches, "cell[TAG] = tag", "cell[TAG] = cell[TAG] if tag is NoTag else tag"),
    (touches, "life.cells[index - 1][:]", "life.cells[index - 1]"),
    (touches, "end.number == number or end.clock[number] >= position", "True"),
    (touches, "left[number] = position", "pass"),
    (touches, "self.left.get(life.pool, ())", "()"),
    (touches, "[(writer, wrote), (reader, read)]", "[(reader, read)]"),
    (touches, "[(writer, wrote), (reader, read)]", "[(writer, wrote)]"),
    (touches, "last += others.items()", "pass"),
    (touches, "self.left.get(pool, [])", "[]"),
    (touches, "raw[STREAM], raw[ALLOC_COUNT] *", "raw[BUFFER], raw[ALLOC_COUNT] *"),
    (
        own_order,
        "marks[raw[EVENT]] = stream.clock, stream.number, stream.position",
        "marks[raw[EVENT]] = stream.clock, stream.number, stream.position + 1",
    ),
    (
        own_order,
        "pending[raw[ADDRESS]] = (stream.clock, stream.number, stream.position), False",
        "memory.learn((stream.clock, stream.number, stream.position))",
    ),
    (certificate, "not run.finished or", "False and"),
    (certificate, "if paired and facts.ended:", "if facts.ended:"),
    (certificate, "if paired and facts.ended:", "if paired:"),
    (certificate, "and facts.alike", ""),
    (certificate, "if facts.agreed and all(", "if True or all("),
    (certificate, "if facts.agreed and all(", "if facts.agreed or all("),
    (certificate, "if not row[0][DECISION_LOCAL]:", "if False:"),
    (certificate, "(step, call) for step, _, *call in one] == [(step, call) for step, _, *call in other]", "0] == [0]"),
    (
        certificate,
        "(step, call) for step, _, *call in one] == [(step, call) for step, _, *call in other]",
        "call for step, _, *call in one] == [call for step, _, *call in other]",
    ),
    (certificate, ".isdisjoint(", ".issuperset("),
    (certificate, "range(CALL.start, CALL.stop)", "range(CALL.start, CALL.start + 1)"),
    (certificate, "all(_moved(line) == _moved(facts.received[name])", "all(True"),
    (certificate, "itemgetter(COUNT, DTYPE)", "itemgetter(COUNT)"),
    (certificate, "itemgetter(COUNT, DTYPE)", "itemgetter(DTYPE)"),
    (certificate, "itemgetter(STEP, DECISION_VALUE)", "itemgetter(STEP)"),
    (certificate, "itemgetter(STEP, DECISION_VALUE)", "itemgetter(DECISION_VALUE)"),
    (certificate, "len(facts.sent) == len(facts.received) and", ""),
    (certificate, "len(line) == len(facts.received.get(name, ()))", "True"),
    (certificate, "elif kind in AWAITED:", "elif False:"),
]


ONLY_TWINS = frozenset(
    {
        "not run.finished or",
        ".isdisjoint(",
        "itemgetter(COUNT, DTYPE)",
        "itemgetter(STEP, DECISION_VALUE)",
        "dict(cell[OTHERS] or ())",
        "last += others.items()",
        "if number not in life.writers:",
        "cell[TAG] = tag",
        "pending[raw[ADDRESS]] = (stream.clock, stream.number, stream.position), False",
    }
)
"""Conditions that random programs break never or rarely; only the faulty twins show that these are needed."""


def without(module: ModuleType, clause: str, instead: str) -> Callable[[World, Run], frozenset[str]]:
    """Returns the certificate with a piece of its source replaced."""
    source = inspect.getsource(module)
    assert clause in source, f"{module.__name__} has no {clause!r} any more: name the clause as it is now"
    told: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(clause, instead, 1), str(module.__file__), "exec"), told)
    if module is certificate:
        return told["certified"]  # type: ignore[no-any-return]
    order = told["in_order"] if module is own_order else within(in_order, Touches=told["Touches"])
    return within(certified, all_in_order=within(all_in_order, in_order=order))


def within(function: Any, **others: Any) -> Callable[..., Any]:
    """Returns the function with other values for some of its globals."""
    return FunctionType(function.__code__, {**function.__globals__, **others}, argdefs=function.__defaults__)


def wrongly(certificate: Callable[[World, Run], frozenset[str]], made: Made, wrong: set[str]) -> bool:
    passed = certificate(made.world, made.run())
    return bool(passed & wrong) and not wrong - passed


@cache
def twins() -> list[tuple[Made, set[str]]]:
    """Returns the runs of the faulty twins, each with the checks that have a finding."""
    faulty = [twin.made(wrong=True) for twin in TWINS.values()]
    return [(made, {*found(made.world, made.run())}) for made in faulty]


@cache
def programs() -> list[tuple[Made, set[str]]]:
    some = [made for made in map(painted, range(4_000)) if made is not None]
    told = [(made, {*found(made.world, made.run())}) for made in some]
    return [(made, wrong) for made, wrong in told if wrong]


@pytest.mark.parametrize(("module", "clause", "instead"), FAULTS)
def test_a_clause_left_out_is_noticed_by_a_twin(module: ModuleType, clause: str, instead: str) -> None:
    faulty = without(module, clause, instead)
    if clause == "not run.finished or":
        assert faulty(Made(1).world, Made(1).run("blocked"))
        return
    assert any(wrongly(faulty, made, wrong) for made, wrong in twins())


@pytest.mark.slow
@pytest.mark.parametrize(("module", "clause", "instead"), [one for one in FAULTS if one[1] not in ONLY_TWINS])
def test_a_clause_left_out_is_noticed_by_random_programs(module: ModuleType, clause: str, instead: str) -> None:
    faulty = without(module, clause, instead)
    assert any(wrongly(faulty, made, wrong) for made, wrong in programs())
