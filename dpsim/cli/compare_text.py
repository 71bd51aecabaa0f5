"""Prints whether two traces are equal, or their first difference, as text and as one JSON object.

    equal: 21548 records, 1791 decisions, 3582 collectives

    A  sim.jsonl
       quickstart on sim, held, digest 9f2c41d07be3a865
    B  gloo.jsonl
       quickstart on gloo, held, digest 9f2c41d07be3a865

The result is the first line. If the scenarios of the two traces differ, a warning at the end lists the differences. The
module replaces control characters from a file, so a trace cannot send commands to the terminal.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpsim.checks.classes import json_of
from dpsim.contract.words import printable, step_words
from dpsim.trace import Difference, Trace, scenario_changes


def as_text(a: Trace, b: Trace, difference: Difference | None) -> str:
    """Returns the text for the comparison of `a` with `b`. `difference`: None if the traces are equal."""
    counts = a.counts
    answer = f"equal: {counts.total()} records, {counts['decision']} decisions, {counts['collective']} collectives"
    lines = [""]
    for name, trace in (("A", a), ("B", b)):
        header = trace.header
        verdict = header.verdict + (f" ({header.klass})" if header.klass else "")
        lines.append(f"{name}  {trace.name}")
        lines.append(
            f"   {header.scenario.get('name', '?')} on {header.backend}, {verdict}, digest {header.digest[:16]}"
        )
    changes = scenario_changes(a.header.scenario, b.header.scenario)
    if changes:
        lines += ["", f"warning: the scenarios differ in {len(changes)} place{'s' * (len(changes) != 1)}:"]
        lines += [f"  {change}" for change in changes]
    return "\n".join([answer if difference is None else str(difference), *map(printable, lines)])


def as_json(a: Trace, b: Trace, difference: Difference | None) -> dict[str, Any]:
    """Returns the same as plain data. `records`, `decisions` and `collectives` count those of A."""
    return {
        "equal": difference is None,
        "a": _header(a),
        "b": _header(b),
        "records": a.header.records,
        "decisions": a.counts["decision"],
        "collectives": a.counts["collective"],
        "scenario_changes": scenario_changes(a.header.scenario, b.header.scenario),
        "difference": None if difference is None else _in_words(asdict(difference)),
    }


def _in_words(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: step_words(value) if isinstance(value, str) else value for key, value in fields.items()}


def _header(trace: Trace) -> dict[str, Any]:
    header = trace.header
    return {
        "file": trace.name,
        "backend": header.backend,
        "verdict": header.verdict,
        **json_of(header.klass),
        "records": header.records,
        "digest": header.digest,
    }
