"""Generates docs/commands.md: each command with its arguments and options, as typer stores them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from dpsim.cli.app import app
from tests.vllm.reference.tables import code, table

OPENING = """\
# Commands and options

This page lists all commands of dpsim with their arguments and options, as `dpsim COMMAND --help` prints them.
[The command line](command-line.md) explains the commands with examples, and [How a command ends](exit-codes.md)
explains the exit codes. `python -m tests.vllm.reference` writes this page from the code.
"""


def page() -> str:
    """Returns the text of docs/commands.md."""
    found = [*commands(get_command(app), "dpsim")]
    overview = table(["command", "effect"], ((f"[`{name}`](#{anchor(name)})", summary(one)) for name, one in found))
    return "\n".join([OPENING, overview, "", *(section(name, one) for name, one in found)])


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields each command with its whole name, including the commands of groups."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def anchor(name: str) -> str:
    return name.replace(" ", "-")


def summary(command: Any) -> str:
    """Returns the first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def section(name: str, command: Any) -> str:
    rows = [row(one) for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    return "\n\n".join([f"## {name}", *paragraphs, table(["argument or option", "value", "meaning"], rows), ""])


def row(parameter: Any) -> tuple[str, str, str]:
    """Returns how a user types a parameter, its value, and its meaning with the default."""
    if parameter.param_type_name == "argument":
        return code(parameter.metavar or parameter.name.upper()), "", meaning(parameter)
    names = ", ".join(code(name) for name in (*parameter.opts, *parameter.secondary_opts))
    return names, "" if parameter.is_flag else code(parameter.metavar or "TEXT"), meaning(parameter)


def meaning(parameter: Any) -> str:
    """Returns a parameter's help, whether it is required, and its default."""
    default = parameter.default
    shown = not (default is None or callable(default) or isinstance(default, bool) or default in ("", (), []))
    ends = [" Required."] * bool(parameter.required) + [f" Default: {code(default)}."] * shown
    return (parameter.help or "") + "".join(ends)
