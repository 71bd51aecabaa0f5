"""`dpsim import`: writes the calls of a job that hung as a scenario that hangs in the simulation.

    dpsim import calls -o hung.yaml        # from dumps or recordings
    dpsim run hung.yaml

The command runs the scenario once and writes its finding as the expectation. It prints what the job shows and what the
simulation shows, so the user can compare them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli.console import one_line_errors, say


def import_job(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Dumps or recordings of a job, a file for each rank.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The scenario file.")],
) -> None:
    """Write the calls of a hung job as a scenario: to run, to change and to explore."""
    with one_line_errors():
        from dpsim.checks.classes import class_and_detail
        from dpsim.cli.explain import job_of_folder
        from dpsim.contract.words import counted, ranks_text
        from dpsim.diagnose.dumps.text import headline
        from dpsim.recorded.importing import imported, numbers_text
        from dpsim.runner import run_scenario
        from dpsim.scenario import dump_scenario, scenario_from

        job, found = job_of_folder(folder)
        made = imported(job, output.stem)
        result = run_scenario(scenario_from(made))
        primary = result.primary
        named = None if primary is None else primary.culprit
        blamed = () if named is None else named.ranks or (named.rank,)
        differ = bool(blamed) and found.culprit is not None and not {*blamed} & {*found.culprit.ranks}
        if primary is not None:
            culprit = {"culprit": {"rank": named.rank}} if named is not None and not differ else {}
            made["expect"] = {"class": primary.klass, **culprit}
        output.write_text(dump_scenario(scenario_from(made)))
        calls = sum(not row.startswith("step ") for own in made["protocol"]["params"]["calls"] for row in own)
        say(f"{output}: {counted(calls, 'call')} of {counted(len(made['protocol']['params']['calls']), 'rank')}")
        say(f"the job:        {headline(found)}")
        who = f", {ranks_text(blamed)}" if blamed else ""
        klass = "" if primary is None else f"  {class_and_detail(primary.klass)[0]}"
        say(f"the simulation: {result.verdict.upper()}{klass}{who}")
        if found.klass and found.outcome in ("hang", "undecided") and result.verdict == "held":
            say("note: no hang: the calls lack its cause, e.g. the order on an NCCL stream (docs/a-job-hangs.md)")
        if differ:
            say("note: the two name different ranks: from these calls alone, either may have made the mistake")
        if found.undumped:
            alone = [rank for rank in found.undecided_ranks if rank not in found.undumped]
            say(f"note: {ranks_text(found.undumped)} left no dump; in the scenario, {ranks_text(alone)} is the cause")
        if numbers := numbers_text(job, found.culprit):
            say(f"the numbers:    {numbers}")
        say(f"next: dpsim run {output}")
