"""Prints the result of `dpsim check-engine`, as text or as one JSON object.

    kind         release  ours        rows  equal  departures  differing
    captures_004 0.17.0   source-004  100   41     59          0

    captures_004 0.17.0 departs from the engine, as source-004:
      seq_lens  the whole batch for each sequence, where 0.17 has the sequence's own share

    EQUAL  15,026 rows of 15,085; 59 depart as they are named

`ours` is the release, or the form, of dpsim's function. If a kind of question differs, the text contains the first
differing row with both answers, and file and line of dpsim's function. The text escapes control characters of a file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from dpsim.contract.words import counted, printable
from dpsim_engine.check import Checked
from dpsim_engine.comparison import Compared

Columns = Callable[..., list[str]]

HEAD = ("kind", "release", "ours", "rows", "equal", "departures", "differing")


def table(found: Checked, columns: Columns) -> str:
    """Returns all lines but the verdict. `columns` is a function that aligns the cells of rows."""
    lines = [_source(found), ""]
    lines += columns([HEAD, *(_cells(one) for one in found.compared)]) if found.compared else []
    for one in found.compared:
        if one.reasons:
            lines += ["", f"{one.kind} {one.release} departs from the engine, as {one.ours}:"]
            lines += [f"  {line}" for line in columns(list(one.reasons.items()), indent=2)]
    for one in found.compared:
        lines += _first_difference(one, columns)
    for heading, trouble in (("could not be asked:", True), ("not compared:", False)):
        kinds_by_reason = defaultdict(list)
        for kind in found.unasked:
            if kind.trouble is trouble:
                kinds_by_reason[kind.reason].append(kind.kind)
        if kinds_by_reason:
            rows = [(", ".join(kinds), reason) for reason, kinds in kinds_by_reason.items()]
            lines += ["", heading, *(f"  {line}" for line in columns(rows, indent=2))]
    return "\n".join([*map(printable, lines), ""])


def verdict(found: Checked) -> str:
    """Returns the last line, the verdict."""
    rows = sum(one.rows for one in found.compared)
    departed = sum(one.departed for one in found.compared)
    departing = f"; {departed:,} depart as they are named" if departed else ""
    if found.verdict == "different":
        kinds = list(dict.fromkeys(f"{one.kind} {one.release}" for one in found.compared if one.differing))
        differing = sum(one.differing for one in found.compared)
        return printable(f"DIFFERENT  {differing:,} of {rows:,} rows, in {', '.join(kinds)}{departing}")
    equal = f"{sum(one.equal for one in found.compared):,} of {rows:,} rows are equal{departing}"
    if found.verdict == "equal":
        return f"EQUAL  {equal}"
    trouble = [one.kind for one in found.unasked if one.trouble]
    nothing = f"{counted(len(trouble), 'kind')} could not be asked" if trouble else "nothing was compared"
    return f"NO VERDICT  {nothing}; {equal}"


def _source(found: Checked) -> str:
    if not found.release:
        return f"stored answers in {found.folder}"
    taken = f", taken for {found.as_release}" if found.as_release else ""
    return f"vllm {found.release}, as it is installed{taken}; questions in {found.folder}"


def _cells(one: Compared) -> tuple[str, ...]:
    counts = (one.rows, one.equal, one.departed, one.differing)
    return (one.kind, one.release, one.ours, *map(str, counts))


def _first_difference(one: Compared, columns: Columns) -> list[str]:
    if one.first is None:
        return []
    shown = [
        ("question", json.dumps(one.first.question)),
        ("engine", json.dumps(one.first.engine)),
        ("dpsim", json.dumps(one.first.dpsim)),
        ("asked", one.asks),
        ("ours", one.where),
    ]
    differs = f"{one.kind} {one.release} differs first in {one.first.row}, in {', '.join(one.first.fields)}:"
    return ["", differs, *(f"  {line}" for line in columns(shown, indent=2))]


def as_json(found: Checked) -> dict[str, Any]:
    """Returns the result as plain data. `release` is that of the installed vllm, or null for stored answers."""
    return {
        "answers": str(found.folder),
        "release": found.release or None,
        "as": found.as_release or None,
        "compared": [_as_json(one) for one in found.compared],
        "not_compared": [one._asdict() for one in found.unasked],
        "verdict": found.verdict,
    }


def _as_json(one: Compared) -> dict[str, Any]:
    first = None if one.first is None else one.first._asdict()
    return {**one._asdict(), "equal": one.equal, "first": first}
