"""Generates the first table of docs/exit-codes.md. The rest of that page is written by hand."""

from __future__ import annotations

import signal

from dpsim.cli.exit_codes import ASK_TO_END, CODES, INTERRUPTED, TERMINATED
from tests import ROOT
from tests.vllm.reference.tables import table

PAGE = ROOT / "docs" / "exit-codes.md"
BEGIN = "<!-- `python -m tests.vllm.reference` writes this table -->\n\n"
END = "\n\n<!-- end of the table -->"


def page() -> str:
    """Returns docs/exit-codes.md with a fresh table. Raises ValueError if the page has no comments around the table."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: the comments around the table are gone; write them again")
    return before + BEGIN + codes() + END + after


def codes() -> str:
    """Returns the table of all exit codes. The codes of further signals share a row."""
    rows = [(str(code), "<br>".join(one.outcome), one.output) for code, one in CODES.items()]
    others = [name for name in ASK_TO_END if 128 + signal.Signals[name] != TERMINATED]
    numbers = ", ".join(str(128 + signal.Signals[name]) for name in others)
    same = f"as {INTERRUPTED}, after {', '.join(others)}: 128 and the number that Linux gives the signal"
    return table(["exit code", "outcome", "output"], [*rows, (numbers, same, "on stderr")])
