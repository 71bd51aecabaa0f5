"""Options of several commands, and functions that apply them.

dpsim explore my.yaml --module my_protocols --off 'RACE:*' --json
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.cli.console import BAD_INPUT, code_of, fail, note
from dpsim.cli.json_alone import ask
from dpsim.cli.protocol_errors import at_own_place
from dpsim.contract.words import printable

if TYPE_CHECKING:
    from dpsim.scenario import Scenario

AsJson = Annotated[
    bool, typer.Option("--json", callback=ask, is_eager=True, help="Print one JSON object instead of text.")
]
Full = Annotated[
    bool,
    typer.Option("--full", help="Print all of a failure: figures, last ops, all waits, other findings, its schedule."),
]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="MODULE",
        help="Import this module or file.py first: it registers protocols. Repeatable.",
    ),
]
Off = Annotated[
    list[str] | None,
    typer.Option(
        "--off", metavar="PATTERN", help="Leave findings of this class out of the verdict, e.g. 'HANG:*'; repeatable."
    ),
]


KeepResults = Annotated[
    bool,
    typer.Option(
        "--results/--no-results",
        help="Keep report, picture, trace and scenario of an unexpected outcome in .dpsim/results.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="Print only the verdict, the expectation and errors, and show no progress."),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="Allow runs that take about this much memory; 8GB if left out."),
]


def allow_memory(memory: str | None, quiet: bool = False) -> None:
    """Sets a run's most memory. Notes a large run on stderr, unless `quiet`. Ends with code 2 for no size."""
    from dpsim.scenario.estimate import allow, parse_memory

    try:
        most = None if memory is None else parse_memory(memory)
        allow(most, lambda text: None if quiet else note(f"dpsim: {printable(text)}"))
    except ValueError as error:
        fail(f"--memory: {error}", BAD_INPUT)


def import_modules(modules: Iterable[str] | None) -> None:
    """Imports modules by name or file. If that fails, ends with code 2, or 3 if this machine lacked something."""
    from dpsim.scenario.modules import import_named

    for module in modules or ():
        try:
            import_named(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            message = f"{type(error).__name__}: {error}{at_own_place(error)}"
            fail(f"cannot import the module {module}: {message}", code_of(error))


def budget_seconds(budget: str | None) -> float | None:
    """Returns the seconds of a budget, or None without a budget. Ends the command with code 2 if it is no time."""
    from dpsim.scenario.duration import parse_duration

    try:
        return None if budget is None else parse_duration(budget, "20s") / 1e9
    except ValueError as error:
        fail(f"--budget: {error}", BAD_INPUT)


def with_off(scenario: Scenario, patterns: list[str]) -> Scenario:
    """Returns the scenario with more classes switched off. Ends the command with code 2 for an unknown class."""
    from dpsim.checks.finding import pattern_problem
    from dpsim.scenario import scenario_from

    if not patterns:
        return scenario
    for problem in filter(None, map(pattern_problem, patterns)):
        fail(f"--off: {problem}", BAD_INPUT)
    every = dict.fromkeys([*scenario.checks.switched_off, *patterns])
    return scenario_from({**dict(scenario), "checks": {"switched_off": list(every)}})


def option(name: str) -> str:
    """Returns the option for a parameter of a command.

    >>> option("as_json")
    '--as-json'
    """
    return f"--{name.replace('_', '-')}"


def typed(flag: str, values: Iterable[str] | None) -> list[str]:
    """Returns a repeatable option as the user types it.

    >>> typed("--off", ["RACE:*", "HANG"]), typed("--off", None)
    (['--off', 'RACE:*', '--off', 'HANG'], [])
    """
    return [word for value in values or () for word in (flag, value)]
