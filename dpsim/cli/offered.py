"""Loads what other packages add to the command line by entry points: commands, sources of scenarios, and options.

    [project.entry-points."dpsim.commands"]
    greet = "my_package.commands:greet"                  # dpsim greet NAME

    [project.entry-points."dpsim.scenario_sources"]
    from-mine = "my_package.commands:from_mine"          # dpsim scenario from-mine FILE

    [project.entry-points."dpsim.options"]
    run = "my_package.options:run"                       # dpsim run SCENARIO --faster

A command is a function whose signature typer reads, and so is a source. Its docstring is the help:

    def greet(context: typer.Context, name: str) -> None:
        \"""Say hello.\"""
        if not name.isalpha():
            raise BadInput(f"{name}: expected letters")   # one line on stderr, exit 2
        context.obj.say(f"hello {name}")                  # `context.obj` is the module dpsim.cli.console

The entry point of options has the name of their command. Its function takes the scenario first, then the options, each
None if the user omits it. It returns the scenario to run.

Such a module should import little besides typer, because `dpsim --help` imports it. A command whose import fails prints
the error when a user calls it. With an extra, such as `more` in `greet = "my_commands:greet [more]"`, it prints that
the extra is not installed. An option whose import fails is left out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from dpsim.cli.console import BAD_INPUT, fail, one_line_errors
from dpsim.contract.installed import entry_points

if TYPE_CHECKING:
    from dpsim.scenario import Scenario

COMMANDS, SOURCES, OPTIONS = "dpsim.commands", "dpsim.scenario_sources", "dpsim.options"

C = TypeVar("C", bound=Callable[..., Any])


def add_commands(app: typer.Typer, group: str) -> bool:
    """Adds commands of entry points to `app`, except for names that it has. Returns whether there are any."""
    points = entry_points(group=group)
    taken = {command.name for command in app.registered_commands}
    for point in points:
        if point.name in taken:
            continue
        try:
            app.command(point.name)(_guarded(point.load()))
        except Exception as error:
            anything = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(point.name, hidden=True, context_settings=anything)(_missing(point, error))
    return bool(points)


def _guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def guarded(*args: Any, **given: Any) -> Any:
        with one_line_errors():
            return command(*args, **given)

    return guarded


def _missing(point: EntryPoint, error: Exception) -> Callable[[], NoReturn]:
    message = f"the command {point.name} = {point.value} cannot be loaded: {type(error).__name__}: {error}"
    absent = isinstance(error, ModuleNotFoundError) and error.name == point.module.partition(".")[0]
    if point.dist and point.extras and absent:
        extras = ",".join(point.extras)
        message = f"the command {point.name} needs the extra {point.dist.name}[{extras}], which is not installed here"
    return lambda: fail(message, BAD_INPUT)


def with_offered(before: str) -> Callable[[C], C]:
    """Decorates a command: its offered options come before the parameter `before`, and in its keyword arguments."""

    def add(command: C) -> C:
        own = inspect.signature(command, eval_str=True)
        plain = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        at = next(number for number, one in enumerate(plain) if one.name == before)
        plain[at:at] = [option for options in _options(command.__name__).values() for option in options]
        command.__signature__ = own.replace(parameters=plain)  # type: ignore[attr-defined]  # typer reads it
        return command

    return add


def answers(command: str, scenario: Scenario, given: dict[str, Any]) -> Iterator[Any]:
    """Yields the scenario of each function with options of `command`. `given`: the values of the options."""
    for function, options in _options(command).items():
        yield function(scenario, **{option.name: given[option.name] for option in options})


@functools.cache
def _options(command: str) -> dict[Callable[..., Any], list[inspect.Parameter]]:
    """Returns the functions with options of a command, each with its options. Omits a function whose import fails."""
    found: dict[Callable[..., Any], list[inspect.Parameter]] = {}
    for point in entry_points(group=OPTIONS, name=command):
        try:
            function = point.load()
        except Exception:
            continue
        _, *found[function] = inspect.signature(function, eval_str=True).parameters.values()
    return found
