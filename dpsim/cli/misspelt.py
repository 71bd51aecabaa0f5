"""Suggests commands and options for a misspelt one. If no name is similar, the error has no suggestion.

    $ dpsim explroe quickstart
    Error: No such command 'explroe'; did you mean 'explore'?

typer suggests any name that shares six letters in ten, such as `export` for `explore`. So dpsim replaces its
suggestions with those of `dpsim.contract.words.nearest`, which all other messages use.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from dpsim.contract.words import nearest, question

USAGE_ERROR: Any = typer.BadParameter.__base__
"""The base class of click's usage errors. Some releases of typer bundle click and export only BadParameter."""

MOST = 3


class NamedCommands(TyperGroup):
    """A group of commands whose errors have dpsim's suggestions."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "suggest_commands": False})

    def make_context(self, *args: Any, **given: Any) -> Any:
        """Parses the options before the command."""
        try:
            return super().make_context(*args, **given)
        except USAGE_ERROR as error:
            suggest_options(error)
            raise

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Finds the command that the user named."""
        try:
            return super().resolve_command(ctx, args)
        except USAGE_ERROR as error:
            if not hasattr(error, "option_name"):
                error.message = str(error.message).rstrip(".") + question(nearest(args[0], self.commands, MOST))
            raise


def suggest_options(error: Any) -> None:
    """Replaces typer's suggestions in the error of an unknown option with similar options."""
    if getattr(error, "possibilities", None) is None:
        return
    known = [] if error.ctx is None else [word for one in error.ctx.command.params for word in one.opts]
    long = [word for word in known if word.startswith("--")]
    error.message = str(error.message).rstrip(".") + question(nearest(error.option_name, long, MOST))
    error.possibilities = None
