"""Explores each supported call of torch.distributed on four ranks, in the order of gloo and of NCCL. dpsim proves each
program.

If four ranks change one key of a store, there are 4! orders. All other calls have one schedule, or two if a rank may
end before another polls.
"""

from __future__ import annotations

import ast
from types import FunctionType

import pytest

from tests.properties import every, nightly_but
from tests.torch.runs import PROGRAMS, explored

pytest.importorskip("torch")

DEFINED = [one.name for one in ast.parse((PROGRAMS / "calls.py").read_text()).body if isinstance(one, ast.FunctionDef)]
CALLS = [name for name in DEFINED if not name.startswith("_")]
MANY = {"store_add": 24, "store_compare_set": 24}
"""The numbers of schedules of programs with more than two."""
WITHOUT = ("tags",)
"""NCCL has no tags."""
NEITHER = {
    *("get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank"),
    *("get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size"),
    *("is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available"),
    *("is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "supports_complex"),
    *("init_process_group", "record_comm"),
}
"""Functions without communication, and the function that each script calls."""
REFUSED = {"shrink_group", "get_backend_impl"}
WITHIN = {
    **{"recv": "send", "irecv": "isend", "recv_object_list": "send_object_list"},
    "new_subgroups_by_enumeration": "new_subgroups",
    **{"all_gather_single": "single", "reduce_scatter_single": "single", "gather_into_tensor": "gather_single"},
    "set_timeout": "in_time, of timeouts.py",
}
"""Calls that the program of another call covers."""


@pytest.mark.parametrize("name", nightly_but(CALLS, lambda name: name != "functional_collectives"))
def test_a_call_of_four_ranks_is_proven(name: str) -> None:
    found = explored(f"calls.py:{name}", 4)
    assert found.verdict == "proven"
    assert found.exploration.runs <= MANY.get(name, 2)


@pytest.mark.parametrize(
    "name", nightly_but([name for name in CALLS if name not in WITHOUT], every(3, CALLS).__contains__)
)
def test_a_call_of_four_ranks_is_proven_in_the_order_of_nccl(name: str) -> None:
    found = explored(f"calls.py:{name}", 4, order="nccl")
    assert found.verdict == "proven"
    assert found.exploration.runs <= MANY.get(name, 2)


@pytest.mark.slow
def test_no_function_of_torch_is_left_out() -> None:
    from torch.distributed import distributed_c10d as c10d

    public = {name for name in c10d.__all__ if type(getattr(c10d, name)) is FunctionType}
    assert public - NEITHER - REFUSED - {*WITHIN} <= {*CALLS}
