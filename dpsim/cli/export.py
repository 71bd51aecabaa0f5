"""`dpsim export`: draws a run or a hung job.

    dpsim export skip.jsonl                          # writes skip.html, for any browser
    dpsim export calls --format perfetto             # writes calls.json, for ui.perfetto.dev

A trace, a folder of recordings and a folder of dumps give equal pictures of equal calls. The trace of a timed run also
has durations, unless --ticks leaves them out. The exit code is 0 if there is a picture, even if the job hangs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.cli.console import BAD_INPUT, fail, one_line_errors, say, write
from dpsim.cli.options import Modules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsim.checks.finding import Finding
    from dpsim.contract.world import Run
    from dpsim.diagnose.evidence import Extras
    from dpsim.diagnose.pictures.op import Picture


class PictureFormat(StrEnum):
    """The format of the picture."""

    HTML = "html"
    PERFETTO = "perfetto"


SUFFIXES = {PictureFormat.HTML: ".html", PictureFormat.PERFETTO: ".json"}


def export(
    source: Annotated[
        Path,
        typer.Argument(metavar="TRACE|FOLDER", help="A trace or token, or a folder of recordings or dumps of a job."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file; if left out, the name of the source with .html."
        ),
    ] = None,
    form: Annotated[
        PictureFormat, typer.Option("--format", help="html: for any browser. perfetto: for ui.perfetto.dev.")
    ] = PictureFormat.HTML,
    in_ticks: Annotated[
        bool, typer.Option("--ticks", help="Draw order and not duration: each op takes one tick.")
    ] = False,
    module: Modules = None,
) -> None:
    """Draw a run or a hung job: who waits for whom, and which call is missing."""
    with one_line_errors():
        from dpsim.campaign.token import is_token

        token = is_token(str(source))
        target = output or Path("token" if token else source.resolve().name).with_suffix(SUFFIXES[form])
        if target.is_dir() or (not token and target.resolve() == source.resolve()):
            what = "a folder" if target.is_dir() else "the source"
            fail(f"{target}: {what}; expected another file for the picture: -o FILE", BAD_INPUT)
        picture = picture_of(source, module, in_ticks)
        write(target, text_of(picture, form))
        say(f"{picture.lines[0]}")
        say(f"picture: {target}")


def picture_of(source: Path, modules: list[str] | None = None, in_ticks: bool = False) -> Picture:
    """Returns the picture of a trace or token, or of a folder of recordings or dumps. Raises BadInput and OSError."""
    from dpsim.campaign.token import is_token

    token = is_token(str(source))
    if not token and source.is_dir():
        from dpsim.cli.explain import job_of_folder
        from dpsim.diagnose.pictures.of_job import picture_of_job

        return picture_of_job(*job_of_folder(source), source.resolve().name)
    from dpsim.campaign.alternatives import events_of_replayed
    from dpsim.cli.explain import judged_token, judged_trace, replayed_token
    from dpsim.diagnose.pictures.of_run import picture_of_run

    if token:
        replayed = replayed_token(str(source), modules)
        return picture_of_run(*judged_token(replayed), "token", in_ticks, events_of_replayed(replayed))
    world, run, findings = judged_trace(source, modules)
    again = _same_again(source, run, findings)
    if again is None:
        return picture_of_run(world, run, findings, source.name, in_ticks)
    from dpsim.checks.judge import judge

    run = _with_places(run, again[0])
    return picture_of_run(world, run, judge(world, run), source.name, in_ticks, again[1])


def _same_again(source: Path, run: Run, findings: Sequence[Finding]) -> tuple[Run, Extras] | None:
    """None if the trace is of a real backend, if the run is too long, or if the program makes another run now."""
    from dpsim.campaign.alternatives import LONGEST, events_of_replayed
    from dpsim.campaign.replay import replay
    from dpsim.contract.schedule import RunStopped
    from dpsim.contract.words import BadInput
    from dpsim.contract.world import Unended
    from dpsim.runner import SIMULATION
    from dpsim.trace import read_trace

    if not findings or run.backend != SIMULATION or sum(map(len, run.journals)) > LONGEST:
        return None
    try:
        replayed = replay(read_trace(source))
        return (replayed.run, events_of_replayed(replayed)) if replayed.same else None
    except (BadInput, OSError, RunStopped, Unended):  # the trace alone gives the rest of the picture
        return None


def _with_places(run: Run, again: Run) -> Run:
    """A trace has only the lines of each site, which do not show which rank used which."""
    from dpsim.contract.ops import KIND, WHERE
    from dpsim.trace.form import UNWRITTEN

    journals = [
        [(*raw[:WHERE], own[WHERE], *raw[WHERE + 1 :]) for raw, own in zip(journal, written, strict=True)]
        for journal, other in zip(run.journals, again.journals, strict=True)
        for written in [[raw for raw in other if raw[KIND] != UNWRITTEN]]
    ]
    return replace(run, journals=journals)


def text_of(picture: Picture, form: PictureFormat = PictureFormat.HTML) -> str:
    """Returns the content of the file in the given format."""
    if form is PictureFormat.PERFETTO:
        from dpsim.diagnose.pictures.perfetto import trace_events

        return json.dumps(trace_events(picture), separators=(",", ":"))
    from dpsim.diagnose.pictures.page import page

    return page(picture)
