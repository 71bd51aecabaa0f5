"""Small pipelines for sampled tokens: drawn, run on the simulation without files and names, and judged.

Nobody polls here, so a world is a network of data flow, and only a draw makes schedules differ: each send ends before
its receive (eager) or with it (rendezvous). To be eager takes edges away and adds none. So the run in which every send
is eager has the fewest edges and shows every race that any run has; the one in which none is has the most and hangs if
any does; and without a race all compute the same. These two, `EXTREMES`, stand for all 2 to the number of sends.
`test_tokens.py` holds that against DPOR, where a world is so small that DPOR comes to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from dpsim.checks import Finding
from dpsim.config import EngineConfig, Topology
from dpsim.exploration import Subject
from dpsim.explore.walks import Fifo
from dpsim.protocol.pipeline import TRANSFERS, Transfer
from dpsim.protocol.requests import History, PipelineScheduler
from dpsim.protocol.sampled_tokens import SampledTokens
from dpsim.protocol.scheduler import Request
from dpsim.protocol.stage import PipelineTokens, Prepared, Stage
from dpsim.registry import variant
from dpsim.scenario.groups import communicators
from dpsim.world import Run, World

STEP_NS = 20_000_000


class Drawing(Fifo):
    """First in, first out; every send is eager, or none is."""

    def __init__(self, eager: bool) -> None:
        super().__init__()
        self.eager = eager

    def drawn(self, label: str, options: Sequence[str]) -> int:
        return options.index("eager" if self.eager else "rendezvous")


EXTREMES = True, False
"""Whether sends are eager."""


@dataclass(frozen=True)
class Played:
    """A world that was run."""

    world: World
    run: Run
    prepared: Prepared
    findings: list[Finding]

    @property
    def classes(self) -> list[str]:
        return [finding.klass for finding in self.findings]

    def decided(self, label: str, rank: int) -> list[Any]:
        return [record[6] for record in self.run.journals[rank] if record[0] == "decision" and record[2] == label]

    def records(self, rank: int, *kinds: str) -> list[Any]:
        return [record for record in self.run.journals[rank] if record[0] in kinds]


def world(stages: int) -> World:
    return World(stages, communicators(Topology(pipeline_parallel_size=stages)))


class Drawn(NamedTuple):
    """A random world."""

    stages: int
    requests: list[Request]
    config: dict[str, Any]
    kv_tokens: int | None = None
    form: str = "source-002"

    def prepared(self, **pieces: Any) -> Prepared:
        """`pieces`: stage, tokens, transfer, scheduler, each a class."""
        history = History(
            self.requests,
            self.stages,
            EngineConfig.model_validate({"cudagraph_mode": "NONE", **self.config}),
            STEP_NS,
            self.kv_tokens,
            pieces.get("scheduler", PipelineScheduler),
        )
        transfer = pieces.get("transfer", TRANSFERS[self.form])
        return Prepared(history, pieces.get("stage", Stage), pieces.get("tokens", SampledTokens), transfer)

    def play(self, eager: bool = True, **pieces: Any) -> Played:
        prepared = self.prepared(**pieces)
        subject = Subject(world(self.stages), PipelineTokens(), prepared)
        strategy = Drawing(eager)
        strategy.begin()
        run, findings = subject.run(strategy)
        return Played(subject.world, run, prepared, findings)

    def classes(self, **pieces: Any) -> list[str]:
        """Of the findings in both extremes."""
        return [klass for eager in EXTREMES for klass in self.play(eager, **pieces).classes]


BASES = {"stage": Stage, "tokens": SampledTokens, "transfer": Transfer, "scheduler": PipelineScheduler}


def pieces(name: str) -> dict[str, Any]:
    """A registered variant as arguments of `Drawn.play`."""
    made = variant(name).make
    return {piece: made for piece, base in BASES.items() if issubclass(made, base)}


@st.composite
def drawn_worlds(
    draw: st.DrawFn, stages: Sequence[int] = (2, 2, 3, 1, 4), drafts: Sequence[int] = (0, 1, 2, 3), most: int = 8
) -> Drawn:
    """One to four stages, few slots, some requests that come, end and are aborted at any time; chunks; preemptions."""
    speculated = draw(st.sampled_from(drafts))
    q = 1 + speculated
    slots = draw(st.sampled_from([1, 2, 2, 3, 4]))
    config = {
        "max_num_seqs": slots,
        "max_num_batched_tokens": slots * q + draw(st.sampled_from([0, 1, 3, 20])),
        "num_speculative_tokens": speculated,
        "async_scheduling": draw(st.booleans()),
    }
    ticks = st.integers(0, 8)
    request = st.builds(
        lambda arrival, prompt, output, abort: Request(
            arrival * STEP_NS, prompt, output, None if not abort else (arrival + abort) * STEP_NS
        ),
        ticks,
        st.one_of(st.integers(1, 3), st.integers(1, 12)),
        st.integers(1, 7),
        st.one_of(st.just(0), ticks),
    )
    requests = draw(st.lists(request, min_size=1, max_size=most))
    need = max(one.prompt_tokens + one.output_tokens for one in requests) + 2 * q
    kv_tokens = draw(st.sampled_from([None, None, need, need + 4]))
    form = draw(st.sampled_from(sorted(TRANSFERS)))
    return Drawn(draw(st.sampled_from(stages)), requests, config, kv_tokens, form)
