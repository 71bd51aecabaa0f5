"""`dpsim explain`: explains why a job hangs, from the dumps of its flight recorders. It explains a trace of dpsim as
well.

    dpsim explain /var/dumps            # a file for each rank, as torch's flight recorder writes them
    dpsim explain dump.1 dump.2         # dumps of two times: does the job progress?
    dpsim explain a.jsonl --json

The exit code is 0 if there is an explanation, even if the job hangs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.cli.console import one_line_errors, painted, say, say_json
from dpsim.cli.json_alone import json_alone
from dpsim.cli.options import AsJson, Modules, import_modules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsim.campaign.replay import Replayed
    from dpsim.checks.finding import Finding
    from dpsim.contract.world import Run, World
    from dpsim.diagnose.dumps.explanation import Explanation
    from dpsim.diagnose.dumps.job import DumpedJob


def explain(
    dumps: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER", help="Dumps, a file for each rank; a second folder of later ones; or a trace or token."
        ),
    ],
    module: Modules = None,
    as_json: AsJson = False,
    full: Annotated[bool, typer.Option("--full", help="Print all waits and all evidence, each in a line.")] = False,
) -> None:
    """Explain a hung job from the dumps of its flight recorders: which rank, which call, which line."""
    with one_line_errors(), json_alone(as_json):
        from dpsim.campaign.token import is_token
        from dpsim.diagnose.dumps import text

        one_run = len(dumps) == 1 and (is_token(str(dumps[0])) or dumps[0].is_file())
        found = _of_trace(dumps[0], module) if one_run else job_of_folder(*dumps)[1]
        if as_json:
            say_json(text.as_json(found))
        else:
            say(painted(text.as_text(found, full), good=found.outcome in ("finished", "moving")))


def job_of_folder(*folders: Path) -> tuple[DumpedJob, Explanation]:
    """Returns the job that dumps or recordings show, and its explanation. Raises BadInput."""
    from dpsim.diagnose.recordings.job import has_recordings

    if has_recordings(folders[0]):
        from dpsim.diagnose.recordings.job import recorded_job
        from dpsim.diagnose.recordings.judging import judge_recorded

        recorded = recorded_job(folders[0])
        return recorded.dumped, judge_recorded(recorded)
    from dpsim.diagnose.dumps.job import job_of
    from dpsim.diagnose.dumps.judgement import judge_job
    from dpsim.diagnose.dumps.reading import read_dumps

    job = job_of(read_dumps(*folders))
    return job, judge_job(job)


def _of_trace(path: Path, modules: list[str] | None) -> Explanation:
    from dpsim.diagnose.dumps.of_run import explained

    return explained(*judged_trace(path, modules))


def judged_trace(path: Path, modules: list[str] | None) -> tuple[World, Run, Sequence[Finding]]:
    """Returns world, run and findings of a trace, which is judged again as recorded, or of a token, which is run again.
    Raises BadInput, also for the dump of one rank, because a job needs all. Raises OSError.
    """
    from dpsim.campaign.token import is_token
    from dpsim.checks.judge import judge
    from dpsim.cli.console import BAD_INPUT, fail
    from dpsim.diagnose.dumps.beginning import HEAD, is_dump
    from dpsim.scenario import scenario_from
    from dpsim.scenario.to_world import prepare, world
    from dpsim.trace import TraceError, read_trace

    if is_token(str(path)):
        return judged_token(replayed_token(str(path), modules))
    with path.open("rb") as file:
        if is_dump(file.read(HEAD)):
            fail(f"{path}: the dump of one rank; expected the folder of all: dpsim explain {path.parent}", BAD_INPUT)
    import_modules(modules)
    trace = read_trace(path)
    run = trace.run()
    try:
        scenario = scenario_from(trace.header.scenario)
    except ValueError as error:
        raise TraceError(f"{path}: its scenario is none that this dpsim runs: {error}") from None
    program, _, prepared = prepare(scenario)
    rebuilt = world(scenario, program, prepared)
    run = replace(run, services=rebuilt.services)  # a trace does not name the services
    return rebuilt, run, judge(rebuilt, run)


def replayed_token(word: str, modules: list[str] | None) -> Replayed:
    """Runs the token again. Raises BadInput."""
    from dpsim.campaign.replay import replay_token
    from dpsim.campaign.token import read_token
    from dpsim.cli.console import BAD_INPUT, fail
    from dpsim.explore.strategies.replay import Mismatch

    import_modules(modules)
    try:
        return replay_token(read_token(word))
    except Mismatch as error:
        fail(f"the token: {error}", BAD_INPUT)


def judged_token(replayed: Replayed) -> tuple[World, Run, Sequence[Finding]]:
    """Returns the world, the run and the findings of a token that was run again."""
    from dpsim.scenario.to_world import prepare, world

    program, _, prepared = prepare(replayed.scenario)
    return world(replayed.scenario, program, prepared), replayed.run, replayed.findings
