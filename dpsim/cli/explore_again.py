"""Again: the command that goes on where a limit ended a search of `dpsim explore`.

    dpsim explore wake --schedules 10                       # SAMPLED: 10 schedules were not enough
    dpsim explore wake --schedules 100 --strategy dpor      # the command that the output suggests

The suggested command works as it is. It has the options that the user typed, with a limit that is ten times as large.
After Ctrl-C, it has `--work`, so that a second Ctrl-C loses nothing. A portfolio cannot go on with DPOR alone, so a
default number of schedules leads to `--strategy dpor` in a second folder.

A folder is of all scenarios of a command, so a command with one names all of them. If the scenario came from standard
input, the command ends with `< SCENARIO.yaml`, a file in which the user saves it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from dpsim.cli.torch_target import STDIN, joined

if TYPE_CHECKING:
    from dpsim.campaign.cut_short import Limit
    from dpsim.campaign.files import Options

LARGER = 10
LEAST_SECONDS = 10

NO_OPTION_HELPS: frozenset[str] = frozenset({"", "memory", "length"})
"""Limits that no option of the command raises."""


class TypedCommand(NamedTuple):
    """The command as typed: the words of each option by its parameter, and the words after the options."""

    options: Mapping[str, list[str]]
    scenarios: list[str]

    @staticmethod
    def of(context: typer.Context) -> TypedCommand:
        """Returns the command that the user typed."""
        options: dict[str, list[str]] = {}
        for param in context.command.params:
            name = param.name or ""
            source = context.get_parameter_source(name)
            if param.param_type_name == "option" and source is not None and source.name == "COMMANDLINE":
                options[name] = _words(param, context.params[name])
        return TypedCommand(options, [*(context.params.get("scenarios") or ())])

    def goes_on(self, number: int, limits: Collection[Limit], options: Options) -> str:
        """Returns the command that goes on with the scenario of this number, or "" if no option would help."""
        raised = {limit for limit in limits if limit not in NO_OPTION_HELPS}
        if not raised:
            return ""
        proves = options.strategy in ("portfolio", "dpor")
        changed: dict[str, list[str]] = {}
        if "schedules" in raised:
            changed["schedules"] = ["--schedules", str(LARGER * options.schedules)]
        if "budget" in raised:
            changed["budget"] = ["--budget", _larger_budget(options.seconds or 0)]
        folder = None if options.work is None else options.work.folder
        few = options.strategy == "portfolio" and "schedules" not in self.options and raised != {"interrupt"}
        anew = folder is None or not proves or (few and not options.bounds.binds)
        if folder is not None:
            second = ["--work", _new_folder(f"{folder}-dpor")] if proves else []
            changed |= {"work": second, "resume": []} if anew else {"work": [], "resume": ["--resume", str(folder)]}
        elif "interrupt" in raised:
            unnamed = "torch" in self.options or self.scenarios[number] == STDIN
            name = "search" if unnamed else Path(self.scenarios[number]).stem
            changed["work"] = ["--work", _new_folder(f"{name}-work")]
        if anew and not (proves and options.bounds.binds):
            changed["strategy"] = ["--strategy", "dpor"]
        words = [word for one in {**self.options, **changed}.values() for word in one]
        torch = "torch" in self.options
        of_one = self.scenarios if folder is not None and proves else self.scenarios[number : number + 1]
        named = [*["--"] * bool(self.scenarios), *self.scenarios] if torch else of_one
        command = ["dpsim", "explore", *words, *named] if torch else ["dpsim", "explore", *named, *words]
        return joined(command, [] if torch else named)


def _new_folder(name: str) -> str:
    """Numbers the name until nothing has it, because `--work` refuses a folder that has work."""
    names = (f"{name}-{number}" if number > 1 else name for number in count(1))
    return next(one for one in names if not os.path.lexists(one))


def _words(param: Any, value: Any) -> list[str]:
    flag = param.opts[0]
    if param.is_flag:
        return [flag if value else param.secondary_opts[0]]
    return [word for each in (value if param.multiple else [value]) for word in (flag, str(each))]


def _larger_budget(seconds: float) -> str:
    from dpsim.scenario.duration import format_duration

    return format_duration(max(round(LARGER * seconds), LEAST_SECONDS) * 1_000_000_000)
