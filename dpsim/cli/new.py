"""`dpsim new NAME`: writes a new protocol, its scenario and its property test.

    dpsim new agreement                 # agreement.py, agreement.yaml, test_agreement.py
    dpsim new agreement -o mine         # the same, in the folder `mine`

The protocol is correct, so the three commands that `new` prints succeed before the user changes anything.
"""

from __future__ import annotations

import importlib.util
import keyword
import shlex
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from dpsim.cli.console import BAD_INPUT, fail, one_line_errors, say

PROTOCOL = '''"""Ranks agree in each step on the largest of their numbers."""

import numpy as np
from dpsim import Program, register_protocol
from pydantic import BaseModel, Field


@register_protocol("$name")
class $klass(Program):
    """Each rank brings a number to a step, and all ranks decide for the largest one."""

    class Params(BaseModel):
        """What a scenario may set. Hypothesis draws values between these bounds."""

        ranks: int = Field(2, ge=1, le=4)
        steps: int = Field(3, ge=1, le=5)

    @staticmethod
    def ranks(params):
        """The number of ranks of a world with these parameters."""
        return params.ranks

    async def run(self, rank, args):
        """What each rank does. `rank.step` numbers the steps, and `site` names a call in reports."""
        world = rank.host("world")
        for rank.step in range(args.params.steps):
            number = np.array([rank.rank * rank.step], np.int32)
            largest = await world.all_reduce(number, op="max", site="agree")
            rank.decide("largest", int(largest[0]), "world")  # a rank that decides otherwise is a finding
'''

SCENARIO = """\
name: $name
protocol: {name: $name, params: {ranks: 3, steps: 3}}
expect: {explored: proven}  # `dpsim explore` exits with 1 if it tried only some of the schedules
# A fault shows what a report looks like. Remove the # to have rank 1 leave out its second agreement:
# faults: [{kind: skip, rank: 1, at: {site: agree, ordinal: 1}}]
"""

TEST = '''"""The protocol holds for parameters that Hypothesis draws, in every schedule."""

import $name  # noqa: F401  # registers the protocol
from dpsim.testing import holds, scenarios
from hypothesis import given, settings


@settings(deadline=None, max_examples=20)
@given(scenarios(protocol="$name", max_faults=0))
def test_$name(scenario):
    # In a larger protocol, `holds` may reach its limit before the last schedule, and the verdict is then "sampled".
    # Raise the limit, `holds(scenario, schedules=3000)`, or lower the bounds of Params.
    assert holds(scenario).verdict == "proven"
'''


def new(
    name: Annotated[str, typer.Argument(help="The protocol: a lower-case word of Python, such as 'agreement'.")],
    folder: Annotated[
        Path, typer.Option("-o", metavar="FOLDER", help="The folder for the files; the command creates it if needed.")
    ] = Path(),
) -> None:
    """Write a new protocol with a parameter, its scenario and its property test."""
    with one_line_errors():
        wrong = _wrong_name(name)
        if wrong:
            fail(f"{name}: {wrong}", BAD_INPUT)
        files = {folder / file: text for file, text in _files_of(name).items()}
        present = [path for path in files if path.exists() or path.is_symlink()]
        if present:
            fail(f"{present[0]}: this file exists; give another name, or another folder with -o", BAD_INPUT)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            say(f"wrote {path}")
        say("")
        say("\n".join(f"next      {command}" for command in _commands(name, folder)))


def _commands(name: str, folder: Path) -> list[str]:
    scenario, module, test = (str(folder / file) for file in (f"{name}.yaml", f"{name}.py", f"test_{name}.py"))
    given = shlex.join([scenario, "--module", module])
    return [
        f"dpsim run {given}",
        f"dpsim explore {given} --all-up-to ranks=3,steps=2",
        f"pytest -q {shlex.quote(test)}",
    ]


def _files_of(name: str) -> dict[str, str]:
    klass = "".join(part.capitalize() for part in name.split("_"))
    files = {f"{name}.py": PROTOCOL, f"{name}.yaml": SCENARIO, f"test_{name}.py": TEST}
    return {file: Template(text).substitute(name=name, klass=klass) for file, text in files.items()}


def _wrong_name(name: str) -> str:
    from dpsim.contract import registry

    if not name.isascii() or not name.isidentifier() or name != name.lower() or not name.strip("_"):
        return "expected a name of lower-case letters, digits and _, which begins with a letter, such as 'agreement'"
    if keyword.iskeyword(name):
        return "a keyword of Python; give another name"
    if name in {entry.name for entry in registry.protocols()}:
        return "a registered protocol has this name; give another one"
    if importlib.util.find_spec(name) is not None:
        return "an installed module has this name, and Python would import that one; give another name"
    return ""
