"""`dpsim compare`: compares two traces. It prints whether they are equal, or the first difference.

dpsim compare sim.jsonl gloo.jsonl
"""

from __future__ import annotations

from typing import Annotated

import typer

from dpsim.cli.console import NOT_MET, note, one_line_errors, painted, say, say_json
from dpsim.cli.json_alone import json_alone
from dpsim.cli.options import AsJson

MANY_RECORDS = 1_000_000


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A trace that `dpsim run --trace` wrote.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The trace to compare with A.")],
    as_json: AsJson = False,
) -> None:
    """Compare two traces: equal, or the first difference.

    Decisions, ops in their order, and what ranks learned are compared; backend, time and places in the source are not.
    """
    with one_line_errors(), json_alone(as_json):
        import dpsim.trace as traces
        from dpsim.cli import compare_text as text

        both = traces.read_trace(a), traces.read_trace(b)
        records = sum(trace.header.records for trace in both)
        if records > MANY_RECORDS:
            note(f"dpsim: comparing {records:,} records; about ten seconds for each million")
        difference = traces.compare(*both)
        if as_json:
            say_json(text.as_json(*both, difference))
        else:
            say(painted(text.as_text(*both, difference), good=difference is None))
        raise typer.Exit(0 if difference is None else NOT_MET)
