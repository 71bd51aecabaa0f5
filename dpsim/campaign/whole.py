"""Whole: explores all worlds of a set, in order, up to the first violated one or until the time is used up.

whole = explore_whole(all_up_to(scenario, "ranks=3").worlds(), 3, Options(seconds=60))
whole.verdict                   # on all of them together
whole.cuts                      # the worlds that a limit cut short
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from dpsim.campaign.assumptions.ranks import SHARE_NOTHING
from dpsim.campaign.assumptions.row import OTHERWISE
from dpsim.campaign.coverage import Coverage
from dpsim.campaign.cut_short import Cut, Cuts, Limit, limit_of
from dpsim.campaign.explored import Explored, concluded
from dpsim.campaign.files import SHARE, Options, Outcome, explore_some, kept
from dpsim.campaign.how_far import HowFar
from dpsim.campaign.interrupts import Done, done_before, with_done
from dpsim.checks.expected import HELD, Expected
from dpsim.contract.words import counted
from dpsim.explore import Planted
from dpsim.scenario import Scenario

AT_ONCE = 64

LISTED = 1_000
"""The largest number of worlds that a result names although the search began none of them. Each takes 0.5 ms."""


class Whole(NamedTuple):
    """The result of exploring all worlds of a set, up to the first violated one (`first`), which is world `number`,
    from 1. `verdicts`: the worlds with each verdict. `probes`: in how many worlds each was reached. `never_applied`:
    why planted faults happened in no world. `expected`: of all `total` worlds. `lost`: why the machine could not run
    world `number`. `alone`: in how many worlds ranks ran alone. `cuts`: the worlds that a limit cut short. `unjudged`:
    in how many explored worlds no run was judged. `unended`: in how many others a run did not end although its schedule
    kept no event waiting.
    """

    explored: int
    verdicts: Counter[str]
    runs: int
    probes: dict[str, int]
    never_applied: Sequence[str]
    first: Outcome | None
    assumes: Sequence[str] = ()
    expected: Expected = HELD
    total: int = 0
    lost: str = ""
    alone: int = 0
    cuts: Sequence[Cut] = ()
    unjudged: int = 0
    number: int = 0
    unended: int = 0
    drawn: bool = False

    @property
    def verdict(self) -> str:
        """The verdict on all worlds. Drawn worlds are at most sampled, because the search lacks all others."""
        of_each = self.of_each
        return "sampled" if self.drawn and of_each in ("proven", "bounded") else of_each

    @property
    def of_each(self) -> str:
        """The worst verdict on any of the worlds, or "sampled" if the search did not explore all of them."""
        if self.lost:
            return "lost"
        if self.first is not None:
            return "violated"
        if 0 < self.explored == self.verdicts["vacuous"]:
            return "vacuous"
        if self.explored < self.total or self.verdicts["sampled"]:
            return "sampled"
        return "bounded" if self.verdicts["bounded"] else "proven" if self.verdicts["proven"] else "vacuous"

    @property
    def unmet(self) -> str | None:
        """Why the result is not as expected, or None. Each world has to be, so each drawn world may be proven. A
        violated world may be too small for its faults.
        """
        if self.lost:
            return f"lost: {self.lost.splitlines()[0]}"
        if self.first is not None:
            return self.first.explored.unmet_where(())
        nothing = f"no schedule was judged in {counted(self.unjudged, 'world')}" if self.unjudged else None
        if self.unended and nothing is None:
            nothing = f"{counted(self.unended, 'world')} had schedules that did not end, and kept no event waiting"
        return self.expected.unmet(self.of_each, None, self.never_applied) or nothing


def explore_whole(
    scenarios: Iterable[Scenario],
    total: int,
    options: Options,
    progress: Callable[[int, int | None], None] | None = None,
    coverage: Coverage | None = None,
    drawn: bool = False,
) -> Whole:
    """Explores all worlds in order, up to the first violated one or until the time is used up. `drawn`: a random
    sample. `progress` receives the number of finished worlds. A KeyboardInterrupt carries the result so far.
    """
    end = None if options.seconds is None else time.monotonic() + options.seconds
    so_far, rest = _SoFar(total, options, coverage, drawn), iter(scenarios)
    cluster = options.cluster

    def watch(how_far: HowFar) -> None:
        if progress is not None:
            progress(so_far.explored + how_far.finished, total)

    while some := list(islice(rest, AT_ONCE * (options.jobs if cluster is None else cluster.width))):
        so_far.expected = some[0].expected_of_all
        seconds = None if end is None else end - time.monotonic()
        if seconds is not None and seconds <= 0:
            return so_far.ended(chain(some, rest))
        try:
            worlds = [(each, None) for each in some]
            all_explored = explore_some(worlds, options, seconds, share=SHARE, start=so_far.explored, watch=watch)
        except KeyboardInterrupt as error:
            done = done_before(error)
            whole = so_far.interrupted(some, done.explored, rest)
            worlds_so_far = (whole.explored, total)
            with_done(error, Done(whole.runs, done.failures, worlds_so_far, done.polls, whole=whole))
            raise
        for scenario, one in zip(some, all_explored, strict=True):
            if one.exploration.lost:
                return so_far.stopped_at(lost=one.exploration.lost)
            if not one.exploration.runs:  # the time was up; a process may have begun a later world
                so_far.skip(scenario)
                continue
            so_far.add(scenario, one)
            if one.failure is not None:
                return so_far.stopped_at(kept(scenario, one, options.folder))
        if so_far.skipped:
            return so_far.ended(rest)
    return so_far.whole()


class _SoFar:
    def __init__(self, total: int, options: Options, coverage: Coverage | None, drawn: bool) -> None:
        self.verdicts: Counter[str] = Counter()
        self.runs = 0
        self._total = total
        self._options = options
        self._coverage = coverage
        self._drawn = drawn
        self._probes: dict[str, int] = {}
        self.expected = HELD
        self._injected: dict[Planted, str] = {}
        self._assumes: dict[str, None] = {}
        self._alone = self._shared = self._unchecked = 0
        self._unjudged = self._unended = 0
        self._cuts = Cuts()
        self._number = 0
        self.skipped: list[tuple[int, Scenario]] = []
        """The number and the scenario of each world that the search did not begin, before the last one that it did."""

    @property
    def explored(self) -> int:
        return self.verdicts.total()

    def add(self, scenario: Scenario, one: Explored, interrupted: bool = False) -> None:
        """Adds an explored world. `interrupted`: units of it are open, because of Ctrl-C."""
        found, options = one.exploration, self._options
        self._number += 1
        if self._coverage is not None:
            self._coverage.add(one.subject, found)
        self.verdicts[one.verdict] += 1
        self.runs += found.runs
        self._unjudged += found.runs > 0 and not found.fresh
        self._unended += found.unended > 0 and bool(found.fresh)
        if not one.subject.program.apart and one.verdict != "vacuous":
            self._shared += 1
            self._alone += one.looked.runs > 0
            self._unchecked += not 0 < one.looked.runs == one.looked.known
        self._assumes.update(dict.fromkeys(one.assumes))
        reached = found.probed()
        for probe in dict.fromkeys([*one.subject.probes, *reached]):  # a variant may have undeclared ones
            self._probes[probe] = self._probes.get(probe, 0) + (probe in reached)
        for planted, why in found.injected.items():  # with the reason of the last world
            self._injected[planted] = why if self._injected.get(planted, why) else ""
        limit = limit_of(found, options.strategy, options.schedules, options.seconds is not None)
        self._cuts.add("interrupt" if limit and interrupted else limit, self._number, scenario, found)

    def skip(self, scenario: Scenario) -> None:
        """Adds a world that the search did not begin."""
        self._number += 1
        self.skipped.append((self._number, scenario))

    def whole(self) -> Whole:
        never = [*filter(None, self._injected.values())]
        assumes = sorted([*self._assumes, *self._not_alone()], key=OTHERWISE.__eq__)
        return Whole(
            self.explored,
            self.verdicts,
            self.runs,
            self._probes,
            never,
            None,
            tuple(assumes),
            self.expected,
            self._total,
            alone=self._alone,
            cuts=self._cuts.all(),
            unjudged=self._unjudged,
            unended=self._unended,
            drawn=self._drawn,
        )

    def ended(self, left: Iterator[Scenario], limit: Limit = "budget") -> Whole:
        further = enumerate(islice(left, max(LISTED - len(self.skipped), 0)), self._number + 1)
        worlds = [*self.skipped, *further][:LISTED]
        return self._with_not_begun(worlds, self._total - self.explored, limit)

    def stopped_at(self, first: Outcome | None = None, lost: str = "", limit: Limit = "budget") -> Whole:
        """`first`: the violated world, which was added; else the next one is `lost`. `limit`: why worlds are left."""
        whole = self._with_not_begun(self.skipped, len(self.skipped), limit)
        number = self._number + (first is None)
        return whole._replace(assumes=(), never_applied=(), alone=0, first=first, lost=lost, number=number)

    def _with_not_begun(self, worlds: Sequence[tuple[int, Scenario]], number: int, limit: Limit) -> Whole:
        cuts = (Cut(limit, False, number, *worlds[0], all=worlds),) if worlds else ()
        return self.whole()._replace(cuts=(*self._cuts.all(), *cuts))

    def interrupted(self, some: Sequence[Scenario], results: Sequence[Explored], after: Iterator[Scenario]) -> Whole:
        """`results`: one for each of `some`, or empty if none was begun."""
        for scenario, one in zip_longest(some, results):
            if one is None or one.how_far is None or not one.how_far.schedules:
                self.skip(scenario)
                continue
            self.add(scenario, one, interrupted=one.how_far.open > 0)
            if one.exploration.failures:
                first = kept(scenario, concluded(one.subject, one.exploration, 0), self._options.folder)
                return self.stopped_at(first, limit="interrupt")
        return self.ended(after, "interrupt")

    def _not_alone(self) -> list[str]:
        if not self._unchecked or (not self._alone and any(one.startswith(SHARE_NOTHING) for one in self._assumes)):
            return []
        worlds = counted(self._shared, "world")
        if self._alone < self._shared:
            return [f"{SHARE_NOTHING}: checked in {self._alone:,} of {worlds}"]
        return [f"{SHARE_NOTHING}: checked for some pasts of each world"]
