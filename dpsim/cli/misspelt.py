"""Commands and options that the user misspelt: the error has a suggestion where a name is near, and else none.

    $ dpsim explroe quickstart
    Error: No such command 'explroe'; did you mean 'explore'?

typer suggests names of which six letters in ten agree, such as `export` for `explore`. dpsim asks
`dpsim.contract.words.nearest`, as for all other names.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from dpsim.contract.words import nearest, question

USAGE_ERROR: Any = typer.BadParameter.__base__
"""Of click. typer brings its own click in some releases, and exports only this subclass."""

MOST = 3


class NamedCommands(TyperGroup):
    """Commands by name."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "suggest_commands": False})

    def make_context(self, *args: Any, **given: Any) -> Any:
        """Read the options in front of the command."""
        try:
            return super().make_context(*args, **given)
        except USAGE_ERROR as error:
            suggest_options(error)
            raise

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Find the command."""
        try:
            return super().resolve_command(ctx, args)
        except USAGE_ERROR as error:
            if not hasattr(error, "option_name"):
                error.message = str(error.message).rstrip(".") + question(nearest(args[0], self.commands, MOST))
            raise


def suggest_options(error: Any) -> None:
    """Put the near options into the error of an unknown one, in place of typer's."""
    if getattr(error, "possibilities", None) is None:
        return
    known = [] if error.ctx is None else [word for one in error.ctx.command.params for word in one.opts]
    long = [word for word in known if word.startswith("--")]
    error.message = str(error.message).rstrip(".") + question(nearest(error.option_name, long, MOST))
    error.possibilities = None
