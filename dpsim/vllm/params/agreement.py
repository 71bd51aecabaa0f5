"""A case of the conformance suite that runs a protocol: all ops of a step of dp_batch, on any backend.

An entry point of the group `dpsim.cases` names it, and `dpsim.testing.check_backend` runs it beside its own cases.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.registry import protocol
from dpsim.vllm.params.arguments import EngineArguments, Request


def agreement(bench: Any) -> None:
    """A protocol decides the same on every backend, in the same steps and by the same ops, on the host as on the
    device.
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
