"""Scenario in, verdict out: the one place where scenario, protocol, backend, checks and expectation meet.

>>> from dpsim.scenario import scenario_from
>>> request = {"arrival": "0ms", "prompt_tokens": 5, "output_tokens": 2}
>>> result = run_scenario(scenario_from({"name": "two", "workload": {"requests": [request]}}))
>>> result.verdict, result.met, result.steps
('held', True, 2)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from dpsim import checks
from dpsim.checks.judge import judge, not_claimed, not_run, switch_off, switched_off_text
from dpsim.diagnose.injected import never_applied
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.world import Backend, BackendUnavailable, Run, World


class UnknownBackend(ValueError):
    """No backend of that name is installed."""


@dataclass
class Result:
    """A judged run. `findings`: what does not hold, the primary one first. `switched_off`: how many more findings there
    were that the scenario does not want to hear of, by pattern; those of checks that were not run are not known.
    """

    scenario: Scenario
    world: World
    run: Run
    findings: list[checks.Finding]
    figures: dict[str, Any]
    switched_off: dict[str, int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps that rank 0 began."""
        return max((record[1] for record in self.run.journals[0][-1:]), default=-1) + 1

    @property
    def verdict(self) -> Literal["held", "violated"]:
        return "violated" if self.findings else "held"

    @property
    def primary(self) -> checks.Finding | None:
        return self.findings[0] if self.findings else None

    @property
    def never_applied(self) -> list[str]:
        """Faults and delays of the scenario that did not happen, and why. A run that stopped early may not have
        come to them.
        """
        return never_applied(self.world, self.run)

    @property
    def unmet(self) -> str | None:
        """In what the run is not as the scenario expects it; None if it is.

        A run that came to its end without a planted fault or delay having happened is not what the scenario describes.
        """
        expected, primary = self.scenario.expect, self.primary
        if self.run.finished and self.never_applied:
            return f"never applied: {'; '.join(self.never_applied)}"
        if self.unclaimed is not None:
            return None
        if expected.verdict != self.verdict:
            told = any(self.switched_off.values()) or not_run(list(self.switched_off))
            off = switched_off_text(self.switched_off) if told else ""
            return f"expected {expected.verdict}, came {self.verdict}" + (f" ({off})" if off else "")
        if primary is None:
            return None
        if expected.klass is not None and not checks.matches(primary.klass, expected.klass):
            return f"expected a finding of class {expected.klass}, came {primary.klass}"
        wanted = expected.culprit
        if wanted is not None:
            culprit = primary.culprit
            if culprit is None:
                return f"expected rank {wanted.rank} as culprit, but the finding names none"
            if culprit.rank != wanted.rank or wanted.step not in (None, culprit.step):
                came = f"rank {culprit.rank} in step {culprit.step}"
                return f"expected rank {wanted.rank} in step {wanted.step} as culprit, came {came}"
        return None

    @property
    def unclaimed(self) -> str | None:
        """Why it cannot be said whether the run is as expected: nothing was found, and what is expected is nothing
        that its backend could show. None if it can be said.
        """
        klass = self.scenario.expect.klass
        return None if self.findings or klass is None else not_claimed(self.run, klass)

    @property
    def met(self) -> bool:
        """Whether the run is as the scenario expects it: a planted fault that is found as expected is."""
        return self.unmet is None and self.unclaimed is None


_backends: dict[str, Backend] = {}


def backend_names() -> list[str]:
    """The backends installed, by name."""
    return sorted({point.name for point in entry_points(group="dpsim.backends")})


def find_backend(name: str) -> Backend:
    """The backend of that name; one object a process, so that its worker pool stays warm. Raises UnknownBackend."""
    if name not in _backends:
        points = {point.name: point for point in entry_points(group="dpsim.backends")}
        if name not in points:
            near = difflib.get_close_matches(name, points, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownBackend(
                f"no backend is installed as {name!r}{hint} (there are: {', '.join(sorted(points)) or 'none'})"
            )
        _backends[name] = points[name].load()()
    return _backends[name]


def close_backends() -> None:
    """Give back worker pools."""
    for backend in _backends.values():
        backend.close()


@contextmanager
def warm_backends() -> Iterator[None]:
    """Close all backends at the end, whatever happens."""
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
) -> Result:
    """Run a scenario and judge it.

    `base`: the folder against which its files are resolved (that of the scenario file). `progress(done, total)` is
    called now and then with steps; total is None where the protocol does not know.

    Raises ScenarioError for what cannot be read or run, UnknownBackend, and BackendUnavailable if this machine
    lacks what the backend needs. A hang, a crash, a disagreement are no errors but findings.
    """
    program, args, prepared = prepare(scenario, base)
    on, told = find_backend(backend), world(scenario)
    reason = on.unavailable(told.size)
    if reason is not None:
        raise BackendUnavailable(reason)
    total = program.steps(prepared)
    run = on.run(told, scenario.protocol.name, args, None if progress is None else lambda done: progress(done, total))
    switched_off = scenario.checks.switched_off
    findings, off = switch_off(judge(told, run, switched_off), switched_off)
    return Result(scenario, told, run, findings, program.figures(prepared, run.journals), off)
