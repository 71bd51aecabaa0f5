"""`dpsim list` and `dpsim schema`: list what a user can run, and print the JSON Schema of scenario files.

dpsim schema > docs/scenario.schema.json
"""

from __future__ import annotations

from typing import Annotated

import typer

from dpsim.cli import completers
from dpsim.cli.console import BAD_INPUT, fail, one_line_errors, say, say_json
from dpsim.cli.options import AsJson, Modules, import_modules


def schema(module: Modules = None) -> None:
    """Print the JSON Schema of scenario files, for editors."""
    with one_line_errors():
        from dpsim.contract.registry import of_others
        from dpsim.scenario.schema import schema_text

        import_modules(module)
        say(schema_text(of_others()).rstrip("\n"))


def list_all(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]",
            autocompletion=completers.kinds,
            help="scenarios, museum, protocols, variants or backends.",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only names that have this text, or match this pattern ('pp*').")
    ] = None,
    module: Modules = None,
    as_json: AsJson = False,
) -> None:
    """List scenarios, protocols, variants and backends."""
    with one_line_errors():
        from dpsim.cli import list_text as text
        from dpsim.contract.words import nearest, question

        if what is not None and what not in text.KINDS:
            hint = question(nearest(what, text.KINDS, 1))
            fail(f"{what}: dpsim lists no such things{hint}; expected one of {', '.join(text.KINDS)}", BAD_INPUT)
        import_modules(module)
        found = text.found(what, only)
        if only is not None and not any(found.values()):
            every = f"dpsim list {what}" if what else "dpsim list"
            fail(f"--only {only}: no name has this text; `{every}` prints all names", BAD_INPUT)
        say_json(found) if as_json else say(text.as_text(found))
