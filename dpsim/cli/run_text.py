"""Prints a judged run: the verdict, a table and the expectation, as text and as one JSON object.

    scenario               quickstart
    backend                sim
    steps                  1,791 on 4 ranks
    ...
    HELD  in 1 schedule: 1,791 steps on 4 ranks (sim)
    2 findings switched off: 2 by RACE:*
    expected: held; met

A run with findings begins with its report (`dpsim.diagnose.report`), and then has one line of the table, or with
`--full` all. The JSON object always has all keys, with null where there is no value, and times in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from dpsim.checks.classes import json_of
from dpsim.checks.judge import counted as counted_off
from dpsim.checks.judge import not_run, switched_off_text
from dpsim.cli.console import columns, painted
from dpsim.cli.unchecked import unchecked
from dpsim.contract.words import actors_text, counted, duration, middle_cut, printable, with_services
from dpsim.diagnose.evidence import NOTHING, Extras, chain_of, evidence
from dpsim.diagnose.report import report
from dpsim.diagnose.timeouts import passed_timeouts
from dpsim.diagnose.words.told import facts_json, told

if TYPE_CHECKING:
    from dpsim.checks import Finding
    from dpsim.contract.world import Run
    from dpsim.runner import Result
    from dpsim.scenario import Scenario

RANKS_LISTED = 8
WORST_RANKS = 3
LONGEST_PARAM = 400
"""The most characters of a parameter in the report. The calls of an imported job have more."""
ENDED = {"blocked": "hung", "raised": "raised", "died": "died"}


def as_text(result: Result, extras: Extras, trace: Path | None, digest: str | None, full: bool = False) -> str:
    """Returns the text of a run. `extras`: more parts of the report. `trace`, `digest`: the file of the trace and its
    digest, or None. `full`: the whole table, also after a report.
    """
    failed = bool(result.findings or result.run.lost)
    rows = table(result) if full or not failed else [("run", _in_a_line(result))]
    if trace is not None and digest is not None:
        rows += [("trace", str(trace)), ("trace digest", digest[:16])]
    if failed:
        lines = [painted(report(result.run, result.findings, extras, full), good=False), "", *columns(rows)]
        lines += result.scenario.own_settings()
    else:
        lines = [painted(verdict_line(result), good=True), *unchecked(result), "", *columns(rows)]
    if not str(result.unmet).startswith("never applied"):  # the last line names them otherwise
        lines += [f"never applied: {line}" for line in result.never_applied]
    return "\n".join([*lines, *switched_off_lines(result), expectation_line(result)])


def table(result: Result) -> list[tuple[str, str]]:
    """Returns names and values of the table, as text."""
    run, services = result.run, result.run.services
    simulated = run.backend == "sim"
    return [
        ("scenario", result.scenario.name),
        *params_row(result.scenario),
        ("backend", run.backend),
        ("ranks", str(run.size)),
        *([("services", f"{len(services)}: {', '.join(services)}")] if services else []),
        ("steps", f"{result.steps:,}"),
        *((name, _figure(value)) for name, value in result.figures.items()),
        *_graphs(result),
        ("simulated time" if simulated else "wall time", duration(run.elapsed_ns)),
        *_waits(run, "waited" if simulated else "blocked"),
        *_timeouts(result),
    ]


def _in_a_line(result: Result) -> str:
    run = result.run
    size = f"{counted(run.size, 'rank')}" + (f" and {counted(len(run.services), 'service')}" if run.services else "")
    time = "simulated" if run.backend == "sim" else "on the clock"
    steps = counted(result.steps, "step")
    return f"{result.scenario.name} on {run.backend}: {size}, {steps}, {duration(run.elapsed_ns)} {time}"


def _timeouts(result: Result) -> list[tuple[str, str]]:
    """Returns rows for the time-outs that passed. The report of a failure has these lines already."""
    run = result.run
    lines = [] if result.findings or run.lost else passed_timeouts(run)
    names = ["time-outs passed", *[""] * len(lines)]
    return [(name, with_services(line, run.size, run.services)) for name, line in zip(names, lines, strict=False)]


def params_row(scenario: Scenario) -> list[tuple[str, str]]:
    """Returns a row with the parameters of a program with `Params`, in the syntax of a scenario file."""
    from dpsim.scenario.yaml.writer import on_one_line

    params = scenario.protocol.plain_params
    words = [middle_cut(f"{name} {on_one_line(value)}", LONGEST_PARAM) for name, value in (params or {}).items()]
    return [("params", printable(", ".join(words)))] if words else []


def verdict_line(result: Result) -> str:
    """Returns the verdict of a run without findings, on one line."""
    steps, ranks = result.steps, result.run.size
    if result.verdict == "vacuous":
        nothing = f"no rank issued anything but decisions, sleeps and idle gets ({result.run.backend})"
        return f"VACUOUS  {nothing}: there was nothing to coordinate"
    services = len(result.run.services)
    beside = f" and {services} service{'s' * (services != 1)}" if services else ""
    of_run = f"{counted(steps, 'step')} on {counted(ranks, 'rank')}{beside} ({result.run.backend})"
    return f"HELD  in 1 schedule: {of_run}"


def expectation_line(result: Result) -> str:
    """Returns the line that names the expectation, and whether the run meets it."""
    expected = result.scenario.expected
    if result.unmet is not None:
        return f"expected: {expected}; NOT met: {result.unmet}"
    return f"expected: {expected}; " + (
        "met" if result.unclaimed is None else f"neither met nor not: {result.unclaimed}"
    )


def switched_off_lines(result: Result) -> list[str]:
    """Returns a line that counts the suppressed findings, if the scenario switches findings off."""
    text = switched_off_text(result.switched_off)
    return [text] if text else []


def as_json(result: Result, digest: str | None, extras: Extras = NOTHING) -> dict[str, Any]:
    """Returns the run as plain data. `digest`: the digest of its trace, or None if no trace can record the run."""
    primary, graphs = result.primary, result.graphs
    return {
        "scenario": result.scenario.name,
        "backend": result.run.backend,
        "verdict": result.verdict,
        "lost": result.run.lost or None,
        **json_of(primary.klass if primary else None),
        "culprit": _culprit(primary) if primary else None,
        "met": result.unmet is None and result.unclaimed is None,
        "unmet": result.unmet,
        "unclaimed": result.unclaimed,
        "never_applied": result.never_applied,
        "findings": [
            {
                "check": finding.check,
                **json_of(finding.klass),
                "message": finding.message,
                "culprit": _culprit(finding),
                "details": list(finding.details),
                "ground": list(finding.grounds),
                "waits": list(finding.waits),
                "chain": [list(call) for call in chain_of(result.run, finding)],
                "facts": facts_json(finding.of),
            }
            for finding in (told(result.run, one) for one in result.findings)
        ],
        **evidence(result.run, result.findings, extras),
        "switched_off": counted_off(result.switched_off),
        "not_run": not_run(list(result.switched_off)),
        "steps": result.steps,
        "figures": result.figures,
        "graphs": None if graphs is None else graphs._asdict(),
        "waited_ns": result.run.waited_ns,
        "elapsed_ns": result.run.elapsed_ns,
        "digest": digest,
    }


def _culprit(finding: Finding) -> dict[str, Any] | None:
    culprit = finding.culprit
    if culprit is None:
        return None
    place = {"rank": culprit.rank, "step": culprit.step, "site": culprit.site, "where": culprit.where or None}
    return {
        **place,
        "within": culprit.within or None,
        "of_peer": culprit.of_peer,
        "ranks": [*culprit.ranks] or [culprit.rank],
    }


def _figure(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_figure(item)}" for name, item in value.items())
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _graphs(result: Result) -> list[tuple[str, str]]:
    graphs = result.graphs
    if graphs is None:
        return []
    replays = f"{graphs.replayed:,} replay{'s' * (graphs.replayed != 1)}"
    return [("graphs", f"{graphs.captured:,} captured, {replays}" if graphs.captured else "none captured")]


def _waits(run: Run, word: str) -> list[tuple[str, str]]:
    """The backend decides whether it measures waits or calls that block (`dpsim.contract.world.Run`)."""
    waited_ns = run.waited_ns
    if len(waited_ns) <= RANKS_LISTED:
        shares = [_share(waited, run.elapsed_ns) for waited in waited_ns]
        ends = ["" if end == "finished" else f", then {ENDED[end]}" for end in run.ends]
        return [
            (f"{actors_text([rank], run.size, run.services)} {word}", share + end)
            for rank, (share, end) in enumerate(zip(shares, ends, strict=True))
        ]
    worst = sorted(range(len(waited_ns)), key=lambda rank: (-waited_ns[rank], rank))[:WORST_RANKS]
    return [
        (
            f"ranks {word}",
            f"min {duration(min(waited_ns))}, median {duration(median(waited_ns))}, max {duration(max(waited_ns))}",
        ),
        (
            "longest",
            ", ".join(f"{actors_text([rank], run.size, run.services)} {duration(waited_ns[rank])}" for rank in worst),
        ),
    ]


def _share(waited: int, elapsed: int) -> str:
    return duration(waited) + (f" ({100 * waited / elapsed:.1f} %)" if elapsed else "")
