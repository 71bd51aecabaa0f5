"""The option `--torch`: runs a program of torch.distributed instead of a scenario file.

    dpsim run --torch train.py --ranks 4 -- --steps 3
    dpsim explore --torch train.py:main --ranks 2 --order nccl

With `--torch`, the words after `--` are the arguments of the program, and the user names no scenario. dpsim creates a
scenario without faults, which expects that the run holds.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.cli.console import BAD_INPUT, fail

if TYPE_CHECKING:
    from dpsim.scenario import Scenario

STDIN = "-"
"""The word for a scenario from standard input."""

TorchTarget = Annotated[
    str | None,
    typer.Option(
        "--torch",
        metavar="FILE.py[:FUNCTION]",
        help="An unmodified program of torch.distributed in place of a scenario; its arguments follow --.",
    ),
]
Ranks = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=64, help="With --torch: how many ranks, 2 if left out.")
]
Order = Annotated[
    str | None, typer.Option(metavar="ORDER", help="With --torch: issue calls as gloo or nccl does; gloo if left out.")
]


def chosen(
    target: str | None, ranks: int | None, order: str | None, words: list[str], alone: bool = False
) -> list[tuple[Scenario, Path]]:
    """Returns the scenario of a torch program, or those that `words` name, each with the folder of its files. `alone`:
    only one is allowed. Ends the command with code 2 for options that do not fit.
    """
    from dpsim.scenario import load_scenario
    from dpsim.scenario.locate import scenario_path

    if target is not None:
        return [(_of_target(target, ranks, order, words), Path())]
    for flag, value in ("--ranks", ranks), ("--order", order):
        if value is not None:
            fail(f"{flag}: it goes with --torch; leave it out, or write it into the scenario", BAD_INPUT)
    if alone and len(words) > 1:
        raise typer.BadParameter(f"{words[1]}: one scenario is run; dpsim explore takes several")
    if not words:
        raise typer.BadParameter("no scenario; expected a YAML file, a name of `dpsim list`, -, or --torch FILE.py")
    if words.count(STDIN) > 1:
        fail("-: standard input has one scenario; give the others as files", BAD_INPUT)
    paths = [Path(STDIN) if word == STDIN else scenario_path(word) for word in words]
    for path in paths:
        if str(path) != STDIN:
            _refuse_dump(path)
    return [_of_input() if str(path) == STDIN else (load_scenario(path), path.parent) for path in paths]


def _of_input() -> tuple[Scenario, Path]:
    from dpsim.scenario import parse_scenario
    from dpsim.scenario.yaml.reader import MAX_BYTES

    return parse_scenario(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input", Path()), Path()


def _refuse_dump(path: Path) -> None:
    from dpsim.diagnose.dumps.beginning import HEAD, is_dump

    with path.open("rb") as file:
        if is_dump(file.read(HEAD)):
            explain = f"dpsim explain {path.parent}"
            fail(f"{path}: the dump of a flight recorder, and no scenario; it is explained by: {explain}", BAD_INPUT)


def _of_target(target: str, ranks: int | None, order: str | None, args: list[str]) -> Scenario:
    from dpsim.scenario import scenario_from
    from dpsim.scenario.params.files import allow
    from dpsim.torch.targets import split, title

    allow(split(target)[0])
    params: dict[str, object] = {"target": target, "args": args}
    params |= {} if ranks is None else {"ranks": ranks}
    params |= {} if order is None else {"order": order}
    return scenario_from({"name": title(target), "protocol": {"name": "torch", "params": params}})


def joined(words: list[str], scenarios: Sequence[str]) -> str:
    """Returns a suggested command. If it reads its scenario from standard input, it ends with the file to read."""
    return f"{shlex.join(words)} < SCENARIO.yaml" if STDIN in scenarios else shlex.join(words)


def typed_again(target: str | None, ranks: int | None, order: str | None) -> list[str]:
    """Returns the options as the user types them."""
    words = [] if target is None else ["--torch", target]
    words += [] if ranks is None else ["--ranks", str(ranks)]
    return words + ([] if order is None else ["--order", order])
