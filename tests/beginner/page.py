"""Runs the mistakes of users' first protocols and writes docs/mistakes.md.

python -m tests.beginner.page docs/mistakes.md      # runs each mistake on the simulation and on gloo
python -m tests.beginner.page parts.json --sections # writes the parts that need no gloo, as JSON
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent

from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.cli.options import import_modules
from dpsim.cli.run_text import as_text
from dpsim.contract.words import BadInput
from dpsim.diagnose.evidence import NOTHING
from dpsim.runner import run_scenario, warm_backends
from dpsim.scenario import load_scenario
from tests.beginner.mistakes import FOOT, HEAD, LOOP, MISTAKES, Mistake

IMPORTED = ("asyncio", "random", "time")
"""Modules of the standard library that the lines of a mistake use."""


def program(mistake: Mistake, name: str, right: bool) -> str:
    """Returns the text of a module whose loop contains the lines of the mistake, or those of its cure (`right`)."""
    lines = mistake.cure if right else mistake.lines
    imports = "".join(f"import {module}\n" for module in IMPORTED if f"{module}." in lines)
    loop = LOOP if right else mistake.loop
    return imports + HEAD.replace("NAME", name) + indent(body(loop, lines), " " * 8) + FOOT


def body(loop: str, lines: str) -> str:
    """Returns a loop whose body is `lines`."""
    return f"{loop}\n{indent(lines.lstrip(), '    ')}"


def written(mistake: Mistake, right: bool) -> str:
    """Writes the program and its scenario to the working folder, and returns the name of both."""
    name = f"{mistake.name}_mended" if right else mistake.name
    Path(f"{name}.py").write_text(program(mistake, name, right))
    params = f"params: {{ranks: {mistake.ranks}}}"
    scenario = f"name: {name}\nprotocol: {{name: {name}, {params}}}\nlimits: {mistake.limits}\n"
    Path(f"{name}.yaml").write_text(scenario)
    return name


def on_sim(mistake: Mistake, right: bool) -> str:
    """Returns what dpsim's command prints on the simulation for the mistake, or for its cure (`right`)."""
    name = written(mistake, right)
    words = [mistake.command, f"{name}.yaml", "--module", f"{name}.py"]
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, words, prog_name="dpsim").output


def on_gloo(mistake: Mistake) -> str:
    """Returns what `dpsim run --backend gloo` prints for the mistake.

    The function runs the scenario in this process, so that the next run can use the same gloo workers. A command would
    stop its workers.
    """
    name = written(mistake, right=False)
    import_modules([f"{name}.py"])
    try:
        scenario = load_scenario(Path(f"{name}.yaml"))
        return as_text(run_scenario(scenario, "gloo"), NOTHING, None, None)
    except BadInput as error:
        return f"dpsim: {error}\n"


@contextmanager
def folder() -> Iterator[None]:
    """Makes a new working folder that exists until the end of the `with` block."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        try:
            yield
        finally:
            os.chdir(before)


LEFT_OUT = ("run ", "next ", "observed ", "expected: ", "explored ", "schedule ", "results: ")
"""The page leaves out lines that begin with these words, because they contain times or are equal for all mistakes."""

GOOD = re.compile(r"^(?:HELD|PROVEN|VACUOUS).*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""Matches a good verdict with its notes. The output of the program precedes it, and the figures of the run follow it.
"""

BACKEND = re.compile(r" \((sim|gloo)\)$")
"""Matches the name of the backend at the end of a good verdict."""

DRAWN = re.compile(r"(chosen = |decided )\d+")
"""Matches random numbers in a report."""


REPAIRED = re.compile(r"^repair .*\n(?: {10}.*\n)*", re.MULTILINE)
"""Matches the lines about a repair."""


def shown(output: str) -> str:
    """Returns the lines of an output that the page shows, with N for random numbers."""
    good = GOOD.search(output)
    lines = (good[0] if good else output).splitlines()
    kept = [BACKEND.sub("", line) for line in lines if line and not line.startswith(LEFT_OUT)]
    return DRAWN.sub(r"\1N", "\n".join(kept))


def section(number: int, mistake: Mistake, sim: str) -> str:
    """Returns a section's begin: what the user wrote, and what the simulation prints."""
    command = f"`dpsim {mistake.command}` on {mistake.ranks} ranks"
    wrong = fence("python", body(mistake.loop, mistake.lines))
    return f"## {number}. {mistake.what}\n\n{wrong}\n{command} prints:\n\n{fence('text', shown(sim))}\n"


def cure(mistake: Mistake, right: str) -> str:
    """Returns the reason for the mistake, and the corrected lines. `right` is what dpsim prints for the corrected
    lines.

    Raises AssertionError if dpsim reports a finding for the corrected lines.
    """
    assert re.search("^(HELD|PROVEN)", right, re.MULTILINE), f"the cure of {mistake.name} does not hold:\n{right}"
    lines = fence("python", body(LOOP, mistake.cure))
    return f"{mistake.why} Corrected lines:".lstrip() + f"\n\n{lines}\n"


def compared(mistake: Mistake, sim: str, gloo: str) -> str:
    """Returns what gloo prints for the mistake. Raises AssertionError if the outputs of gloo and the simulation differ,
    and the mistake states no reason.
    """
    if mistake.gloo:
        return f"On gloo: {mistake.gloo}\n\n{fence('text', shown(gloo))}\n"
    same = REPAIRED.sub("", shown(sim))
    assert shown(gloo) == same, f"{mistake.name} on gloo:\n{gloo}\non sim:\n{sim}"
    if same != shown(sim):
        return "Gloo prints the same without `repair`, because only the simulation can repair a call.\n\n"
    return "Gloo prints the same.\n\n"


def fence(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


AROUND = HEAD.replace("NAME", "mistake") + "        ...\n" + FOOT

INTRODUCTION = f"""\
# {len(MISTAKES)} mistakes of a first protocol

This page shows mistakes that users make in a first protocol. Each section contains the wrong lines, dpsim's report, and
corrected lines. The lines replace the `...` in the method `run` of this program:

{fence("python", AROUND)}
The page omits those lines of a report that contain times or commands. `python -m tests.beginner.page docs/mistakes.md`
runs each program in the simulation and on gloo, and writes this page. A test compares the page with new runs.
[What a user gets wrong](bad-scenarios.md) lists mistakes in scenario files.

"""


def sections() -> list[str]:
    """Returns the parts of the page that need only the simulation."""
    with folder(), warm_backends():
        return [section(number, mistake, on_sim(mistake, right=False)) for number, mistake in enumerate(MISTAKES, 1)]


def page() -> str:
    """Returns the text of docs/mistakes.md, after runs on the simulation and on gloo."""
    text = INTRODUCTION
    with folder(), warm_backends():
        gloo = [on_gloo(mistake) for mistake in MISTAKES]  # a command on the simulation stops the gloo workers
        for number, mistake in enumerate(MISTAKES, 1):
            sim = on_sim(mistake, right=False)
            text += section(number, mistake, sim) + compared(mistake, sim, gloo[number - 1])
            text += cure(mistake, on_sim(mistake, right=True))
    return text.rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="The file to write.")
    parser.add_argument("--sections", action="store_true", help="Write the parts of the simulation, as JSON.")
    given = parser.parse_args()
    given.file.write_text(json.dumps(sections()) if given.sections else page())
