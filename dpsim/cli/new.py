"""`dpsim new NAME`: writes a new protocol, its scenario and its property test.

    dpsim new agreement                 # agreement.py, agreement.yaml, test_agreement.py
    dpsim new agreement -o mine         # the same, in the folder `mine`

The protocol is correct, so the three commands that `new` prints succeed before the user changes anything.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli.console import BAD_INPUT, fail, one_line_errors, say


def new(
    name: Annotated[str, typer.Argument(help="The protocol: a lower-case word of Python, such as 'agreement'.")],
    folder: Annotated[
        Path, typer.Option("-o", metavar="FOLDER", help="The folder for the files; the command creates it if needed.")
    ] = Path(),
) -> None:
    """Write a new protocol with a parameter, its scenario and its property test."""
    with one_line_errors():
        from dpsim.cli import new_files

        wrong = new_files.wrong_name(name)
        if wrong:
            fail(f"{name}: {wrong}", BAD_INPUT)
        files = {folder / file: text for file, text in new_files.of(name).items()}
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
