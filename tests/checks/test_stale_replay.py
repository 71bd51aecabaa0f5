"""Tests a replay that reads the same contents as the replay before. It is a finding if the program declared the buffer
with `per_replay`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpsim.checks.stale_replay import CLASS
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.world import World
from dpsim.diagnose.words import text
from dpsim.sim.backend import SimBackend
from dpsim.trace.form import decode, encode
from tests.judged import judge
from tests.programs import Script, Scripted, copy, explored, set_to

ALONE = World(1, ())
OLD = "replays may read old contents"


def batches(writes: Sequence[bool], per_replay: bool = True, graphs: int = 1, half: bool = False) -> Script:
    """Captures kernels that read x, and replays each graph once for each of `writes`, which says whether the host
    writes x before. With `half`, it writes only a half of x.
    """

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x, out = main.alloc(4, "int32", "x", per_replay=per_replay), main.alloc(4, "int32", "out")
        main.launch("warm", set_to, writes=[x], args=(7,))
        kept = [rank.graph(f"g{number}") for number in range(graphs)]
        for graph in kept:
            async with graph.capture(main):
                main.launch("copy", copy, reads=[x], writes=[out])
        for rank.step, written in enumerate(writes):
            if written:
                main.launch("fill", set_to, writes=[x.view(0, 2) if half else x], args=(rank.step,))
            for graph in kept:
                graph.replay(main, "go")
            await out.read("out")

    return script


@pytest.mark.parametrize(
    ("writes", "graphs", "step"),
    [
        ([True, True, True], 1, None),
        ([True, True], 2, None),
        ([False], 1, None),
        ([True, False, True], 1, 1),
        ([False, False, False], 1, 1),
        ([True, True, False], 2, 2),
    ],
)
def test_each_replay_needs_a_write(writes: list[bool], graphs: int, step: int | None) -> None:
    """Each later replay of a graph needs a new write. The first replay may read earlier contents, because no other
    replay has read them.
    """
    found = explored(ALONE, batches(writes, graphs=graphs))
    assert found.verdict == ("proven" if step is None else "violated")
    if step is not None:
        [finding] = found.findings
        assert (finding.klass, finding.culprit and finding.culprit.step) == (CLASS, step)
        assert explored(ALONE, batches(writes, per_replay=False, graphs=graphs)).verdict == "proven"


def test_elements_count_one_by_one() -> None:
    assert explored(ALONE, batches([True, True], half=True)).findings[0].klass == CLASS


@pytest.mark.parametrize("inside", [True, False])
def test_a_graph_that_writes_what_it_reads_needs_no_host(inside: bool) -> None:
    async def script(rank: Rank) -> None:
        main, graph = rank.stream("main"), rank.graph("g")
        x, out = main.alloc(1, "int32", "x", per_replay=True), main.alloc(1, "int32", "out")
        main.launch("warm", set_to, writes=[x], args=(7,))
        async with graph.capture(main):
            if inside:
                main.launch("fill", set_to, writes=[x], args=(1,))
            main.launch("copy", copy, reads=[x], writes=[out])
        for _ in range(2):
            graph.replay(main, "go")

    assert explored(ALONE, script).verdict == ("proven" if inside else "violated")


def test_the_report_names_the_replay_the_last_write_and_the_cure() -> None:
    [finding] = explored(ALONE, batches([True, False])).findings
    said = "\n".join([text(finding.message), *map(text, finding.details)])
    assert "copy[2]" in said
    assert "in replay 1 of graph g0 (go[1] at tests/checks/test_stale_replay.py:" in said
    assert "last written by fill[0] in step 0 at tests/checks/test_stale_replay.py:" in said
    assert "x[0] says per_replay in step 0 at tests/checks/test_stale_replay.py:" in said
    assert "cure: write x[0] before each replay" in said
    assert finding.culprit is not None
    assert finding.culprit.where.startswith("tests/checks/test_stale_replay.py:")


def test_without_the_mark_a_proof_says_so() -> None:
    assert OLD in explored(ALONE, batches([True, False], per_replay=False)).assumes
    assert OLD in explored(ALONE, batches([False], per_replay=False)).assumes
    assert OLD not in explored(ALONE, batches([True, True], per_replay=False)).assumes


def test_memory_of_a_capture_has_no_mark() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        async with rank.graph("g").capture(main):
            main.alloc(1, "int32", "x", per_replay=True)

    [finding] = explored(ALONE, script).findings
    assert "x: per_replay within a capture" in text(finding.message)


def test_a_trace_keeps_the_mark() -> None:
    """The declaration is a separate record after that of the allocation. So traces without it are unchanged."""
    script = batches([True, False])
    run = SimBackend().run_program(ALONE, Scripted(script), None)
    [journal] = run.journals
    assert [raw[KIND] for raw in journal][:2] == ["alloc", "fresh"]
    run.journals = [[decode(encode(0, raw))[1] for raw in journal]]
    assert [finding.klass for finding in judge(ALONE, run)] == [CLASS]
