"""docs/finding-classes.md: each class of a finding, from `CLASSES`, `WORDS` and `CURES`."""

from __future__ import annotations

from itertools import groupby

from dpsim.checks.finding import CLASSES
from dpsim.checks.judge import CHECKS
from dpsim.diagnose.class_cures import CURES
from dpsim.diagnose.class_words import KINDS, WORDS
from tests.vllm.reference.tables import code, table

OPENING = """\
# Classes of findings

`python -m tests.vllm.reference` writes this page from the classes. `dpsim show CLASS` prints one of them, with
the variants of the museum that show it. Patterns such as `HANG:*` select classes, in `expect.class`, in
`checks.switched_off` and in `--off`. A part in angle brackets stands for any word, such as the name of an exception.

A report names the rank, the line and the cause. The last column says what a fix of the class looks like.
"""


def page() -> str:
    """docs/finding-classes.md."""
    parts = [OPENING]
    for kind, classes in groupby(CLASSES, lambda klass: klass.partition(":")[0]):
        rows = [(code(klass), WORDS[klass], CURES[klass]) for klass in classes]
        words = KINDS.get(kind, kind).capitalize()
        parts += [f"## {kind}", "", *[f"A report calls it {words}.", ""] * (words.upper() != kind)]
        parts += [table(["class", "what happens", "what to do"], rows), ""]
    checks = sorted((code(name), ", ".join(map(code, check.classes))) for name, check in CHECKS.items())
    return "\n".join([*parts, "## Checks", "", table(["check", "finds"], checks), ""])
