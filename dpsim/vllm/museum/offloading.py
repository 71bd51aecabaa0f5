"""Variants of offloaded weights: a rank keeps weights in host memory and copies them to the device layer by layer.

The default program has all weights on the device. `cg-offload` is a healthy variant that copies them before each layer,
and the twin of the other variants. Each faulty variant lacks one wait of `dpsim.vllm.capture.offloader`, or has one
wait too many (M-CG-6 and M-CG-7 are mutants of section 5.12).
"""

from __future__ import annotations

from dpsim.contract.interface import Stream
from dpsim.vllm.capture.offloader import Offloader
from dpsim.vllm.capture.wrapper import CUDAGraphEntry, CUDAGraphWrapper, ForwardContext
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.museum.captures import HEALTHY, mutant


@mutant("cg-offload", None, f"{HEALTHY} M-CG-6")
class Offloads(CapturedForward):
    """A rank copies weights to the device just before their layer needs them (specification 5.9)."""

    layers = 4

    def make_offloader(self) -> Offloader | None:
        return Offloader(self.rank, self.layers, places=2)


@mutant("M-CG-6", "RACE:BUFFER", twin="cg-offload")
class ReplaysAtOnce(Offloads):
    """A graph replay does not wait for the weight copies of an earlier eager forward.

    So the replay reads weights while the copy stream writes them.
    """

    class Unsynced(CUDAGraphWrapper):
        def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
            entry.graph.replay(context.stream, f"{self.name}.replay")

    wrapper = Unsynced


@mutant("M-CG-7", "CRASH:CAPTUREERROR", twin="cg-offload")
class NeverJoins(Offloads):
    """A capture contains weight copies for the next forward, and the captured stream does not join the copy stream."""

    class Unjoined(CUDAGraphWrapper):
        def join(self, context: ForwardContext) -> None:
            pass

    wrapper = Unjoined


@mutant("offload-unjoined", "CRASH:CAPTUREERROR", twin="cg-offload")
class OffloadUnjoined(NeverJoins):
    """A capture forks the copy stream and does not join it before it ends (vllm pull request 51710)."""


@mutant("offload-isolated", "CRASH:CAPTUREERROR", twin="cg-offload")
class OffloadIsolated(Offloads):
    """A captured layer waits for a weight copy from before the capture (sglang pull request 29166)."""

    class Isolated(Offloader):
        def before_layer(self, layer: int, stream: Stream, capturing: bool) -> None:
            stream.wait(self.copied[layer].event)
            self.unwaited.discard(layer)

    def make_offloader(self) -> Offloader:
        return self.Isolated(self.rank, self.layers, places=2)
