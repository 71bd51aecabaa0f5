"""`dpsim campaign`: runs a night of campaigns, and reports which failures are new in the newest night.

    dpsim campaign nightly --out nights --jobs 2
    dpsim campaign report nights

A night explores the museum, a swarm, small worlds and the scenarios, and writes a row for each to a file.
`dpsim.campaign.nights` describes the parts of a night and its rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.cli import completers
from dpsim.cli.console import BAD_INPUT, CANNOT_RUN, NOT_MET, Progress, fail, one_line_errors, say, say_json
from dpsim.cli.json_alone import json_alone
from dpsim.cli.misspelt import NamedCommands
from dpsim.cli.options import AsJson, Modules, budget_seconds, import_modules

if TYPE_CHECKING:
    from dpsim.campaign.nights.sizes import Size

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

campaign = typer.Typer(
    cls=NamedCommands,
    help="Run a night of campaigns, and report what is new in it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@campaign.command("nightly")
def nightly(
    scenarios: Scenarios = None,
    out: Out = NIGHTS,
    night: Date = None,
    part: Parts = None,
    size: SizeName = "night",
    worlds: Worlds = None,
    schedules: Schedules = None,
    all_up_to: AllUpTo = None,
    only: Only = None,
    exhibits: Exhibits = None,
    tests: Tests = None,
    budget: Budget = None,
    jobs: Jobs = 1,
    seed: Seed = None,
    module: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Run the museum, a swarm, small worlds and the scenarios, and add a row for each to the file of this night."""
    with one_line_errors(), json_alone(as_json):
        from dpsim.campaign.nights.idle import ran_nothing
        from dpsim.campaign.nights.night import PARTS, Night, run_night
        from dpsim.campaign.nights.rows import file_of
        from dpsim.cli import campaign_text as text
        from dpsim.cli import torch_target

        import_modules(module)
        for unknown in (one for one in part or () if one not in PARTS):
            fail(f"--part: there is no part {unknown!r} (there are {', '.join(PARTS)})", BAD_INPUT)
        parts = tuple(part or (one for one in PARTS if one != "tests" or tests is not None))
        of_night, of_date = _dated(night)
        asked = Night(
            out,
            of_night,
            _sized(size, worlds, schedules),
            parts,
            torch_target.chosen(None, None, None, scenarios) if scenarios else None,
            all_up_to,
            tuple(only or ()),
            tuple(exhibits or ()),
            tests,
            budget_seconds(budget),
            of_date if seed is None else seed,
            jobs,
            tuple(module or ()),
        )
        file = file_of(out, of_night)
        with Progress(f"night {of_night}", unit="row") as progress:
            rows = run_night(asked, lambda part, done: progress(done, None))
        say_json(text.night_as_json(of_night, file, rows)) if as_json else say(text.night_as_text(file, rows, parts))
        failed, lost = any(row.failures for row in rows), any(row.lost for row in rows)
        idle = len(ran_nothing(parts, rows)) == len(set(parts))
        raise typer.Exit(NOT_MET if failed or idle else CANNOT_RUN if lost else 0)


@campaign.command("report")
def report(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The folder of all nights.")] = NIGHTS,
    as_json: AsJson = False,
) -> None:
    """Report what is new in the newest night, and what no world of that night reached."""
    with one_line_errors(), json_alone(as_json):
        from dpsim.campaign.nights.report import report_of
        from dpsim.cli import campaign_text as text

        found = report_of(folder)
        say_json(found.as_json()) if as_json else say(text.report_as_text(found))
        raise typer.Exit(NOT_MET if found.new or found.known or found.idle else CANNOT_RUN if found.lost else 0)


def _sized(name: str, worlds: int | None, schedules: int | None) -> Size:
    from dpsim.campaign.nights.sizes import SIZES

    if name not in SIZES:
        fail(f"--size: there is no size {name!r} (there are {', '.join(SIZES)})", BAD_INPUT)
    size = SIZES[name]
    return size._replace(worlds=worlds or size.worlds, schedules=schedules or size.schedules)


def _dated(night: str | None) -> tuple[str, int]:
    """Each date has another seed, so each night draws other worlds."""
    from datetime import UTC, date, datetime

    from dpsim.campaign.nights.rows import file_of

    found = night or datetime.now(UTC).date().isoformat()
    file_of(Path(), found)
    try:
        return found, date.fromisoformat(found).toordinal()
    except ValueError as error:
        fail(f"--night: {error}; expected a date such as 2026-11-27", BAD_INPUT)
