"""The program `pp_tokens`: pipelines that transfer hidden states forward, and broadcast sampled tokens backward.

A rank is a stage. Classes that the form of the program selects, called *pieces*, do parts of the work; a known mistake
(a *variant*) replaces one piece.

    protocol: {name: pp_tokens, form: source-002}
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.ops import RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.capture.session import refused
from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology
from dpsim.vllm.model.kernels import LAYERS
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.params.estimate import estimate_of
from dpsim.vllm.pipeline.graphs import CapturedLayers
from dpsim.vllm.pipeline.history import History, histories
from dpsim.vllm.pipeline.layers import EagerLayers, Layers
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.programs.modes import NEITHER
from dpsim.vllm.releases import PLACES, named, there
from dpsim.vllm.releases.protects import protects_of, says_unprotected, shows_of, unprotected_of


class PipelineSetup(NamedTuple):
    """The values that all ranks share: a history of calls for each replica, and the pieces of the program."""

    topology: Topology
    histories: Sequence[History]
    stage: type[Stage]
    tokens: type[SampledTokens]
    transfer: type[Transfer]
    layers: type[Layers] = EagerLayers


@register_protocol("pp_tokens", forms=PLACES["pp_tokens"].names)
@says_unprotected
class PipelineTokens(Program[PipelineSetup]):
    """Sampled tokens of pipelines, and the hidden states between their stages.

    Each tensor-parallel rank of a stage computes the whole model, and sends a slice to the next stage. A variant
    replaces the stage, the broadcast of tokens, the transfer of hidden states, the scheduler, or the captured layers
    (with `config.capture_graphs`).
    """

    protects = protects_of("pp_tokens")
    unprotected = unprotected_of("pp_tokens")
    shows = shows_of("pp_tokens")
    heeds = ("abort_ns", "stop_after", "drafts", "structured_output", "session")
    probes = ("pp.some_excluded", "pp.all_excluded", "pp.dummy_step", "pp.none", "pp.piecewise", "pp.full")

    def reachable(self, prepared: PipelineSetup) -> tuple[str, ...]:
        """Tokens need several stages, dummy steps several replicas, and modes captured layers."""
        excluded = self.probes[:2] if prepared.topology.pipeline_parallel_size > 1 else ()
        dummies = self.probes[2:3] if len(prepared.histories) > 1 else ()
        if prepared.layers is EagerLayers:
            return excluded + dummies
        graphs = prepared.histories[0].config.cudagraph_mode
        modes = [mode for mode in RuntimeMode if mode is RuntimeMode.NONE or graphs.has_mode(mode)]
        return (*excluded, *dummies, *[f"pp.{mode.name.lower()}" for mode in modes])

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args, table=True)

    def prepare(self, args: EngineArguments) -> PipelineSetup:
        config = EngineConfig.model_validate(args.config)
        topology = Topology.model_validate(args.topology)
        replicas, stages = topology.data_parallel_size, topology.pipeline_parallel_size
        if stages > LAYERS or (replicas > 1 and stages == 1):
            raise Unsuitable(
                f"topology: expected pipelines of 1 to {LAYERS} stages (of 2 or more where there are replicas), as "
                f"pp_tokens runs them; got {topology}"
            )
        release, form = named("pp_tokens", args.form)[0], f"protocol.form: {args.form}"
        pieces: dict[type[Any], type[Any]] = {Stage: Stage, SampledTokens: there(release.tokens, form)}
        pieces |= {PipelineScheduler: there(release.scheduler, form), Transfer: there(release.transfer, form)}
        if config.capture_graphs:
            if (reason := refused(config)) is not None:
                raise Unsuitable(reason)
            pieces[CapturedLayers] = CapturedLayers
        pieces = with_variant(self, args, pieces)
        engines = histories(args.requests, replicas, stages, config, args.step_ns, pieces[PipelineScheduler])
        own = pieces[Stage], pieces[SampledTokens], pieces[Transfer], pieces.get(CapturedLayers, EagerLayers)
        return PipelineSetup(topology, engines, *own)

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: PipelineSetup) -> Sequence[str]:
        """That no stage runs in a graph, where the engine's stages do and the configuration captures none."""
        config = prepared.histories[0].config
        graphs = config.cudagraph_mode != "NONE" and not config.enforce_eager
        return (NEITHER,) * (graphs and not config.capture_graphs)

    def steps(self, prepared: PipelineSetup) -> int:
        return len(prepared.histories[0].calls)

    def figures(self, prepared: PipelineSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns the counts of batches, tokens and dummy steps, which follow from the histories alone."""
        calls = [call for history in prepared.histories for call in history.calls]
        batches = [call.batch for call in calls if call.batch is not None]
        return {
            "batches": len(batches),
            "without tokens": sum(not batch.rows for batch in batches),
            "tokens computed": sum(batch.num_tokens for batch in batches),
            **({"dummy steps": sum(call.dummy for call in calls)} if len(prepared.histories) > 1 else {}),
        }

    async def run(self, rank: Rank, prepared: PipelineSetup) -> None:
        replica, _, _ = prepared.topology.coordinates(rank.rank)
        history, tensor_parallel_size = prepared.histories[replica], prepared.topology.tensor_parallel_size
        own = prepared.tokens, prepared.transfer, tensor_parallel_size, prepared.layers
        await prepared.stage(rank, history, *own).run()
