"""`dpsim show NAME`: explains a name of dpsim.

    dpsim show quickstart                              # a scenario: its file
    dpsim show conformance                           # a protocol: its forms, parameters and variants
    dpsim show M-DP-1                                # a variant: what it does wrong, and what finds it
    dpsim show HANG:COLLECTIVE                       # a class of findings, with its details
    dpsim show HANG:COLLECTIVE:MISSING_RANK          # one of them
    dpsim show gloo                                  # a backend
    dpsim show I-DP-6                                # a key that a message names
    dpsim show 3                                     # an exit code
    dpsim show 2.12                                  # a section of the specification of these keys
    dpsim show 0.33                                  # a form of protocols
    dpsim show agreed_mode                           # a method that a variant may override
    dpsim show send                                  # a call of the contract: its signature and docstring
    dpsim show LocalBatch                            # a type in the signature of such a method

A name may have several meanings, for example a scenario and a protocol. The command then shows each of them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dpsim.cli import completers
from dpsim.cli.console import BAD_INPUT, fail, one_line_errors, say, say_json
from dpsim.cli.options import AsJson, Modules, import_modules


def show(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=completers.names,
            help="A scenario, protocol, form, variant, class, backend, key, exit code, call, hook or type.",
        ),
    ],
    module: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Show what a name means: a scenario, protocol, form, variant, class of findings, backend, key, exit code, call,
    hook or type."""
    with one_line_errors():
        from dpsim.cli import show_text as text
        from dpsim.contract.words import nearest, question

        import_modules(module)
        found = text.meanings(name)
        if not found:
            hint = question(nearest(name, text.names(), 3))
            expected = (
                "expected a scenario, protocol, form, variant or backend of `dpsim list`, a class of findings, key or "
                "call, or a hook or type that `dpsim show PROTOCOL` prints"
            )
            if name.isdecimal():
                expected += "; docs/exit-codes.md has all exit codes"
            fail(f"{name}: dpsim does not know this name{hint}; {expected}", BAD_INPUT)
        say_json({"meanings": found}) if as_json else say(text.as_text(found))
