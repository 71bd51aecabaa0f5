"""`dpsim replay`: repeats the run of a trace, or of a token from a log.

dpsim replay .dpsim/my-448da4e9.jsonl
dpsim replay dpsim1.qz0NPXjaVY5... --module tests/test_mine.py
dpsim replay a.jsonl --until 5                      # stops before step 5, and prints where each rank is
dpsim replay a.jsonl --break 'rank 1 dp.agree[5]'   # opens pdb in the program
dpsim replay a.jsonl --step                         # prints after each choice which rank waits for which
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.cli import completers
from dpsim.cli.console import BAD_INPUT, NOT_MET, fail, note, one_line_errors, say, say_json
from dpsim.cli.json_alone import json_alone
from dpsim.cli.options import AsJson, Full, KeepResults, Memory, Modules, Quiet, allow_memory, import_modules, typed
from dpsim.contract.words import did_you_mean

if TYPE_CHECKING:
    from dpsim.campaign.replay import Replayed
    from dpsim.campaign.stepping import Stepping
    from dpsim.diagnose.evidence import Extras

OTHERS = "--until STEP shows the ranks before that step, and --break ADDRESS opens pdb at an op"

Backend = Annotated[
    str,
    typer.Option(
        autocompletion=completers.backends, help="The backend of the repetition: gloo and nccl repeat the order of sim."
    ),
]


def replay(
    trace: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="A trace of `dpsim explore` or `dpsim run`, or a token."),
    ],
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Continue where the schedule does not fit, and print what was skipped.")
    ] = False,
    backend: Backend = "sim",
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="Allow the token to run this file. Repeatable."),
    ] = None,
    until: Annotated[
        int | None, typer.Option(metavar="STEP", min=0, help="Stop before this step, and print where each rank is.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--break", metavar="ADDRESS", help="Open pdb in the program at this op: 'rank 1 dp.agree[5]'."),
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="Print after each choice which rank waits for which.")] = False,
    module: Modules = None,
    full: Full = False,
    quiet: Quiet = False,
    memory: Memory = None,
    results: KeepResults = True,
    as_json: AsJson = False,
) -> None:
    """Repeat the run of a trace, and report whether it is the same run."""
    with one_line_errors(), json_alone(as_json):
        from dpsim.campaign.alternatives import of_replayed
        from dpsim.campaign.stepping import StoppedAt
        from dpsim.campaign.token import is_token
        from dpsim.cli import replay_text, two_lines
        from dpsim.diagnose.variants import extras_of_choice
        from dpsim.explore.strategies.replay import Mismatch
        from dpsim.scenario.params.files import allow

        allow_memory(memory, quiet)
        looks = _looks(until, at, step, as_json)
        import_modules(module)
        for one in file or ():
            allow(one)
        repaired = replay_text.after_repair(is_token(trace), typed("--module", module))
        try:
            replayed = _replayed(trace, backend, looks, strict=not fallback)
        except Mismatch as error:
            fail(f"{trace}: {error}. --fallback continues anyway; {repaired}", NOT_MET)
        except StoppedAt as stopped:
            say("\n".join([f"stopped before step {stopped.step}", *stopped.lines]))
            return
        _missed(looks, replayed)
        more = [*["--fallback"] * fallback, *typed("--file", file), *typed("--module", module)]
        extras = extras_of_choice(replayed.scenario.protocol, _again(trace, backend, more, full))
        if not quiet or results:  # the turning costs more runs, and a quiet replay without results prints nothing of it
            extras = of_replayed(extras, replayed)
        folder = _results(looks, replayed, extras) if results else None
        if as_json:
            say_json(replay_text.as_json(replayed, extras, folder))
        else:
            say(
                two_lines.of_replay(replayed)
                if quiet
                else replay_text.as_text(replayed, extras, full, folder, repaired)
            )
        raise typer.Exit(0 if replayed.same else NOT_MET)


def _replayed(trace: str, backend: str, looks: Stepping, strict: bool) -> Replayed:
    """Repeats the run of a token or a trace. `strict`: raises Mismatch where the schedule does not fit the run."""
    from dpsim import trace as traces
    from dpsim.campaign.replay import replay as replay_trace
    from dpsim.campaign.replay import replay_token
    from dpsim.campaign.token import is_token, read_token
    from dpsim.runner import warm_backends

    if not is_token(trace):
        with warm_backends():
            return replay_trace(traces.read_trace(trace), strict=strict, backend=backend, looks=looks)
    if backend != "sim":
        fail(
            f"a token is replayed on sim, not on {backend}: replay it on sim first; "
            "if it fails, its trace is .dpsim/results/latest/trace.jsonl",
            BAD_INPUT,
        )
    return replay_token(read_token(trace), looks)


def _again(trace: str, backend: str, more: list[str], full: bool) -> str:
    words = ["dpsim", "replay", trace, *["--backend", backend] * (backend != "sim")]
    return shlex.join([*words, *more, *["--full"] * (not full)])


def _looks(until: int | None, at: str | None, step: bool, as_json: bool) -> Stepping:
    from dpsim.campaign.stepping import Stepping, break_address

    if as_json and (until is not None or at is not None or step):
        fail("--json goes with none of --until, --break and --step, which print text", BAD_INPUT)
    tells = say if step else None
    if at is None:
        return Stepping(until, say=tells)
    from dpsim.cli.debugger import open_debugger

    return Stepping(until, break_address(at), open_debugger, tells)


def _results(looks: Stepping, replayed: Replayed, extras: Extras) -> Path | None:
    if not replayed.findings or looks.world is None:
        return None
    from dpsim.campaign.results import results_of_replayed

    return results_of_replayed(replayed, looks.world, extras)


def _missed(looks: Stepping, replayed: Replayed) -> None:
    if looks.at is not None and not looks.reached:
        near = f"; its last op is at {shlex.quote(str(looks.last))}" if looks.last else ""
        if looks.at.site not in looks.sites:
            near = did_you_mean(looks.at.site, sorted(looks.sites)) or near
        fail(f"--break: the run made no op at {looks.at}{near}", BAD_INPUT)
    if looks.until is not None:
        note(f"dpsim: --until: no rank reached step {looks.until}")
    if looks.say is None or looks.told:
        return
    if replayed.noted is None:
        note("dpsim: --step: the trace has no schedule, so no choices; `dpsim explore` writes one that has")
    else:
        note("dpsim: --step: the run has no choice, because in each state at most one event was possible")
    looks.say("\n".join(["at the end of the run:", *(f"  {line}" for line in looks.lines()), OTHERS, ""]))
