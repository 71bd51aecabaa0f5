"""Tests that hangs, deaths and exceptions end in runs with readable journals, and that the next run on the same backend
finishes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.ops import ADDRESS, INJECTED_WHAT, KIND, MAIN, ORDINAL, SITE, WHERE, Collective, as_record
from dpsim.contract.registry import UnknownName
from dpsim.contract.rules.shared_state import SharedState
from dpsim.contract.world import At, Fault, Run, World
from dpsim.sim.backend import SimBackend
from real.backend import TorchBackend
from real.crew import ProgramRefused
from tests.backend.mistakes import KERNELS, LEFT, NO_MISTAKES, SAID
from tests.real import programs  # registers the test programs
from tests.real.worlds import NCCL
from tests.records import raw

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

# Most tests use backends that recover without new workers, because new workers after every hang would take minutes.
on_all = pytest.mark.parametrize(
    "backend", ["gloo", pytest.param("aborting", marks=pytest.mark.slow), NCCL], indirect=True
)
on_reusable = pytest.mark.parametrize("backend", ["aborting", NCCL], indirect=True)

ROUNDS = {"rounds": 3}
STALL_NS = 1_000_000_000


@pytest.fixture(autouse=True)
def _next_run_is_good(backend: TorchBackend, world: World) -> Iterator[None]:
    """Checks after every test that the next run finishes."""
    yield
    run = backend.run(world, "real_rounds", {"rounds": 1})
    assert run.ends == ["finished", "finished"]
    assert run.observed == ""


def faulty(backend: TorchBackend, world: World, kind: Any, at: At, **change: Any) -> Run:
    return backend.run(replace(world, faults=(Fault(kind, 1, at, change),), stall_ns=STALL_NS), "real_rounds", ROUNDS)


@on_all
def test_a_skipped_collective_hangs(backend: TorchBackend, world: World) -> None:
    """Rank 1 skips a collective. Its later calls match those of rank 0, so the last call of rank 0 has no partner."""
    run = faulty(backend, world, "skip", At("device", 1))
    assert "blocked" in run.ends
    assert run.observed == "no rank moved for 1 s"
    assert run.elapsed_ns > 1_000_000_000
    skipped = [record for record in run.journals[1] if record[KIND] == "injected"]
    assert [(record[SITE], record[ORDINAL], record[INJECTED_WHAT]) for record in skipped] == [("device", 1, "skip")]
    assert [as_record(record).step for record in run.journals[0]][-1] >= 1
    ops = [record for record in run.journals[0] if record[KIND] == "collective"]
    assert {run.chains[record[WHERE]][0] for record in ops} == {("run", record[WHERE]) for record in ops}


@on_all
def test_a_rank_dies(backend: TorchBackend, world: World) -> None:
    before = backend.pool.processes
    run = faulty(backend, world, "die", At("host", 1))
    assert run.ends == ["blocked", "died"]
    assert run.journals[1][-1][KIND] == "injected"
    assert run.journals[0][-1][ADDRESS] == (MAIN, "host", 1)
    assert run.steps_set == (1, 1)
    assert run.observed == "rank 1 died (SIGKILL)"
    assert not set(backend.pool.processes) & set(before)


@pytest.mark.slow
@on_reusable
def test_a_program_raises(backend: TorchBackend, world: World) -> None:
    run = backend.run(world, "real_misbehaves", {"how": "raises", "wait": True})
    assert run.ends == ["blocked", "raised"]
    line = programs.Misbehaves.raises.__code__.co_firstlineno + 1
    where = f"tests/real/programs.py:{line}"
    assert run.journals[1] == [raw("raised", "ValueError", step=7, where=where, message="two words and a line")]
    assert run.observed == "no rank moved for 1 s after rank 1 raised"


@on_reusable
@pytest.mark.parametrize(
    ("how", "site", "message", "line"),
    [
        ("awaits_twice", "RuntimeError", "read[0] was awaited twice", 3),
        ("suspends", "ForeignAwait", "the protocol awaited something that is not of its Rank", 1),
        ("launches_nonsense", "KernelError", "kernel divide of rank 1 divide[0]: ZeroDivisionError", None),
    ],
)
def test_a_mistake_of_a_protocol_raises_in_its_rank_and_keeps_the_workers(
    backend: TorchBackend, world: World, how: str, site: str, message: str, line: int | None
) -> None:
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished  # the workers have started
    before = backend.pool.processes
    run = backend.run(world, "real_misbehaves", {"how": how})
    assert run.ends == ["finished", "raised"]
    assert run.observed == "rank 1 raised"
    assert backend.pool.processes == before  # no rank was stuck
    raised: Any = as_record(run.journals[1][-1])
    assert (raised.kind, raised.step, raised.site) == ("raised", 7, site)
    assert raised.message.startswith(message)
    if line is not None:
        first = getattr(programs.Misbehaves, how).__code__.co_firstlineno
        assert raised.where == f"tests/real/programs.py:{first + line}"


@on_reusable
def test_a_breach_of_the_contract_is_refused_as_on_the_simulation(backend: TorchBackend, world: World) -> None:
    for how in ("makes_them_all", *KERNELS, *NO_MISTAKES):
        run, there = backend.run(world, "mistakes", {"how": how}), SimBackend().run(world, "mistakes", {"how": how})
        ends = [[raw[SITE:] for raw in one.journals[1] if raw[KIND] in ("raised", "finished")] for one in (run, there)]
        if how in KERNELS:  # numpy raises at the write, tensors later
            ends = [[(end[0], end[-1]) for end in own] for own in ends]
        assert ends[0] == ends[1], how
        assert len(ends[0]) == (len(SAID) + 1 if how == "makes_them_all" else 1)
        assert run.ends == there.ends


@on_reusable
@pytest.mark.parametrize("how", ["fills a list", "writes an array", "assigns", "raises"])
def test_state_that_ranks_may_share_is_refused_as_on_the_simulation(
    backend: TorchBackend, world: World, how: str
) -> None:
    processes, said = [], []
    for one in (backend, backend, SimBackend()):
        with pytest.raises(
            SharedState, match=r"^Shares.run \(tests/real/programs.py:\d+\) changed (prepared|self)"
        ) as error:
            one.run(world, "real_shares", {"how": how})
        said.append(str(error.value))
        processes.append(backend.pool.processes)
    assert said[0] == said[1] == said[2]
    assert processes[0]
    assert processes[0] == processes[1]


@on_reusable
def test_state_that_ranks_only_read_may_be_shared(backend: TorchBackend, world: World) -> None:
    assert backend.run(world, "real_shares", {"how": "reads"}).finished


@on_reusable
@pytest.mark.parametrize("how", LEFT)
def test_an_op_that_a_program_leaves_over_is_found(backend: TorchBackend, world: World, how: str) -> None:
    run = backend.run(world, "mistakes", {"how": how})
    assert run.finished
    assert [finding.klass for finding in judge(world, run)] == LEFT[how]


@on_reusable
@pytest.mark.parametrize(
    ("site", "kind", "change"),
    [
        ("host", "repeat", {}),
        pytest.param("device", "repeat", {}, marks=pytest.mark.slow),
        pytest.param("host", "alter", {"count": 9}, marks=pytest.mark.slow),
        pytest.param("device", "alter", {"count": 8, "dtype": "int32"}, marks=pytest.mark.slow),
        pytest.param("host", "alter", {"op": "broadcast", "root": 0}, marks=pytest.mark.slow),
        *[pytest.param("host", "alter", {"op": op}, marks=pytest.mark.slow) for op in ("reduce", "gather", "scatter")],
        pytest.param("device", "alter", {"dtype": "bfloat16"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_repeated_and_altered_collectives_give_a_run(
    backend: TorchBackend, world: World, site: str, kind: str, change: dict[str, Any]
) -> None:
    """Runs repeated and altered collectives. The library may hang, end the process, raise, or return numbers; the test
    checks only the records.
    """
    run = faulty(backend, world, kind, At(site, 1), **change)
    assert run.finished == (run.observed == "")
    records = [as_record(record) for record in run.journals[1]]
    injected = next(record for record in records if record.kind == "injected")
    assert (injected.site, injected.ordinal) == (site, 1)
    issued = [one for one in records if isinstance(one, Collective) and one.seq in (1, 2) and one.site == site]
    if kind == "repeat":
        assert [record.ordinal for record in issued][:2] == [1, 2]
    else:
        assert {name: getattr(issued[0], name) for name in change} == change


@on_reusable
def test_a_deadline_ends_what_still_moves(backend: TorchBackend, world: World) -> None:
    run = backend.run(replace(world, deadline_ns=300_000_000), "real_rounds", {"rounds": 1_000_000})
    assert run.ends == ["blocked", "blocked"]
    assert run.observed == "the run did not end within 0.3 s"


@on_reusable
def test_a_program_that_cannot_be_prepared(backend: TorchBackend, world: World) -> None:
    with pytest.raises(ProgramRefused, match="no such argument"):
        backend.run(world, "real_unprepared", {})


@on_reusable
def test_a_program_that_is_not_there_starts_nothing(backend: TorchBackend, world: World) -> None:
    before = backend.pool.processes
    with pytest.raises(UnknownName, match="did you mean 'real_rounds'"):
        backend.run(world, "real_round", {})
    assert backend.pool.processes == before
