"""Variants of weights that a rank copies to the device layer by layer: mutants of 5.12, and bugs of area 4.

The protocol has its weights on the device. `cg-offload` is the healthy extension that copies them there in time, and
the twin of all others. Each of these has one wait of `dpsim.vllm.capture.offloader` less, or one too many.

    protocol: {name: dp_batch, form: source-000, variant: M-CG-6}       config: {capture_graphs: true}
"""

from __future__ import annotations

from dpsim.contract.interface import Stream
from dpsim.vllm.capture.offloader import Offloader
from dpsim.vllm.capture.wrapper import CUDAGraphEntry, CUDAGraphWrapper, ForwardContext
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.museum.captures import HEALTHY, mutant


@mutant("cg-offload", None, f"{HEALTHY} M-CG-6")
class Offloads(CapturedForward):
    """A rank copies weights to the device just before their layer needs them (5.9)."""

    layers = 4

    def make_offloader(self) -> Offloader | None:
        return Offloader(self.rank, self.layers, places=2)


@mutant("M-CG-6", "RACE:BUFFER", twin="cg-offload")
class ReplaysAtOnce(Offloads):
    """A replay does not wait for weights that an eager forward requested: the copy writes them while it reads them."""

    class Unsynced(CUDAGraphWrapper):
        def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
            entry.graph.replay(context.stream, f"{self.name}.replay")

    wrapper = Unsynced


@mutant("M-CG-7", "CRASH:CAPTUREERROR", twin="cg-offload")
class NeverJoins(Offloads):
    """Copies for the next forward are part of a capture, and the captured stream does not join their stream."""

    class Unjoined(CUDAGraphWrapper):
        def join(self, context: ForwardContext) -> None:
            pass

    wrapper = Unjoined


@mutant("offload-unjoined", "CRASH:CAPTUREERROR", twin="cg-offload")
class OffloadUnjoined(NeverJoins):
    """The copy stream, forked from the captured one, is not joined when the capture ends (vllm pull request 51710)."""


@mutant("offload-isolated", "CRASH:CAPTUREERROR", twin="cg-offload")
class OffloadIsolated(Offloads):
    """A captured layer waits for a copy from before the capture (sglang pull request 29166)."""

    class Isolated(Offloader):
        def before_layer(self, layer: int, stream: Stream, capturing: bool) -> None:
            stream.wait(self.copied[layer].event)
            self.unwaited.discard(layer)

    def make_offloader(self) -> Offloader:
        return self.Isolated(self.rank, self.layers, places=2)
