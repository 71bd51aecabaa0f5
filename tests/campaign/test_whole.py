"""A set of worlds: its progress counts each finished world, and its result each world that a process began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dpsim.campaign import processes
from dpsim.campaign.files import Options
from dpsim.campaign.in_order import InOrder
from dpsim.campaign.interrupts import done_before
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult, do
from dpsim.campaign.whole import Whole, explore_whole
from dpsim.cli.explore_worlds_text import whole_verdict
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.swarm import Swarm
from tests.cli import protocols  # noqa: F401  # registers t_look


def looks(*ranks: int, protocol: str = "t_look") -> list[Scenario]:
    return [
        scenario_from({"name": "looks", "protocol": {"name": protocol, "params": {"ranks": number}}})
        for number in ranks
    ]


def counted_worlds(options: Options) -> list[int]:
    """Explores three worlds, and returns the different numbers of worlds that a progress display gets."""
    seen: list[int] = []
    explore_whole(looks(1, 1, 2), 3, options, lambda done, total: seen.append(done))
    return [*dict.fromkeys(seen)]


@pytest.mark.parametrize("options", [Options("dpor"), Options("dpor", schedules=1), Options("pos", schedules=3)])
def test_each_finished_world_counts(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds whose limit ended them are finished, too. The twin sees a world as finished only if it is proven."""
    assert counted_worlds(options) == [0, 1, 2, 3]
    monkeypatch.setattr(InOrder, "finished", property(lambda units: units.plan.done))
    assert (counted_worlds(options) == [0, 1, 2, 3]) == (options == Options("dpor"))


def end_after_last(whole_units: int, interrupt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the processes begin the last world before the others, as several of them may. Then a limit or Ctrl-C ends
    the search, after some units or in the middle of one.
    """

    def results(
        next_unit: Callable[[], Unit | None],
        plans: Sequence[InOrder],
        subjects: Sequence[Subject],
        end: float | None,
        tick: processes.Tick,
    ) -> Iterator[UnitResult]:
        unit = [*iter(next_unit, None)][-1]
        tick(Counter({unit.subject: 1}))
        if whole_units:
            yield do(unit, subjects[unit.subject])
        if interrupt:
            raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_done_here", results)


def interrupted(*ranks: int) -> Whole:
    with pytest.raises(KeyboardInterrupt) as caught:
        explore_whole(looks(*ranks), len(ranks), Options("dpor"))
    found = done_before(caught.value).whole
    assert isinstance(found, Whole)
    return found


def test_a_later_world_that_a_process_began_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """World 3 is begun, and worlds 1 and 2 are not. A run in an unfinished unit counts as well. The twin, an
    interrupt before the first unit, begins no world.
    """
    end_after_last(1, False, monkeypatch)
    found = explore_whole(looks(1, 1, 2), 3, Options("dpor", seconds=60.0))
    assert (found.explored, found.verdicts, found.unmet) == (1, {"sampled": 1}, None)
    cuts = [(cut.limit, cut.begun, cut.worlds, [number for number, _ in cut.all]) for cut in found.cuts]
    assert cuts == [("budget", True, 1, [3]), ("budget", False, 2, [1, 2])]
    for whole_units in (0, 1):
        end_after_last(whole_units, True, monkeypatch)
        found = interrupted(1, 1, 2)
        assert (found.explored, found.verdicts, found.unmet) == (1, {"sampled": 1}, None)
        cuts = [(cut.limit, cut.begun, cut.worlds, [number for number, _ in cut.all]) for cut in found.cuts]
        assert cuts == [("interrupt", True, 1, [3]), ("interrupt", False, 2, [1, 2])]
    monkeypatch.setattr(processes, "_done_here", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    assert interrupted(1, 1, 2).explored == 0


@pytest.mark.parametrize("interrupt", [False, True])
def test_a_later_world_that_failed_is_reported(
    interrupt: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict names the number of the failing world, and how many earlier ones the search did not begin."""
    end_after_last(1, interrupt, monkeypatch)
    worlds, options = looks(1, 1, 2, protocol="t_second"), Options("dpor", seconds=60.0, folder=tmp_path)
    try:
        found = explore_whole(worlds, 4, options)
    except KeyboardInterrupt as error:
        found = done_before(error).whole
    assert found.first is not None
    assert found.first.explored.findings[0].klass == "CRASH:ASSERTIONERROR"
    said = "VIOLATED  world 3 of 4; of the earlier ones, 0 hold in every schedule, 0 in those that ran and 2 not begun"
    assert whole_verdict(Swarm(4), 4, found) == said
    assert [(cut.begun, cut.worlds, cut.first) for cut in found.cuts] == [(False, 2, 1)]
