"""Pieces of releases, such as an agreement or a dispatcher, by the names that scenarios use for them."""

from __future__ import annotations

from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.graphs.dispatcher import Dispatcher
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.releases import V0_14, V0_17, V0_33, named, names, there

STEPS = names("dp_batch", "v1")
"""Names of the data-parallel steps of the V1 runner."""
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
"""One name for each transfer. Further forms of `pp_tokens` share these transfers."""


def forward(name: str) -> type[OverlapForward]:
    """Returns the microbatched forward of a form of `dbo`."""
    release, runner = named("dbo", name)
    return there(there(release.v2, name).microbatches if runner == "v2" else release.microbatches, name)


FORWARDS = {name: forward(name) for name in names("dbo")}
