"""How releases and the V2 runner differ for split batches: the forward, and the step that runs it.

    OverlapForward   source 001: three parties in the ready barrier, and the page's keys of graphs
    Forward014       a party for each microbatch
    Forward033       lists of boundaries, and one key to store and look up
    ForwardV2        the V2 runner: it runs an empty last microbatch, and captures a size whole as well as split

Sources: specification 3.9 and 4.12 (differences of releases).
"""

from __future__ import annotations

from dpsim.contract.interface import HostArray
from dpsim.vllm.capture.session import Target
from dpsim.vllm.data_parallel.captured_v2 import CapturedForwardV2
from dpsim.vllm.data_parallel.forward import Microbatch
from dpsim.vllm.data_parallel.microbatch import Slicing, Slicing033, SlicingV2
from dpsim.vllm.data_parallel.microbatch_inputs import MetadataCut, MetadataCutV2
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.overlap.graph_keys import GraphKeys, Keys033, KeysV2
from dpsim.vllm.overlap.wrapper import Running, UBatchWrapper


class Forward014(OverlapForward):
    """Release 0.14: the ready barrier has one party for each microbatch."""

    barrier: type[ReadyBarrier] = ReadyBarrier


class Forward033(Forward014):
    """Release 0.33: it accepts lists of boundaries, and stores and looks up graphs under one key."""

    slicing: type[Slicing] = Slicing033
    graph_keys: type[GraphKeys] = Keys033


class WrapperV2(UBatchWrapper):
    """The V2 runner raises the error of a microbatch after all threads have ended."""

    def surface(self, running: Running) -> None:
        for error in running.errors:
            failed, all_of = type(error).__name__, len(running.contexts)
            raise RuntimeError(f"one of {all_of} microbatches raised {failed}: {error}") from error


class ForwardV2(CapturedForwardV2, Forward033):
    """The V2 runner of 0.33: a last microbatch that is all padding runs, and keeps one request."""

    wrapper_of: type[UBatchWrapper] = WrapperV2

    slicing: type[Slicing] = SlicingV2
    metadata_cut: type[MetadataCut] = MetadataCutV2
    graph_keys: type[GraphKeys] = KeysV2

    def targets(self) -> list[Target]:
        return super().targets() if self.config.capture_graphs else []


class OverlapStep(DataParallelStep):
    """The steps of one rank on the V1 runner."""

    async def layer_result(self, part: Microbatch, model: str = "") -> HostArray:
        """Wait for a forward. Returns this rank's rows, which no other rank adds to."""
        buffer, mine = part
        result = await buffer.read("rows.read")
        buffer.free()
        return result[mine]


class OverlapStepV2(DataParallelStepV2, OverlapStep):
    """The steps of one rank on the V2 runner."""
