"""Small worlds for tests of the batch agreement, run on the simulator without scenario files.

A world is a program with fixed parameters and faults. `play` runs one, and `Played` reads decisions and findings from
the journals of its ranks. `drawn_worlds` draws random worlds for Hypothesis.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP
from dpsim.contract.registry import variant
from dpsim.contract.world import Delay, Fault, Run, World
from dpsim.diagnose.words.told import Told
from dpsim.scenario import Scenario, scenario_from
from dpsim.sim.backend import SimBackend
from dpsim.vllm.config import CUDAGraphMode, EngineConfig, Topology
from dpsim.vllm.data_parallel.batch import BatchForm, Release014, Source000
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.flow import BatchFlow, Flow014, Flow017, Flow033
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.graphs.dispatcher import Dispatcher, Dispatcher014, Dispatcher017, Dispatcher033
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.programs.dp_batch import DataParallelBatch, DataParallelSetup
from tests.judged import judge
from tests.programs import world_of
from tests.vllm.released import AGREEMENTS, FLOWS, GRAPHS_OF

STEP_NS = 20_000_000
ARRIVAL = 1_000_000
ABSENT = Request(ARRIVAL, 1, 1, abort_ns=2 * ARRIVAL)  # aborted before it runs, so it only shifts the round-robin

SIZES = [1, 2, 4, 8], [2, 8, 24], [6], [1, 64]

T = TypeVar("T")


@dataclass(frozen=True)
class Played:
    """A finished run of a world, with the journals of its ranks and the requests that it served."""

    world: World
    run: Run
    prepared: DataParallelSetup
    requests: Sequence[Request]

    @property
    def findings(self) -> list[Told]:
        return judge(self.world, self.run)

    @property
    def classes(self) -> list[str]:
        return [finding.klass for finding in self.findings]

    @property
    def ranks(self) -> range:
        return range(self.world.size)

    def decided(self, label: str, rank: int) -> list[Any]:
        """Returns the values that a rank recorded with `rank.decide` under a label, in order."""
        return [
            raw[DECISION_VALUE] for raw in self.run.journals[rank] if raw[KIND] == "decision" and raw[SITE] == label
        ]

    def count(self, rank: int, kind: str, site: str, step: int) -> int:
        """Returns how many records of a kind and a site (the name of a call) a rank's journal contains in a step."""
        return sum((raw[KIND], raw[STEP], raw[SITE]) == (kind, step, site) for raw in self.run.journals[rank])


def world(ranks: int, faults: Sequence[Fault] = (), delays: Sequence[Delay] = ()) -> World:
    """Returns a world of data-parallel ranks with the host group `dp_cpu` and the device groups `dp` and `ep`."""
    return world_of(ranks, ["dp_cpu"], ["dp", "ep"], faults=tuple(faults), delays=tuple(delays))


DISPATCHERS: dict[type[Any], type[Dispatcher]] = {
    Flow014: Dispatcher014,
    Flow017: Dispatcher017,
    Flow033: Dispatcher033,
}
"""The dispatcher of each flow. `play` uses it if a test gives no `graphs`."""


def play(
    requests: Sequence[Request],
    *,
    ranks: int = 2,
    form: BatchForm | None = None,
    flow: type[BatchFlow] | None = None,
    graphs: type[Dispatcher] | None = None,
    step: type[DataParallelStep] = DataParallelStep,
    drafter: type[Drafter] = Drafter,
    delays: Sequence[Delay] = (),
    parts: int = 1,
    captured: type[CapturedForward] | None = None,
    **config: Any,
) -> Played:
    """Runs a workload on the simulator, and returns the finished run.

    `parts` is the number of parts into which sequence parallelism cuts a batch. The world does not contain the
    tensor-parallel ranks that would compute them. `config` gives fields of `EngineConfig`.
    """
    engine = EngineConfig.model_validate(config)
    timeline = Timeline(requests, ranks, engine, STEP_NS)
    topology, form = Topology(data_parallel_size=ranks), form or Source000()
    flow = flow or (Flow014 if isinstance(form, Release014) else Flow017)
    graphs = graphs or next(DISPATCHERS[one] for one in flow.__mro__ if one in DISPATCHERS)
    prepared = DataParallelSetup(engine, topology, timeline, flow(engine, form, graphs, parts), step, drafter, captured)
    told = world(ranks, delays=delays)
    return Played(told, SimBackend().run_program(told, DataParallelBatch(), prepared), prepared, requests)


def scenario(
    requests: Sequence[Request], *, ranks: int = 2, variant: str | None = None, form: str | None = None, **config: Any
) -> Scenario:
    """Returns a workload as a scenario of the program `dp_batch`, with an optional variant and form."""
    written = []
    for request in requests:
        fields = request._asdict() | {"arrival": f"{request.arrival_ns}ns"}
        if request.abort_ns is not None:
            fields["abort"] = f"{request.abort_ns}ns"
        written.append({key: value for key, value in fields.items() if not key.endswith("_ns")})
    protocol = {"name": "dp_batch", "form": form, "variant": variant}
    topology, workload = {"data_parallel_size": ranks}, {"requests": written}
    told = {"name": variant or "healthy", "protocol": protocol, "topology": topology, "workload": workload}
    return scenario_from(told | {"config": config})


def pieces(name: str) -> dict[str, Any]:
    """Returns the arguments of `play` that select a registered variant."""
    entry = variant(name)
    kinds = {"form": BatchForm, "flow": BatchFlow, "drafter": Drafter, "step": DataParallelStep}
    kinds |= {"captured": CapturedForward}
    (kind,) = [kind for kind, base in kinds.items() if issubclass(entry.make, base)]
    return released(entry.form) | {kind: entry.make() if kind == "form" else entry.make}


def released(release: str) -> dict[str, Any]:
    """Returns the arguments of `play` that select the agreement, the flow and the graphs of a release."""
    return {"form": AGREEMENTS[release](), "flow": FLOWS[release], "graphs": GRAPHS_OF[release]}


def line_up(*of_ranks: Sequence[Request]) -> list[Request]:
    """Returns requests in an order in which the round-robin gives each rank its own list.

    All arrive at once. A request that is aborted at once (`ABSENT`) fills the turn of a rank with a shorter list.
    """
    longest = max(len(own) for own in of_ranks)
    return [own[place] if place < len(own) else ABSENT for place in range(longest) for own in of_ranks]


def decodes(count: int, output_tokens: int = 1, **fields: Any) -> list[Request]:
    """Returns `count` requests that run as decodes. A runner treats a prompt of one token as a decode (spec 1.6 a)."""
    return [Request(ARRIVAL, 1, output_tokens, **fields)] * count


def prefill(tokens: int, output_tokens: int = 1, **fields: Any) -> list[Request]:
    """Returns one request whose prompt has `tokens` tokens."""
    return [Request(ARRIVAL, tokens, output_tokens, **fields)]


@functools.cache  # each example draws from it, and Hypothesis examines each new strategy
def request_lists(
    largest: int = 70, force_eager: bool = False, loras: bool = False, prefixes: bool = False
) -> st.SearchStrategy[list[Request]]:
    """Draws a few requests: decodes, often several equal ones, and small and large prefills.

    Some arrive late, and some are aborted. With `prefixes`, some requests share a prefix, and some have encoder inputs.
    """
    prompts = st.one_of(st.just(1), st.integers(1, 10), st.integers(11, largest))
    ticks = st.integers(0, 3).map(lambda tick: tick * STEP_NS)
    request = st.builds(
        Request,
        arrival_ns=st.one_of(st.just(0), ticks),
        prompt_tokens=prompts,
        output_tokens=st.integers(1, 3),
        abort_ns=st.one_of(st.none(), st.just(4 * STEP_NS)),
        lora=st.sampled_from([None, None, "french"]) if loras else st.none(),
        force_eager=st.sampled_from([False, False, True]) if force_eager else st.just(False),
        prefix=st.sampled_from([None, "long", "long"]) if prefixes else st.none(),
        encoder_inputs=st.sampled_from([False, False, True]) if prefixes else st.just(False),
        stop_after=st.none(),
        drafts=st.none(),
        structured_output=st.just(False),
        session=st.none(),
    )
    bursts = st.lists(st.tuples(request, st.sampled_from([1, 1, 2, 6])), min_size=1, max_size=4)
    return bursts.map(lambda some: [one for one, times in some for _ in range(times)])


@st.composite
def configs(
    draw: st.DrawFn, modes: Sequence[CUDAGraphMode] = tuple(CUDAGraphMode), q: int | None = None
) -> dict[str, Any]:
    """Draws the configuration fields in which small worlds differ. The graph sizes are multiples of q.

    q is the number of tokens of a decode: one, and one for each speculative token.
    """
    q = q or draw(st.sampled_from([1, 1, 2, 3]))
    return {
        "cudagraph_mode": draw(st.sampled_from(modes)),
        "cudagraph_capture_sizes": [q * size for size in draw(st.sampled_from(SIZES))],
        "num_speculative_tokens": q - 1,
        "max_num_seqs": draw(st.sampled_from([4, 6, 128])),
        "enable_dbo": draw(st.sampled_from([True, True, False])),
        "dbo_decode_token_threshold": draw(st.sampled_from([2, 2, 4, 32])),
        "dbo_prefill_token_threshold": draw(st.sampled_from([2, 2, 8, 512])),
        "async_scheduling": draw(st.booleans()),
    }


class Drawn(NamedTuple):
    """A random world: its ranks, requests and configuration fields. `play` runs it; `wrong` replaces arguments."""

    ranks: int
    requests: list[Request]
    config: dict[str, Any]

    def play(self, **wrong: Any) -> Played:
        return play(self.requests, ranks=self.ranks, **(self.config | wrong))


@st.composite
def drawn_worlds(draw: st.DrawFn, force_eager: bool = False, more: bool = False) -> Drawn:
    """Draws worlds of two or three ranks with a few requests, sometimes with adapters.

    With `more`, the worlds also have drafters, prefixes, encoder inputs and sequence parallelism.
    """
    config = draw(configs())
    loras = draw(st.sampled_from([False, False, True]))
    if loras:
        config |= {"enable_lora": True, "cudagraph_specialize_lora": draw(st.booleans())}
    if more:
        longest = draw(st.sampled_from([None, 8, 40]))
        config |= {"speculative_method": "mtp", "speculative_max_model_len": longest, "block_size": 4}
        config |= draw(st.sampled_from([{}, {"enable_sp": True, "parts": 2}]))
    requests = draw(request_lists(force_eager=force_eager, loras=loras, prefixes=more))
    return Drawn(draw(st.integers(2, 3)), requests, config)
