"""Runs a scenario once, and judges the run: it prepares the program, calls the backend, and compares the findings.

>>> from dpsim.scenario import scenario_from
>>> request = {"arrival": "0ms", "prompt_tokens": 5, "output_tokens": 2}
>>> result = run_scenario(scenario_from({"name": "two", "workload": {"requests": [request]}}))
>>> result.verdict, result.met, result.steps
('held', True, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge, not_claimed, not_run, switch_off, switched_off_text
from dpsim.contract.gates import AnyGate
from dpsim.contract.installed import entry_points
from dpsim.contract.ops import CAPTURE_WHAT, KIND, STEP
from dpsim.contract.words import BadInput, did_you_mean
from dpsim.contract.world import Backend, BackendUnavailable, Run, World
from dpsim.diagnose.injected import never_applied, not_the_cause
from dpsim.diagnose.words import told
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import only_simulated, prepare, world


class UnknownBackend(BadInput):
    """No backend with this name is installed."""


class Graphs(NamedTuple):
    """Counts of CUDA graphs of all ranks: captures that ended without an error, and replays."""

    captured: int
    replayed: int


@dataclass
class Result:
    """A judged run. `findings`: the violations, the primary one first. `figures`: numbers that the program reports.

    `switched_off`: how many findings each pattern suppressed. It does not count for checks that did not run.
    """

    scenario: Scenario
    world: World
    run: Run
    findings: list[Finding]
    figures: dict[str, Any]
    switched_off: dict[str, int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of steps that rank 0 began."""
        return max((record[STEP] for record in self.run.journals[0][-1:]), default=-1) + 1

    @property
    def graphs(self) -> Graphs | None:
        """The counts of captures and replays, or None if there was no capture and the scenario requests none."""
        raws = [raw for journal in self.run.journals for raw in journal]
        replays = sum(raw[KIND] == "replay" for raw in raws)
        captures = sum(raw[KIND] == "capture" and raw[CAPTURE_WHAT] == "end" for raw in raws)
        return Graphs(captures, replays) if captures or self.scenario.captures_graphs else None

    @property
    def verdict(self) -> Literal["held", "vacuous", "violated", "lost"]:
        if self.run.lost:
            return "lost"
        return "violated" if self.findings else "vacuous" if self.run.vacuous else "held"

    @property
    def primary(self) -> Finding | None:
        return self.findings[0] if self.findings else None

    @property
    def never_applied(self) -> list[str]:
        """Faults and delays of the scenario that did not happen, with the reason. A run that stopped early may not have
        reached them.
        """
        return never_applied(self.world, self.run)

    @property
    def unmet(self) -> str | None:
        """How the run differs from what the scenario expects, or None. A lost run is never as expected.

        If a run finishes without a planted fault or delay, it is not as the scenario describes, so it is not as
        expected. The same holds if a run fails before any planted fault happens.
        """
        if self.run.lost:
            return f"lost: {self.run.lost}"
        expected = self.scenario.expected
        never = self.never_applied if self.run.finished else not_the_cause(expected, self.world, self.run)
        if self.unclaimed is not None and not never:
            return None
        hidden = any(self.switched_off.values()) or not_run(list(self.switched_off))
        remarks = [switched_off_text(self.switched_off)] if hidden else []
        if self.scenario.expect.explored is not None:
            remarks.append("explore checks expect.explored; run checks expect.verdict, which defaults to held")
        remark = "; ".join(remarks)
        return expected.unmet(self.verdict, self.primary, never, remark)

    @property
    def unclaimed(self) -> str | None:
        """Why the run cannot be compared with the expectation, or None. Then there is no finding, and the backend
        cannot show the expected one.
        """
        klass = self.scenario.expected.klass
        return None if self.findings or klass is None else not_claimed(self.run, klass)

    @property
    def met(self) -> bool:
        """Whether the run is as the scenario expects. A run with the expected finding is."""
        return self.unmet is None and self.unclaimed is None


SIMULATION = "sim"
"""The backend that supports all features of scenarios."""

_backends: dict[str, Backend] = {}


def sentence(run: Run, finding: Finding) -> str:
    """Returns what a finding says, in one line."""
    return told(run, finding).message


def backend_names() -> list[str]:
    """Returns the names of the installed backends, sorted."""
    return sorted({point.name for point in entry_points(group="dpsim.backends")})


def find_backend(name: str) -> Backend:
    """Returns the backend called `name`. A process has one object of each, so that its worker processes stay alive.

    Raises UnknownBackend, ImportError if its module cannot be imported, and BackendUnavailable if its constructor fails
    or it lacks a method of `dpsim.contract.world.Backend`.
    """
    if name not in _backends:
        points = {point.name: point for point in entry_points(group="dpsim.backends")}
        if name not in points:
            there_are = f"(there are: {', '.join(sorted(points)) or 'none'})"
            raise UnknownBackend(f"no backend is installed as {name!r}{did_you_mean(name, points)} {there_are}")
        _backends[name] = _made(points[name])
    return _backends[name]


def _made(point: EntryPoint) -> Backend:
    kind = point.load()
    try:
        backend: Backend = kind()
    except Exception as error:
        message = f"the backend {point.name} = {point.value} cannot be made: {type(error).__name__}: {error}"
        raise BackendUnavailable(message) from error
    missing = [method for method in ("run", "unavailable", "close") if not callable(getattr(backend, method, None))]
    if missing:
        message = f"the backend {point.name} = {point.value} has no {', '.join(missing)}"
        raise BackendUnavailable(f"{message}; expected the methods of dpsim.contract.world.Backend")
    return backend


def close_backends() -> None:
    """Closes all backends and their worker processes."""
    for backend in _backends.values():
        backend.close()


@contextmanager
def warm_backends() -> Iterator[None]:
    """Closes all backends at the end of the block, also after an exception."""
    try:
        yield
    finally:
        close_backends()


def run_scenario(
    scenario: Scenario,
    backend: str = "sim",
    *,
    base: Path | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    gates: Sequence[AnyGate] = (),
) -> Result:
    """Runs a scenario and judges the run.

    `base`: the folder of the scenario's files. `gates`: the order of another run to repeat (`dpsim.campaign.gates`).
    The runner calls `progress(done, total)` from time to time, both in steps; total is None if the program has no
    estimate.

    Raises ScenarioError for a scenario that cannot run at all or on that backend, and UnknownBackend. Raises
    BackendUnavailable if this machine lacks a resource, and Lost if the machine took one away before the run. If the
    machine takes one away during the run, `Run.lost` says so. A hang, a crash or a disagreement is a finding and no
    error.
    """
    program, args, prepared = prepare(scenario, base)
    on, gated = find_backend(backend), replace(world(scenario, program, prepared), gates=tuple(gates), times=True)
    refused = None if backend == SIMULATION else only_simulated(scenario, backend, at_gates=bool(gates))
    if refused is not None:
        raise refused
    reason = on.unavailable(gated.size)
    if reason is not None:
        raise BackendUnavailable(reason)
    total = program.steps(prepared)
    run = on.run(gated, scenario.protocol.name, args, None if progress is None else lambda done: progress(done, total))
    switched_off = scenario.checks.switched_off
    findings, off = switch_off(judge(gated, run, switched_off), switched_off)
    return Result(scenario, gated, run, findings, program.figures(prepared, run.journals), off)
