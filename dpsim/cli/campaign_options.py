"""The options that only `dpsim campaign nightly` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli import completers

NIGHTS = Path(".dpsim", "nights")

Scenarios = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCENARIO...",
        autocompletion=completers.scenarios,
        help="YAML files or names; all that come with dpsim if left out.",
    ),
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of all nights.")]
Date = Annotated[
    str | None, typer.Option(metavar="DATE", help="The date of the night, e.g. 2026-11-27; today (UTC) if left out.")
]
Parts = Annotated[
    list[str] | None, typer.Option(metavar="PART", help="Only scenarios, swarm, small, museum or tests; repeatable.")
]
SizeName = Annotated[str, typer.Option(metavar="SIZE", help="The amount of work: night, hour or minute.")]
Worlds = Annotated[int | None, typer.Option(metavar="N", min=1, max=100_000, help="Worlds of the swarm, in all.")]
Schedules = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most this number for each world.")]
AllUpTo = Annotated[
    str | None,
    typer.Option(
        metavar="SIZES",
        help="Sizes of small worlds, e.g. interval=3. Needed for fields of `Params`, which have none.",
    ),
]
Only = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Variants of the museum, e.g. 'm-dp-*'; repeatable.")
]
Exhibits = Annotated[
    list[Path] | None, typer.Option(metavar="FOLDER", help="Take exhibits from this folder too; repeatable.")
]
Tests = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Add what pytest reports: the file of its --junitxml.")
]
Budget = Annotated[str | None, typer.Option(metavar="TIME", help="Start no further work after this time, e.g. 8h.")]
Jobs = Annotated[int, typer.Option(metavar="N", min=1, max=256, help="The number of processes that explore.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="The seed of random draws; the date gives it if left out.")]
