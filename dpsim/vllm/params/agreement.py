"""A conformance test of backends that runs a protocol: the data-parallel batch agreement `dp_batch`.

`dpsim.testing.check_backend` runs this test beside the framework's own tests, because an entry point of the group
`dpsim.cases` names it.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.registry import protocol
from dpsim.vllm.params.arguments import EngineArguments, Request


def agreement(bench: Any) -> None:
    """Runs `dp_batch` on the backend of `bench`, once with the agreement over gloo and once over NCCL.

    The ranks must make the same decisions on every backend, in the same steps and by the same ops. `bench` compares
    them and raises if a backend differs.
    """
    for on_host in (True, False):
        args = EngineArguments(
            topology={"data_parallel_size": bench.size},
            config={"async_scheduling": on_host, "max_num_seqs": 8, "max_num_batched_tokens": 64},
            requests=(Request(0, 9, 3), Request(1_000_000, 70, 4), Request(2_000_000, 5, 6)),
            step_ns=1_000_000,
            form=protocol("dp_batch").forms[0],
        )
        bench.healthy("dp_batch", args, bench.world())
