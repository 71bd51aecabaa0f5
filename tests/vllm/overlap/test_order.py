"""Tests the order of calls in the journals of microbatches: invariants I-BT-5, I-BT-11, I-BT-12, each with a faulty
twin.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Buffer, Stream
from dpsim.contract.ops import KIND, STREAM, RawRecord, as_record
from dpsim.contract.world import Run
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from dpsim.vllm.data_parallel.captured import Metadata
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.overlap.wrapper import Running, UBatchWrapper
from dpsim.vllm.programs.dbo import DualBatchOverlap
from tests.vllm.overlap.dbo_worlds import GRAPHS, scenario

pytestmark = pytest.mark.runs_once  # the chooser draws from one random sequence, so a second run differs

EAGER = scenario([(4, 1), (2, 1), (2, 1), (3, 1)])
CAPTURED = scenario([(1, 3)] * 4, **{**GRAPHS, "cudagraph_capture_sizes": [2], "max_num_seqs": 2})
THREE = scenario([(6, 1), (5, 1)], num_ubatches=3)
SCHEDULES = 5


def run(one: Scenario, forward: type[OverlapForward] = Forward033, seed: int | None = None) -> Run:
    """Runs a scenario once, in the default schedule or in a schedule that a seed draws."""
    draws = random.Random(seed)
    choose = None if seed is None else lambda _, options: draws.randrange(len(options))
    setup = prepare(one, Path())[2]._replace(forward=forward)
    return SimBackend(choose=choose).run_program(world(one), DualBatchOverlap(), setup)


def classes(one: Scenario, done: Run) -> list[str]:
    return [finding.klass for finding in judge(world(one), done)]


# ---- I-BT-5


def issued(journal: Sequence[RawRecord]) -> list[tuple[int, int, str, str]]:
    """Returns the dispatches and combines of a rank in the order of issue: step, layer, phase and microbatch.

    Calls that a capture keeps do not count, because the replays issue them.
    """
    layers: Counter[tuple[int, str, str]] = Counter()
    found = []
    for raw in journal:
        record: Any = as_record(raw)
        if record.kind == "collective" and record.communicator == "ep" and record.site.startswith("experts."):
            phase = record.step, record.site, record.thread
            found.append((record.step, layers[phase], record.site, record.thread))
            layers[phase] += 1
    return found


class OtherFirst(Forward033):
    """Faulty: on rank 1 the last microbatch has the baton first."""

    class Wrapper(UBatchWrapper):
        async def finish(self, running: Running) -> Any:
            running.contexts[-1 if self.rank.rank == 1 else 0].wait_event.set("baton.first")
            return await self.joined(running)

    wrapper_of = Wrapper


@pytest.mark.parametrize("one", [EAGER, CAPTURED, THREE], ids=["eager", "captured", "three"])
@pytest.mark.parametrize("seed", [None, *range(SCHEDULES)])
def test_all_ranks_issue_their_kernels_in_the_same_order(one: Scenario, seed: int | None) -> None:
    """Invariant I-BT-5: ranks issue dispatches and combines in one order of layer, phase and microbatch, so that they
    pair.
    """
    done = run(one, seed=seed)
    assert classes(one, done) == []
    first, *others = [issued(journal) for journal in done.journals]
    assert {microbatch for *_, microbatch in first} >= {"ubatch.0", "ubatch.1"}
    assert others == [first] * len(others)


@pytest.mark.parametrize("one", [EAGER, CAPTURED, THREE], ids=["eager", "captured", "three"])
def test_another_order_on_one_rank_is_found(one: Scenario) -> None:
    done = run(one, OtherFirst)
    first, second = [issued(journal) for journal in done.journals]
    assert first[: len(second)] != second[: len(first)]
    assert classes(one, done) != []


# ---- I-BT-11


class Read(NamedTuple):
    """A buffer that a replay reads and does not write itself.

    `by`: the stream of its last writer; None without a writer.
    """

    graph: str
    buffer: int
    by: str | None


def reads_of_replays(journal: Sequence[RawRecord]) -> list[tuple[Read, str]]:
    """Returns each read of a replay, with the stream of the replay.

    In a journal, the records of a replay's calls follow the replay's record.
    """
    written: dict[int, str] = {}
    found = []
    at = 0
    while at < len(journal):
        record: Any = as_record(journal[at])
        at += 1
        if record.kind == "replay":
            own, left = set(), record.calls
            while left:
                call: Any = as_record(journal[at])
                at += 1
                left -= call.kind not in ("alloc", "free")
                found += [
                    (Read(record.graph, ref[0], written.get(ref[0])), record.stream)
                    for ref in getattr(call, "reads", ())
                    if ref[0] not in own
                ]
                own |= {ref[0] for ref in getattr(call, "writes", ())}
        elif record.kind != "kept":
            written |= {ref[0]: record.stream for ref in getattr(record, "writes", ())}
    return found


class PreparesBeside(Forward033):
    """Faulty: the rank writes the attention metadata on the comm stream, for which no replay waits."""

    def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Stream) -> None:
        capturing = self.captures.allowed
        super().put_metadata(metadata, into, stream if capturing else self.rank.stream("comm"))


@pytest.mark.parametrize("seed", [None, *range(SCHEDULES)])
def test_a_replay_reads_what_its_caller_wrote_before(seed: int | None) -> None:
    """Invariant I-BT-11: a replay reads only buffers that its own compute stream wrote, so the writes are complete."""
    done = run(CAPTURED, seed=seed)
    assert classes(CAPTURED, done) == []
    for journal in done.journals:
        found = reads_of_replays(journal)
        assert len({read.buffer for read, _ in found}) >= 9, (
            "replays read the inputs, and weights and metadata of two layers"
        )
        assert [read for read, stream in found if read.by != stream] == []


def test_a_replay_that_reads_the_write_of_another_stream_is_a_race() -> None:
    done = run(CAPTURED, PreparesBeside)
    found = [read for read, stream in reads_of_replays(done.journals[0]) if read.by != stream]
    assert {read.by for read in found} == {"comm"}
    assert "RACE:BUFFER" in classes(CAPTURED, done)


# ---- I-BT-12


def unjoined(journal: Sequence[RawRecord]) -> dict[str, list[str]]:
    """Returns for each graph the streams that its own stream has not joined at the end of the capture."""
    ops: dict[str, Counter[str]] = defaultdict(Counter)
    seen: dict[str, defaultdict[str, Counter[str]]] = {}
    marks: dict[tuple[str, int], Counter[str]] = {}
    found = {}
    for raw in journal:
        record: Any = as_record(raw)
        if record.kind == "kept":
            graph, stream = record.graph, record.stream
            known = seen.setdefault(graph, defaultdict(Counter))
            if record.call == "wait":
                known[stream] |= marks[graph, record.fields[1]]
            elif record.call == "mark":
                marks[graph, record.fields[1]] = known[stream].copy()
            else:
                ops[graph][stream] += 1
                known[stream][stream] = ops[graph][stream]
        elif record.kind == "capture" and record.what != "begin":
            known = seen.get(record.graph, defaultdict(Counter))
            joined = known[record.stream]
            found[record.graph] = [one for one, count in ops[record.graph].items() if joined[one] < count]
    return found


class LeavesComm(Forward033):
    """Faulty: the compute stream does not wait for the last communication of a microbatch."""

    class Context(UBatchContext):
        def wait_comm_done(self) -> None:
            if not self.forward.context.capturing:
                super().wait_comm_done()

    ubatch_context = Context


def test_streams_of_a_capture_are_joined_before_its_end() -> None:
    """Invariant I-BT-12: the compute and comm streams of both microbatches have joined when the capture ends."""
    done = run(CAPTURED)
    assert classes(CAPTURED, done) == []
    for journal in done.journals:
        used = {raw[STREAM] for raw in journal if raw[KIND] == "kept"}
        assert used == {"capture", "comm"}
        assert unjoined(journal) == {"ubatches.0": []}


def test_a_stream_that_is_not_joined_is_found() -> None:
    done = run(CAPTURED, LeavesComm)
    assert unjoined(done.journals[0]) == {"ubatches.0": ["comm"]}
    assert classes(CAPTURED, done) == ["CRASH:CAPTUREERROR"]
