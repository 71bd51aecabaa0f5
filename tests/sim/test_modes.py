"""Tests that the two modes of the simulation are one machine: a schedule without time can repeat a timed run op by op.

So a finding of a timed run is a finding of some schedule, and what holds in all schedules holds for all timings.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.contract.ops import ALLOC_PLACE, KIND
from dpsim.contract.world import Run
from dpsim.sim.backend import SimBackend
from tests.programs import Script, Scripted, run, set_to
from tests.sim.programs import usual_world


def put_in_graph(rank: Rank, main: Stream, side: Stream, kept: Buffer, cost: int) -> None:
    """Captures a branch that works on memory of the graph's pool, beside a collective."""
    own = main.alloc(8, "int32", "own")
    main.launch("begin", set_to, writes=[own], args=(1,))
    side.wait_stream(main)
    side.launch("branch", set_to, writes=[own], args=(2,), cost=cost)
    main.launch("beside", set_to, writes=[kept], args=(3,), cost=2_000)
    rank.device("d").all_reduce(kept, main)
    main.wait_stream(side)
    own.free()


def random_program(seed: int) -> Script:
    """Returns a script with kernels on three streams, enough events between them, collectives, frees, reads and
    replays.
    """

    async def script(rank: Rank) -> None:
        rng = random.Random(seed)  # the same on all ranks
        streams = [rank.stream(name) for name in ("main", "side", "third")]
        live: list[Buffer] = []
        graph, replayed = rank.graph("graph"), streams[0].alloc(8, "int32", "replayed")
        async with graph.capture(streams[0]):
            put_in_graph(rank, streams[0], streams[1], replayed, rng.randint(1, 9_000))
        for number in range(24):
            what = rng.choice(["alloc", "alloc", "step", "reduce", "free", "read", "replay"])
            stream = rng.choice(streams)
            if what == "alloc" or not live:
                buffer = stream.alloc(rng.randint(1, 900), "int32", "buffer")
                stream.launch("fill", set_to, writes=[buffer], args=(number,), cost=rng.randint(1, 9_000))
                live.append(buffer)
                continue
            buffer = rng.choice(live)
            for other in streams:
                if other is not stream:
                    stream.wait_stream(other)
            buffer.record_stream(stream)
            if what == "step":
                stream.launch("step", set_to, writes=[buffer], args=(number,), cost=rng.randint(1, 9_000))
            elif what == "reduce":
                rank.device("d").all_reduce(buffer, stream, op=rng.choice(["sum", "max"]))
            elif what == "replay":
                graph.replay(stream, "replay")
            elif what == "free":
                live.remove(buffer)
                buffer.free()
            else:
                await buffer.read("read", stream)

    return script


@pytest.mark.runs_once  # the function that chooses consumes the order
@pytest.mark.parametrize("seed", range(40))
def test_the_machine_without_time_can_follow_a_timed_run(seed: int) -> None:
    """A run without time that follows the order of a timed run has equal journals."""
    script = random_program(seed)
    seen = SimBackend(keep_order=True).run_program(usual_world(), Scripted(script), None)
    order = iter(seen.order)

    def replay(label: str, options: Sequence[str]) -> int:
        return options.index(next(order)) if label == "op" else 0

    again = run(usual_world(), script, choose=replay)
    assert seen.finished
    assert judge(usual_world(), seen) == []

    def views(done: Run) -> list[list[Any]]:
        return [[raw[:ALLOC_PLACE] if raw[KIND] == "alloc" else raw for raw in journal] for journal in done.journals]

    assert views(again) == views(seen)
    assert next(order, None) is None
