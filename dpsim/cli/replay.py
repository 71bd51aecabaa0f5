"""`dpsim replay`: the run of a trace made again, or that of a token from a log.

dpsim replay .dpsim/my-448da4e9.jsonl
dpsim replay dpsim1.qz0NPXjaVY5... --module tests/test_mine.py
"""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from dpsim.cli.console import BAD_INPUT, NOT_MET, fail, one_line_errors, say, say_json
from dpsim.cli.json_alone import json_alone
from dpsim.cli.options import AsJson, Full, Memory, Modules, allow_memory, import_modules, typed


def replay(
    trace: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="A trace of `dpsim explore` or `dpsim run`, or a token."),
    ],
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Go on where the schedule does not fit, and say what was skipped.")
    ] = False,
    backend: Annotated[
        str, typer.Option(help="Where to run it: on another than sim with the messages that each look took on sim.")
    ] = "sim",
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="The token may name this file, and run it. Repeatable."),
    ] = None,
    module: Modules = None,
    full: Full = False,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """Make the run of a trace again, and say whether it is the same."""
    with one_line_errors(), json_alone(as_json):
        import dpsim.trace as traces
        from dpsim.campaign.replay import replay as replay_trace
        from dpsim.campaign.replay import replay_token
        from dpsim.campaign.token import is_token, read_token
        from dpsim.cli import replay_text as text
        from dpsim.diagnose.variants import extras_of_choice
        from dpsim.explore.strategies.replay import Mismatch
        from dpsim.runner import warm_backends
        from dpsim.scenario.params.files import allow

        allow_memory(memory)
        import_modules(module)
        for one in file or ():
            allow(one)
        try:
            if is_token(trace):
                if backend != "sim":
                    fail(f"a token is replayed on sim, not on {backend}: for that, keep a trace (--trace)", BAD_INPUT)
                replayed = replay_token(read_token(trace))
            else:
                with warm_backends():
                    replayed = replay_trace(traces.read_trace(trace), strict=not fallback, backend=backend)
        except Mismatch as error:
            fail(f"{trace}: {error}. --fallback goes on all the same", NOT_MET)
        words = ["dpsim", "replay", trace, *["--fallback"] * fallback, *["--backend", backend] * (backend != "sim")]
        words += [*typed("--file", file), *typed("--module", module), *["--full"] * (not full)]
        extras = extras_of_choice(replayed.scenario.protocol, shlex.join(words))
        if as_json:
            say_json(text.as_json(replayed, extras))
        else:
            say(text.as_text(replayed, extras, full))
        raise typer.Exit(0 if replayed.same else NOT_MET)
