"""Pieces of releases by the names that scenarios have for them, read from the records."""

from __future__ import annotations

from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.graphs.dispatcher import Dispatcher
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.releases import V0_14, V0_17, V0_33, named, names, there

STEPS = names("dp_batch", "v1")
"""Of a data-parallel step on the V1 runner."""
AGREEMENTS: dict[str, type[BatchForm]] = {name: there(named("dp_batch", name)[0].agreement, name) for name in STEPS}
FLOWS: dict[str, type[BatchFlow]] = {name: there(named("dp_batch", name)[0].flow, name) for name in STEPS}
GRAPHS_OF: dict[str, type[Dispatcher]] = {name: there(named("dp_batch", name)[0].dispatcher, name) for name in STEPS}
GRAPHS: dict[str, type[Dispatcher]] = {
    name: there(named("graphs", name)[0].dispatcher, name) for name in names("graphs", "v1")
}
DISPATCHERS = {one.name: there(one.dispatcher, one.name) for one in (V0_14, V0_17, V0_33)}
TRANSFERS: dict[str, type[Transfer]] = {
    name: there(named("pp_tokens", name)[0].transfer, name) for name in ("source-002", V0_14.name, V0_33.name)
}
"""One name of each transfer; other forms of `pp_tokens` have the same ones."""


def forward(name: str) -> type[OverlapForward]:
    """Of a form of `dbo`."""
    release, runner = named("dbo", name)
    return there(there(release.v2, name).microbatches if runner == "v2" else release.microbatches, name)


FORWARDS = {name: forward(name) for name in names("dbo")}
