"""Tests of programs of torch.distributed, in tables. All of them are slow, because each process of torch costs CPU
seconds.
"""

from __future__ import annotations

import pytest

from tests.torch.runs import blamed, explored

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

HOLD = (
    *("averages", "from_root", "ring", "neighbours", "subgroups"),
    *("objects", "rendezvous", "shards", "overlapped", "half_precision"),
)
WRONG = {
    "skips": ("HANG:COLLECTIVE:MISSING_RANK", (1,)),
    "leaves_early": ("HANG:COLLECTIVE:MISSING_RANK", (1,)),
    "wrong_peer": ("HANG:P2P:UNMATCHED_RECV", (0,)),
    "crossed_sends": ("HANG:P2P:CROSSED_SENDS", (0, 1)),
    "crossed_groups": ("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", ()),
    "one_receive_more": ("HANG:P2P:UNMATCHED_RECV", (0,)),
    "misspelt_key": ("HANG:STORE:NO_VALUE", (0,)),
    "group_of_some": ("MISMATCH:GROUP:RANKS", (2,)),
    "other_shape": ("MISMATCH:COLLECTIVE:COUNT", (1,)),
    "other_root": ("MISMATCH:COLLECTIVE:ROOT", (1,)),
}
"""For each program of `plain.py` with a mistake, the class and the culprits. A cycle of two ranks has no majority. For
a receive without a send, the culprit is the sender.
"""

PLANTED = {
    "skip": ("HANG:COLLECTIVE:MISSING_RANK", (1,)),
    "wrong_peer": ("HANG:P2P:UNMATCHED_RECV", (0,)),
    "crossed": ("HANG:P2P:CROSSED_SENDS", (0, 1)),
    "group_order": ("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", ()),
    "shape": ("MISMATCH:COLLECTIVE:COUNT", (1,)),
    "dtype": ("MISMATCH:COLLECTIVE:DTYPE", (1,)),
    "dtype_odd": ("MISMATCH:COLLECTIVE:DTYPE", (1,)),
    "unmatched_recv": ("HANG:P2P:UNMATCHED_RECV", (0,)),
    "key_never_set": ("HANG:STORE:NO_VALUE", (0,)),
    "new_group_order": ("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", ()),
    "new_group_some": ("MISMATCH:GROUP:RANKS", (2,)),
    "early_return": ("HANG:COLLECTIVE:MISSING_RANK", (1,)),
    "object_src": ("MISMATCH:COLLECTIVE:ROOT", (1,)),
    "async_race": ("HANG:COLLECTIVE:MISSING_RANK", (1, 2)),
}
"""For each program of `planted.py`, the class and the culprits. Either of the two other ranks may be late in
`async_race`.
"""

TYPED: dict[str, tuple[str, tuple[int, ...]]] = {
    "gather_left_out": ("HANG:COLLECTIVE:MISSING_RANK", (1,)),
    "scatter_of_another_root": ("MISMATCH:COLLECTIVE:ROOT", (1,)),
    "another_reduction": ("MISMATCH:COLLECTIVE:REDUCE", (1,)),
    "gather_of_another_type": ("MISMATCH:COLLECTIVE:DTYPE", (2,)),
}
"""For each program of `typed.py` with a mistake, the class and the culprits."""

LIBRARIES = (
    *("ddp", "join", "fsdp2", "dtensor", "tensor_parallel"),
    *("checkpoint", "zero", "averaging", "elastic"),
)
PIPELINES = (
    *("gpipe", "one_forward_one_backward", "looped_bfs"),
    *("interleaved", "interleaved_zero_bubble", "zbv", "dualpipe_v"),
)


@pytest.mark.parametrize("name", HOLD)
def test_a_plain_program_holds(name: str) -> None:
    assert explored(f"plain.py:{name}", 3).verdict == "proven"


@pytest.mark.parametrize("order", ["gloo", "nccl"])
@pytest.mark.parametrize("name", ["reductions", "pieces", "refused"])
def test_types_and_reductions_are_those_of_torch(name: str, order: str) -> None:
    assert explored(f"typed.py:{name}", 3, order=order).verdict == "proven"


def test_nccl_reduces_no_bits() -> None:
    assert explored("typed.py:bits", 3).verdict == "proven"
    found = explored("typed.py:bits", 3, order="nccl")
    assert blamed(found)[0] == "CRASH:RUNTIMEERROR"
    assert "Cannot use ReduceOp.BAND with NCCL" in found.report()
    assert "typed.py:" in found.report()


MISTAKES: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {"plain": WRONG, "planted": PLANTED, "typed": TYPED}


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in MISTAKES.items() for name in names])
def test_a_mistake_is_found_and_blamed(file: str, name: str) -> None:
    klass, culprits = MISTAKES[file][name]
    found, ranks, where = blamed(explored(f"{file}.py:{name}", 3))
    assert found == klass
    assert set(ranks) <= set(culprits)
    assert bool(ranks) == bool(culprits)
    assert not ranks or where.startswith(f"{file}.py:") or where.startswith(f"tests/torch/programs/{file}.py:")


@pytest.mark.parametrize("name", ["isolated", *(f"relies_on_{way}" for way in range(12))])
def test_ranks_share_no_state_of_python(name: str) -> None:
    found = explored(f"sharing.py:{name}", 2)
    if name == "isolated":
        assert found.verdict == "proven"
    else:
        assert blamed(found)[:2] == ("CRASH:ASSERTIONERROR", (1,))


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_holds_and_a_mistake_of_its_user_is_found_at_his_line(name: str) -> None:
    assert explored(f"libraries.py:{name}", 2).verdict == "proven"
    twin = explored(f"libraries.py:{name}_twin", 2)
    assert twin.verdict == "violated"
    assert "libraries.py:" in twin.report()


@pytest.mark.parametrize("order", ["gloo", "nccl"])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_schedule_of_pipelines_holds(name: str, order: str) -> None:
    assert explored(f"pipelines.py:{name}", 2, order=order).verdict == "proven"


def test_transfers_that_gloo_allows_hang_in_the_order_of_nccl() -> None:
    assert explored("pairs.py:batched", 2, order="nccl").verdict == "proven"
    assert explored("pairs.py:unbatched", 2).verdict == "proven"
    assert blamed(explored("pairs.py:unbatched", 2, order="nccl"))[0].startswith("HANG:P2P")


@pytest.mark.parametrize(
    ("name", "klass"), [("exits", "CRASH:EXITED"), ("killed", "CRASH:KILLED"), ("spins", "CRASH:SILENT")]
)
def test_how_a_process_ended_is_a_finding(name: str, klass: str) -> None:
    found, ranks, _ = blamed(explored(f"endings.py:{name}", 2, silence=3 if name == "spins" else 10))
    assert (found, ranks) == (klass, (1,))


@pytest.mark.parametrize("name", ["reads_clocks", "draws"])
def test_clocks_and_random_numbers_are_the_same_in_each_run(name: str) -> None:
    assert explored(f"endings.py:{name}", 2).verdict == "proven"
