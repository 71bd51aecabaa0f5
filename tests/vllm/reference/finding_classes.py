"""Generates docs/finding-classes.md: each class of a finding, from the table `CLASSES`."""

from __future__ import annotations

from dpsim.checks.classes import CLASSES, HEADINGS, class_and_detail
from dpsim.checks.judge import CHECKS
from tests.vllm.reference.tables import code, table

OPENING = """\
# Classes of findings

If a run breaks a rule, dpsim reports a *finding*. Each finding has a class, such as `HANG:COLLECTIVE`, and this page
lists all classes. Many findings also have a *detail*, such as `MISSING_RANK`, which tells how the mistake showed. One
mistake may show in several ways, because schedules differ. The last column describes the usual fix. `dpsim show CLASS`
prints a class with all details, and the known mistakes that show them.

A scenario selects findings by a pattern such as `HANG:*`, in its keys `expect.class` and `checks.switched_off`, and a
command in its option `--off`. A pattern may name a class, or a class and a detail: `HANG:COLLECTIVE:MISSING_RANK`.
`python -m tests.vllm.reference` writes this page from the code.
A part in angle brackets represents any word, such as the name of an exception.
"""


def page() -> str:
    """Returns the text of docs/finding-classes.md."""
    parts = [OPENING]
    for family in dict.fromkeys(one.family for one in CLASSES.values()):
        rows = [(*_parts(one.name), one.words, one.cure) for one in CLASSES.values() if one.family == family]
        said = [f"A report calls it {HEADINGS[family].capitalize()}.", ""] if family in HEADINGS else []
        parts += [f"## {family}", "", *said]
        parts += [table(["class", "detail", "what happens", "what to do"], rows), ""]
    checks = sorted((code(name), ", ".join(map(code, check.classes))) for name, check in CHECKS.items())
    return "\n".join([*parts, "## Checks", "", table(["check", "finds"], checks), ""])


def _parts(name: str) -> tuple[str, str]:
    klass, detail = class_and_detail(name)
    return code(klass), code(detail) if detail else ""
