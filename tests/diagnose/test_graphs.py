"""Tests of reports about graphs: which replay, where the program called it, where it captured the op, and the cure.

Two ranks capture a layer of kernels and collectives, and replay it in three steps. Each script makes one mistake.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.checks.judge import judge
from dpsim.contract.interface import Buffer, CaptureError, Rank, Stream
from dpsim.contract.ops import KIND, STEP
from dpsim.contract.world import At, Delay, Fault, Run, World
from dpsim.diagnose.fitting import LABEL
from dpsim.diagnose.injected import never_applied
from dpsim.diagnose.report import report
from tests.programs import Script, copy, run, set_to, world_of

WORLD = world_of(2, devices=["ep"])
LAYERS = 20


def layers(rank: Rank, main: Stream, y: Buffer) -> None:
    for _ in range(LAYERS):
        main.launch("mlp", set_to, writes=[y], args=(1,))
        rank.device("ep").all_reduce(y, main, site="experts")


async def steps(rank: Rank, eager: tuple[int, ...] = (), left_out: tuple[int, ...] = ()) -> None:
    """Runs three steps. In the steps `eager`, rank 1 runs the layer without the graph; in `left_out` it does
    nothing.
    """
    main, graph = rank.stream("main"), rank.graph("decode")
    y = main.alloc(4, "int32", "y")
    async with graph.capture(main):
        layers(rank, main, y)
    for step in range(3):
        rank.step = step
        if rank.rank == 1 and step in eager:
            layers(rank, main, y)
        elif rank.rank != 1 or step not in left_out:
            graph.replay(main, "decode.go")
        await y.read("out")


def run_and_report(script: Script, world: World = WORLD) -> tuple[Run, str]:
    done = run(world, script)
    return done, report(done, judge(world, done), full=True)


def line(text: str, *words: str) -> str:
    """Returns the line with all of these words, preferably from the full report below the first screen."""
    screen, _, whole = text.partition("\n\n")
    lines = [*whole.splitlines(), *screen.replace(f"\n{' ' * LABEL}", " ").splitlines()]
    found = [one for one in lines if all(word in one for word in words)]
    assert found, f"no line has {words} in\n{text}"
    return found[0]


def test_a_replay_that_was_left_out() -> None:
    async def script(rank: Rank) -> None:
        await steps(rank, left_out=(1,))

    _, text = run_and_report(script)
    assert line(text, "culprit", "rank 1, step 1, experts at ", "in replay 1 of graph decode (decode.go[1] at ")
    assert line(text, "rank 1 left out experts", "did not replay decode in this step")
    assert line(text, "rank 0 in step 1: replay 1 of graph decode", "on ep #20 to #39 at ")
    assert line(text, "rank 0 waits in experts", "replay 2 of graph decode (decode.go[2]")


def test_a_graph_that_was_replayed_in_the_place_of_another_one() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(4, "int32", "x")
        for name, count in (("decode", 1), ("prefill", 2)):
            async with rank.graph(name).capture(main):
                for _ in range(count):
                    rank.device("ep").all_reduce(x, main, site="experts")
        for rank.step in range(2):
            main.launch("fill", set_to, writes=[x], args=(1,))
            name = "decode" if (rank.rank, rank.step) == (1, 1) else "prefill"
            rank.graph(name).replay(main, f"{name}.go")
        await x.read("out")

    _, text = run_and_report(script)
    assert line(text, "rank 1 left out experts", "did not replay prefill in this step, but decode")


def test_a_replay_is_one_of_the_last_ops() -> None:
    async def script(rank: Rank) -> None:
        await steps(rank, left_out=(1,))

    done, text = run_and_report(script)
    column = text.split("last 5 ops")[1].splitlines()[1:11]
    assert sum("replay 2 of graph decode on stream main (40 calls)  decode.go" in one for one in column) == 1
    assert not any("mlp" in one or "experts" in one for one in column)
    end = next(at for at, raw in enumerate(done.journals[0]) if raw[KIND] == "read" and raw[STEP] == 1)
    assert "in step 1: replay 1 of graph decode on stream main (40 calls)" in whereabouts([done.journals[0][:end]])


def test_a_capture_that_is_not_over_shows_the_call_that_it_kept_last() -> None:
    world = world_of(2, devices=["ep"], faults=(Fault("die", 1, At("experts", 3)),))
    _, text = run_and_report(steps, world)
    column = text.split("last 5 ops")[1]
    assert line(column, "rank 1", "begin capture of graph decode on stream main", "decode.capture")
    assert line(column, "rank 1", "kept in graph decode: launch on stream main", "mlp")
    assert "abandon" not in text  # a dead rank does nothing
    assert line(text, "missing rank 1: died; last op mlp: kept in graph decode")
    assert "end capture of graph decode on stream main (40 calls)" in column


def test_eager_against_captured() -> None:
    async def script(rank: Rank) -> None:
        await steps(rank, eager=(2,))

    _, text = run_and_report(script)
    said = line(text, "on ep #40) is unpaired in step 2: ")
    assert "rank 0 replays it in replay 2 of graph decode (decode.go[2] at " in said
    assert "as call 1 of 20, captured at " in said
    assert "rank 1 calls it eagerly at " in said
    sides = [one for one in text.splitlines()[:9] if one.startswith(" " * 10 + "rank ")]
    assert len(sides) == 2, "the first screen has a line for each side"
    assert "captured on ep, in order" not in text  # both ranks captured the same


def test_a_rank_with_an_abandoned_capture_is_reported() -> None:
    async def script(rank: Rank) -> None:
        main, graphs = rank.stream("main"), []
        y = main.alloc(4, "int32", "y")
        for name in ("d1", "d4"):
            try:
                async with rank.graph(name).capture(main):
                    layers(rank, main, y)
                    if (rank.rank, name) == (1, "d4"):
                        await y.read("peek")
                graphs.append(name)
            except CaptureError:
                pass
        rank.step = 0
        if "d4" in graphs:
            rank.graph("d4").replay(main, "go")
        else:
            layers(rank, main, y)
        await y.read("out")

    _, text = run_and_report(script)
    assert line(text, "rank 0 captured on ep, in order: d1 (20 calls), d4 (20)")
    assert line(text, "rank 1 captured on ep, in order: d1 (20 calls)")
    assert line(text, "rank 1 gave up the capture of graph d4 at ", "test_graphs.py:")
    assert "rank 0 gave up" not in text


def test_the_report_marks_a_capture_that_waits_for_its_streams() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        y = main.alloc(4, "int32", "y")
        main.launch("mlp", set_to, writes=[y], args=(1,))
        await main.record().synchronize("known")
        if rank.rank == 0:
            rank.device("ep").all_reduce(y, main, site="experts")
        async with rank.graph("decode").capture(main):
            main.launch("mlp", set_to, writes=[y], args=(1,))

    _, text = run_and_report(script)
    column = text.split("last 5 ops")[1]
    assert line(column, "rank 0", "begin capture of graph decode: waits for stream main (event 1)  <- did not return")
    assert column.count("did not return") == 1
    assert "known" not in column  # the rank returned


def test_a_host_that_synchronizes_an_event_is_shown_standing_there() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        y = main.alloc(4, "int32", "y")
        main.launch("mlp", set_to, writes=[y], args=(1,))
        if rank.rank == 0:
            rank.device("ep").all_reduce(y, main, site="experts")
        await main.record().synchronize("through")

    _, text = run_and_report(script)
    assert line(text.split("last 5 ops")[1], "rank 0", "waits for stream main (event 0)  <- did not return  through")


REPLAY, WITHIN = At("decode.go", 1), At("experts", LAYERS)


@pytest.mark.parametrize("at", [REPLAY, WITHIN, At(communicator="ep", seq=LAYERS)])
@pytest.mark.parametrize("kind", ["skip", "repeat", "alter"])
def test_a_change_of_a_replay_belongs_in_the_capture(kind: Any, at: At) -> None:
    world = world_of(2, devices=["ep"], faults=(Fault(kind, 1, at, {"count": 3} if kind == "alter" else {}),))
    done = run(world, steps)
    assert done.finished
    (said,) = never_applied(world, done)
    assert ("decode.go[1], a replay." if at == REPLAY else "of graph decode (decode.go[") in said
    assert "a scenario can delay it, or let its rank die there" in said
    assert said.endswith(f"To {kind} a call, name it in the capture of graph decode")


@pytest.mark.parametrize("kind", ["skip", "repeat", "alter", "die"])
def test_faults_that_the_report_calls_possible_are_possible(kind: Any) -> None:
    """Checks which faults are possible: all at a call in the capture; at a replay only a delay and the rank's death."""
    there = Fault(kind, 1, REPLAY if kind == "die" else At("experts", 3), {"count": 3} if kind == "alter" else {})
    world = world_of(2, devices=["ep"], faults=(there,), delays=(Delay(0, REPLAY, 1000),))
    assert not never_applied(world, run(world, steps))


def test_a_death_within_a_replay_is_at_the_replay_or_at_the_call_in_the_capture() -> None:
    world = world_of(2, devices=["ep"], faults=(Fault("die", 1, WITHIN),))
    (said,) = never_applied(world, run(world, steps))
    assert "in replay 0 of graph decode" in said
    assert "name the replay, or the call in the capture" in said


def test_a_skip_of_a_kernel_is_possible_nowhere() -> None:
    world = world_of(2, devices=["ep"], faults=(Fault("skip", 1, At("mlp", LAYERS)),))
    (said,) = never_applied(world, run(world, steps))
    assert said.endswith("but there it changes nothing")


def test_the_site_of_a_replay_may_have_been_meant() -> None:
    world = world_of(2, devices=["ep"], faults=(Fault("die", 1, At("decode.goo", 1)),))
    assert never_applied(world, run(world, steps)) == [
        "die: rank 1 never reached decode.goo[1]; did you mean decode.go?"
    ]


def test_graphs_that_need_more_slots_than_there_are() -> None:
    """Two ranks replay two graphs on two streams in opposite order, with one slot each."""

    async def script(rank: Rank) -> None:
        graphs = []
        for kind in ("a", "b"):
            x, stream = rank.stream(kind).alloc(1, "int32", kind), rank.stream(kind)
            stream.launch("begin", set_to, writes=[x], args=(1,))
            async with rank.graph(kind).capture(stream):
                rank.device(kind).all_reduce(x, stream)
            graphs.append((rank.graph(kind), stream))
        for graph, stream in graphs[:: -1 if rank.rank else 1]:
            graph.replay(stream, f"{graph.name}.go")

    _, text = run_and_report(script, world_of(2, devices=["a", "b"], residency=1))
    assert line(text, "rank 0 is blocked in a.all_reduce[1]", "replay 0 of graph a (a.go[0] at ")
    assert line(text, "rank 1: its only slot is held by", "replay 0 of graph b (b.go[0] at ", "waits for one")


async def branch(rank: Rank, *, joined: bool, ordered: bool) -> None:
    """Captures a branch that copies. If not `ordered`, the captured stream writes the copy's target meanwhile. After
    the replay, the program's side stream writes it.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = main.alloc(4, "int32", "x"), main.alloc(4, "int32", "y")
    main.launch("begin", set_to, writes=[x], args=(1,))
    graph = rank.graph("decode")
    async with graph.capture(main):
        side.wait_stream(main)
        side.launch("copy", copy, reads=[x], writes=[y])
        if not ordered:
            main.launch("mlp", set_to, writes=[y], args=(2,))
        if joined:
            main.wait_stream(side)
    graph.replay(main, "decode.go")
    side.launch("after", set_to, writes=[y], args=(3,))
    await y.read("out", side)


def scripted(**how: Any) -> Script:
    async def script(rank: Rank) -> None:
        await branch(rank, **how)

    return script


def test_a_race_within_a_graph_is_mended_in_its_capture() -> None:
    _, text = run_and_report(scripted(joined=True, ordered=False), world_of(1))
    assert line(
        text, "in the capture of graph decode, stream main must wait for an event recorded on stream side after c"
    )
    assert line(text, "copy[1]", "in replay 0 of graph decode", "(side@decode: what decode captured on stream side)")


def test_a_race_with_a_branch_is_mended_behind_the_replay() -> None:
    _, text = run_and_report(scripted(joined=True, ordered=True), world_of(1))
    assert line(
        text, "stream side must wait for an event recorded on stream main after replay 0 of graph decode (decode"
    )


def test_a_race_with_a_replay_is_mended_before_it() -> None:
    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        y, graph = main.alloc(4, "int32", "y"), rank.graph("decode")
        async with graph.capture(main):
            main.launch("mlp", set_to, writes=[y], args=(2,))
        side.launch("input", set_to, writes=[y], args=(3,))
        graph.replay(main, "decode.go")

    _, text = run_and_report(script, world_of(1))
    cure = "stream main must wait for an event recorded on stream side after input[0], before replay 0 of graph decode"
    assert line(text, f"to mend   {cure}")


def test_a_stream_that_was_not_joined() -> None:
    _, text = run_and_report(scripted(joined=False, ordered=True), world_of(1))
    said = line(text, "raised CaptureError", "CUDA error 904, cudaErrorStreamCaptureUnjoined")
    assert "before the end, stream main has to wait for an event recorded on side after its last call, copy at " in said


def test_the_report_names_memory_that_a_pool_gave_out_again() -> None:
    async def script(rank: Rank) -> None:
        main, kept = rank.stream("main"), []
        for name in ("prefill", "decode"):
            async with rank.graph(name, "pool").capture(main):
                kept.append(main.alloc(4, "int32", name))
                main.launch("fill", set_to, writes=[kept[-1]], args=(1,))
                kept[-1].free()
        for name in ("prefill", "decode"):
            rank.graph(name).replay(main, f"{name}.go")
        await kept[0].read("out")

    _, text = run_and_report(script, world_of(1))
    assert text.startswith("VIOLATED  STALE:FREED")
    assert line(text, "alloc of prefill[1]", "in replay 0 of graph prefill (prefill.go[0] at ")
    assert line(text, "its pool gave the memory of prefill[1] out again", "in replay 0 of graph decode (decode.go[0]")


@pytest.mark.parametrize("how", ["reads", "polls"])
def test_a_refused_call_in_a_capture_says_where_to_make_it(how: str) -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        y = main.alloc(4, "int32", "y")
        async with rank.graph("decode").capture(main):
            await (y.read("peek") if how == "reads" else rank.mailbox("box").poll("peek"))

    _, text = run_and_report(script, world_of(1))
    said = line(text, "raised CaptureError", "peek: the host ")
    assert "while graph decode is captured; do it before the capture, or behind a replay (CUDA error 900, " in said
