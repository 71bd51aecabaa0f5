"""Lone ranks: runs each rank again alone in a process (`dpsim.alone`), to find Python objects that ranks share.

    looked = looked_at(subject, exploration.pasts, seconds=0.3)    # `seconds`: what exploring it took
    looked.finding                              # NONDETERMINISM:SHARED_STATE, or None
    looked.runs, looked.known                   # how many pasts of ranks ran alone, of how many
    looked.why                                  # why it is not known, in words

The simulation runs all ranks in one Python process, and hardware does not. If a rank behaves differently alone, the
finding names the first record that differs, and the objects of the program's module that differ.

A rank alone sees nothing but the results of its awaits. So it runs once for each past that the search saw
(`dpsim.campaign.pasts`). For one scenario, EACH pasts run in any case, unless they are long, and more within a tenth of
the exploring time. For many scenarios, one schedule of the first runs, and more within this tenth (`Account`).
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from dpsim.alone import client
from dpsim.alone.digest import changed, contents
from dpsim.alone.messages import AloneJob, Differs
from dpsim.alone.past import Past
from dpsim.campaign.pasts import COUNTED, NOT_KEPT, Recording, note, past_key
from dpsim.campaign.repeats import Repeats, Unlike
from dpsim.campaign.subject import Origin, Subject, kept, search_path
from dpsim.checks import nondeterminism
from dpsim.checks.finding import Finding
from dpsim.checks.judge import switch_off
from dpsim.checks.nondeterminism import NAMED, SHARED_STATE
from dpsim.contract import registry
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Lost, Run
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.backend import SimRun

EACH, RECORDS = 256, 200_000
"""The number of pasts of one scenario that run alone in any case, and the number of their records."""
AT_ONCE = 64
"""The number of pasts in one job of the server."""
SHARE = 0.1
"""The share of the exploring time that running ranks alone may take."""


Pasts: TypeAlias = Mapping[bytes, Sequence[str]]
"""For the digest of each past, a schedule that has it."""


class Account:
    """The seconds that this process has spent on exploring and on running ranks alone."""

    def __init__(self) -> None:
        self.explored = self.alone = 0.0
        self.looked = 0

    @property
    def allows(self) -> bool:
        """Whether ranks of one more schedule of many scenarios run alone."""
        return not self.looked or self.alone < SHARE * self.explored


ACCOUNT = Account()


class Looked(NamedTuple):
    """The result of running ranks alone. `runs`: the number of pasts that ran; 0 if there is no time for it. `known`:
    the number of pasts that the search saw. `shared`: the names of the objects that the ranks of the finding share.
    """

    runs: int = 0
    known: int = 0
    finding: Finding | None = None
    run: Run | None = None
    why: str = ""
    shared: tuple[str, ...] = ()

    @property
    def few(self) -> str:
        """For how many pasts ranks ran alone, in words; empty if for all or for none."""
        over = "over " * (self.known == COUNTED)
        return (
            f"checked for {self.runs:,} of {over}{self.known:,} different pasts" if 0 < self.runs < self.known else ""
        )


def looked_at(subject: Subject, pasts: Pasts, seconds: float) -> Looked:
    """Runs the ranks alone, if the account of time allows it. `pasts`: by digest, with a schedule that has each."""
    ACCOUNT.explored += seconds
    if subject.program.apart:
        return Looked()
    if subject.origin is None or subject.make is None:  # its program may have changed, too
        return Looked(why="it was not made from a scenario")
    if not (subject.alone or ACCOUNT.allows):
        return Looked()
    if subject.switched_off and any(switch_off([nondeterminism.of("")], subject.switched_off)[1].values()):
        return Looked()
    if not pasts:
        return Looked(why="no run of it holds to its end")
    ACCOUNT.looked += 1
    return Looking(subject, subject.origin, pasts, seconds).all()


def shared_in(subject: Subject, run: Run, schedule: Sequence[str], seconds: float) -> str:
    """Returns that a rank of a failing run acts differently alone, or "". Real processes share nothing."""
    pasts = dict[bytes, Sequence[str]]()
    note(pasts, run.journals, schedule)
    looked = looked_at(subject, pasts, seconds)
    found = looked.finding
    if found is None or found.culprit is None or found.klass != SHARED_STATE:
        return ""
    names = f" ({', '.join(looked.shared[:NAMED])})" * bool(looked.shared)
    who, where = found.culprit.who, found.culprit.where
    return f"{who} acts differently when it runs alone, so ranks share state outside of the contract{names}: {where}"


class Looking:
    """Runs the pasts of one subject. `ran`: those that are done, or wait for the next job of the server."""

    def __init__(self, subject: Subject, origin: Origin, pasts: Pasts, seconds: float) -> None:
        self._subject = subject
        self._origin = origin
        self._pasts = pasts
        self._left = SHARE * seconds
        self.ran = set[bytes]()
        self._records = 0
        self._waiting: list[tuple[SimRun, Past]] = []

    def all(self) -> Looked:
        for _, some in groupby(self._pasts.items(), key=lambda past: id(past[1])):
            keys, (schedule, *_) = zip(*some, strict=True)
            if schedule is NOT_KEPT or not self.allowed():
                break
            looked = self._timed(lambda schedule=schedule, keys=keys: self._along(schedule, keys))  # type: ignore[misc]
            if looked is not None:
                return looked
        return self._timed(self._asked) or self._so_far()

    def _timed(self, do: Callable[[], Looked | None]) -> Looked | None:
        start = time.monotonic()
        try:
            return do()
        except CutOff:
            return None
        except Lost as error:
            return self._so_far(str(error))
        finally:
            took = time.monotonic() - start
            ACCOUNT.alone += took
            self._left -= took

    def allowed(self) -> bool:
        """Whether ranks run alone along one more schedule."""
        if not self._subject.alone:
            return not self.ran or ACCOUNT.allows
        return (len(self.ran) < EACH and self._records < RECORDS) or self._left > 0

    def _so_far(self, why: str = "") -> Looked:
        return Looked(len(self.ran) - len(self._waiting), len(self._pasts), why=why)

    def _along(self, schedule: Sequence[str], expected: Sequence[bytes]) -> Looked | None:
        subject, fresh = self._subject, self._subject.fresh()
        program = Recording([fresh() for _ in range(subject.world.actors)], registry.packages())
        run = kept(subject.backend(self._following(schedule)).run_program(subject.world, program, None))
        keys = [past_key(rank, journal) for rank, journal in enumerate(run.journals)]
        if not {*expected} <= {*keys}:
            unlike = self._repeated(schedule)
            if unlike is not None:
                return self._so_far()._replace(finding=unlike.finding, run=unlike.run)
        known = zip(program.complete(run.journals, run.ends), keys, strict=True)
        pasts = [past for past, key in known if key not in self.ran]
        self.ran.update(expected)
        self._records += sum(len(past.records) for past in pasts)
        self._waiting += [(run, past) for past in pasts]
        return self._asked() if len(self._waiting) >= AT_ONCE or not subject.alone else None

    def _following(self, schedule: Sequence[str]) -> ScheduleReplay:
        follow = ScheduleReplay(schedule, strict=False, longest=self._subject.longest)
        follow.begin()
        return follow

    def _repeated(self, schedule: Sequence[str]) -> Unlike | None:
        """In one of the two runs, each rank has its own instance of the program."""
        run, _ = self._subject.run(self._following(schedule))
        return Repeats(self._subject).after(run, [*schedule], failed=True)

    def _asked(self) -> Looked | None:
        if not self._waiting:
            return None
        found = _alone(self._subject, self._origin, [past for _, past in self._waiting])
        if isinstance(found, str):
            return self._so_far(found)
        waiting, self._waiting = self._waiting, []
        differ = [(run, one) for (run, _), one in zip(waiting, found, strict=True) if one is not None]
        if not differ:
            return None
        run, first = min(differ, key=lambda each: (each[0] is not differ[0][0], each[1].step, each[1].at, each[1].rank))
        shared = _shared(self._origin, run)
        finding = nondeterminism.shared_state(first.rank, first.at, first.among, first.alone, shared)
        return self._so_far()._replace(finding=finding, run=run, shared=shared)


def _alone(subject: Subject, origin: Origin, pasts: list[Past]) -> list[Differs | None] | str:
    try:
        args = pickle.dumps(origin.args)
        packages = frozenset(registry.packages())
        job = AloneJob(
            subject.world, origin.protocol, args, pasts, origin.modules(), [*origin.path], origin.environment, packages
        )
        pickle.dumps(job)
    except Exception as error:
        return f"what its own process needs cannot be pickled: {error}"
    return client.ask(job)


def _shared(origin: Origin, run: SimRun) -> tuple[str, ...]:
    """Returns the names of the objects that differ between this process and the one in which ranks ran alone."""
    modules = origin.modules()
    here = contents([module.name for module in modules])
    process = [f"os.environ[{name!r}]" for name in run.variables] + ["sys.path"] * (search_path() != origin.path)
    return (*changed(here, client.held(modules)), *process)
