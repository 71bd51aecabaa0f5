"""`dpsim museum`: shows which strategy finds each known mistake, and after how many schedules.

dpsim museum --only 'm-dp-*'
dpsim museum M-DP-1             # describes this mistake, and prints commands that show it
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli import completers, explore_work
from dpsim.cli.console import BAD_INPUT, NOT_MET, Progress, fail, one_line_errors, say, say_json
from dpsim.cli.explore_options import Cluster
from dpsim.cli.json_alone import json_alone
from dpsim.cli.options import AsJson, Modules, Quiet, budget_seconds, import_modules, typed

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        autocompletion=completers.variants,
        help="Describe these variants and how to run them, and explore none.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        autocompletion=completers.variants,
        help="Only variants of this name, e.g. M-DP-3 or 'm-dp-*'; repeatable.",
    ),
]


def museum(
    names: Names = None,
    only: Only = None,
    exhibits: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Take exhibits from this folder too; repeatable.")
    ] = None,
    schedules: Annotated[int, typer.Option(metavar="N", min=1, help="How many schedules a search may run.")] = 200,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this time, also within a run, e.g. 60s or 5m.")
    ] = None,
    cluster: Cluster = None,
    module: Modules = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show what finds each known mistake, how soon, and that its healthy twin holds.

    If a variant is not found as registered, or its twin does not hold, the table shows it, and the exit code is 1.
    """
    with one_line_errors(), json_alone(as_json):
        from dpsim.campaign import museum as visit
        from dpsim.campaign.museum_there import elsewhere
        from dpsim.cli import museum_card as card
        from dpsim.cli import museum_text as text

        if names and only:
            raise typer.BadParameter("a NAME describes a variant, and --only explores it: give one of them")
        if names and quiet:
            raise typer.BadParameter("a NAME describes a variant, and --quiet omits that: give one of them")
        if names and cluster is not None:
            fail("--cluster: a NAME explores nothing; leave one of them out", BAD_INPUT)
        import_modules(module)
        if names:
            cards = card.cards(
                visit.chosen([name.removeprefix(visit.FOLDER) for name in names]),
                visit.exhibits(exhibits or ()),
                typed("--module", module),
            )
            say_json({"cards": cards}) if as_json else say(card.as_text(cards))
            return
        seconds = budget_seconds(budget)
        entries, files = visit.chosen(only or ()), visit.exhibits(exhibits or ())
        with (
            explore_work.on(cluster, jobs=1) as machines,
            Progress("museum", unit="variant", budget=seconds, quiet=quiet) as progress,
        ):
            there = None if machines is None else elsewhere(machines)
            try:
                shown = visit.exhibition(entries, files, schedules, progress, seconds, there)
            except KeyboardInterrupt as error:
                _say_so_far(error, as_json)
                raise
        if as_json:
            say_json(text.as_json(shown))
        else:
            say(text.verdict(shown) if quiet else text.as_text(shown))
        raise typer.Exit(0 if shown.as_registered else NOT_MET)


def _say_so_far(error: KeyboardInterrupt, as_json: bool) -> None:
    from dpsim.campaign.interrupts import with_done
    from dpsim.campaign.museum import Exhibition
    from dpsim.cli import museum_text as text

    shown = getattr(error, "done", None)
    if isinstance(shown, Exhibition):
        if shown.rows:
            say_json(text.as_json(shown)) if as_json else say(text.as_text(shown))
        total = len(shown.rows) + len(shown.left)
        with_done(error, f"{len(shown.rows)} of {total} variants were shown" if shown.rows else "")
