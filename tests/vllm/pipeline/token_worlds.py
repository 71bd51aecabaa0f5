"""Small worlds of pipelines whose last stage broadcasts sampled tokens: drawn, run on the simulator, and checked.

A world is a program with fixed parameters and faults. No rank of these worlds polls, so only sends make schedules
differ. A send is eager if it completes before its receive; otherwise it completes together with it. An eager send
removes edges from the happens-before order and adds none. So two runs (`EXTREMES`) suffice for all 2 to the number of
sends. The run with only eager sends has the fewest edges, so it shows every race that any run shows. The run without
eager sends has the most edges, so it hangs if any run does. Without a race, all runs compute the same.

In worlds that are small enough for DPOR to finish, `test_tokens.py` compares this argument with DPOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from dpsim.campaign.subject import Subject
from dpsim.checks import Finding
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.contract.registry import variant
from dpsim.contract.world import Run, World
from dpsim.explore.strategies.walks import Fifo
from dpsim.scenario import Scenario, scenario_from
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.communicators import communicators
from dpsim.vllm.pipeline.history import STEP_NS, histories
from dpsim.vllm.pipeline.layers import EagerLayers, Layers
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.programs.pp_tokens import PipelineSetup, PipelineTokens
from dpsim.vllm.releases import REPAIRED, V0_33
from tests.vllm.released import TRANSFERS

VARIED = "stop_after", "drafts", "structured_output", "session"
"""The fields that requests may have in addition to lengths and times."""


class Drawing(Fifo):
    """A strategy that takes events in the order in which they became ready. Either every send is eager, or none is."""

    def __init__(self, eager: bool) -> None:
        super().__init__()
        self.eager = eager

    def drawn(self, label: str, options: Sequence[str]) -> int:
        return options.index("eager" if self.eager else "rendezvous")


EXTREMES = True, False
"""The two extreme runs of a world: with only eager sends, and without eager sends."""


@dataclass(frozen=True)
class Played:
    """A finished run of a world, with its findings."""

    world: World
    run: Run
    prepared: PipelineSetup
    findings: list[Finding]

    @property
    def classes(self) -> list[str]:
        return [finding.klass for finding in self.findings]

    def decided(self, label: str, rank: int) -> list[Any]:
        return [
            raw[DECISION_VALUE] for raw in self.run.journals[rank] if raw[KIND] == "decision" and raw[SITE] == label
        ]

    def records(self, rank: int, *kinds: str) -> list[Any]:
        return [raw for raw in self.run.journals[rank] if raw[KIND] in kinds]


def world(stages: int, replicas: int = 1) -> World:
    return world_of(Topology(data_parallel_size=replicas, pipeline_parallel_size=stages))


def world_of(topology: Topology) -> World:
    return World(topology.world_size, communicators(topology))


class Drawn(NamedTuple):
    """A random world of a pipeline. `play` runs it on the simulator."""

    stages: int
    requests: list[Request]
    config: dict[str, Any]
    form: str = "source-002"
    replicas: int = 1
    tensor_parallel_size: int = 1
    residency: int | None = None

    @property
    def topology(self) -> Topology:
        return Topology(
            data_parallel_size=self.replicas,
            pipeline_parallel_size=self.stages,
            tensor_parallel_size=self.tensor_parallel_size,
        )

    def prepared(self, **pieces: Any) -> PipelineSetup:
        """Returns the setup of the program. `pieces` may replace stage, tokens, transfer, scheduler and layers."""
        engines = histories(
            self.requests,
            self.replicas,
            self.stages,
            EngineConfig.model_validate({"cudagraph_mode": "NONE", **self.config}),
            scheduler=pieces.get("scheduler", PipelineScheduler),
        )
        transfer = pieces.get("transfer", TRANSFERS[self.form])
        stage, tokens = pieces.get("stage", Stage), pieces.get("tokens", SampledTokens)
        return PipelineSetup(self.topology, engines, stage, tokens, transfer, pieces.get("layers", EagerLayers))

    def play(self, eager: bool = True, **pieces: Any) -> Played:
        prepared = self.prepared(**pieces)
        world = replace(world_of(self.topology), residency=self.residency)
        subject = Subject(world, PipelineTokens(), prepared)
        strategy = Drawing(eager)
        strategy.begin()
        run, findings = subject.run(strategy)
        return Played(subject.world, run, prepared, findings)

    @property
    def paced(self) -> str:
        """The form. For 0.33 it is the repaired one, because 0.33 paces drafts only with async scheduling (spec
        6.10).
        """
        return REPAIRED.name if self.form == V0_33.name else self.form

    def scenario(self, variant: str | None = None) -> Scenario:
        """Returns the same world as a scenario, for other backends."""
        requests = [
            {
                "arrival": f"{one.arrival_ns}ns",
                "prompt_tokens": one.prompt_tokens,
                "output_tokens": one.output_tokens,
                **({} if one.abort_ns is None else {"abort": f"{one.abort_ns}ns"}),
                **{key: value for key in VARIED if (value := getattr(one, key)) not in (None, False)},
            }
            for one in self.requests
        ]
        return scenario_from(
            {
                "name": f"pp{self.stages}-drawn",
                "protocol": {
                    "name": "pp_tokens",
                    "form": self.paced if variant is None else self.form,
                    "variant": variant,
                },
                "topology": self.topology.model_dump(mode="json"),
                "config": {"cudagraph_mode": "NONE", **self.config},
                "workload": {"step_duration": f"{STEP_NS}ns", "requests": requests},
                "limits": {"stall": "60s", "residency": self.residency},
            }
        )

    def classes(self, **pieces: Any) -> list[str]:
        """Returns the classes of the findings of both extreme runs."""
        return [klass for eager in EXTREMES for klass in self.play(eager, **pieces).classes]


BASES = {
    "stage": Stage,
    "tokens": SampledTokens,
    "transfer": Transfer,
    "scheduler": PipelineScheduler,
    "layers": Layers,
}


def pieces(name: str) -> dict[str, Any]:
    """Returns the arguments of `Drawn.play` that select a registered variant."""
    made = variant(name).make
    return {piece: made for piece, base in BASES.items() if issubclass(made, base)}


Pick = Callable[[Sequence[Any]], Any]
"""A function that picks one of several values: by Hypothesis, or by a seeded random generator."""


def a_world(pick: Pick, stages: Sequence[int], drafts: Sequence[int], most: int) -> Drawn:
    """Picks a world with few slots and blocks, in which prompts are cut into chunks, and requests are preempted.

    Requests arrive, end and are aborted at any time.
    """
    speculated = pick(drafts)
    q = 1 + speculated
    slots = pick([1, 2, 2, 3, 4])
    config = {
        "max_num_seqs": slots,
        "max_num_batched_tokens": slots * q + pick([0, 1, 3, 20]),
        "num_speculative_tokens": speculated,
        "async_scheduling": pick([False, True]),
    }
    requests = [a_request(pick) for _ in range(pick(range(1, most + 1)))]
    longest = max(one.prompt_tokens + one.output_tokens for one in requests) + 2 * q
    config["block_size"] = block = pick([1, 2, 5])
    spare = pick([None, None, 0, 4])
    config["num_gpu_blocks_override"] = None if spare is None else -(-longest // block) + spare
    form = pick(sorted(TRANSFERS))
    return Drawn(pick(stages), requests, config, form)


def a_request(pick: Pick) -> Request:
    """Picks a request. Half of the prompts are short, and half of the requests are not aborted."""
    arrival, prompt, output = pick(range(9)), pick(pick([range(1, 4), range(1, 13)])), pick(range(1, 8))
    abort = pick(pick([[0], range(9)]))
    return Request(arrival * STEP_NS, prompt, output, (arrival + abort) * STEP_NS if abort else None)


def varied(pick: Pick, drawn: Drawn) -> Drawn:
    """Returns the same world with requests of all kinds.

    Some stop early, some have fewer drafts in some steps, some follow a grammar, and some belong to a session. The
    budget may be so small that the scheduler cuts drafts off.
    """
    q, slots = 1 + drawn.config["num_speculative_tokens"], drawn.config["max_num_seqs"]
    budget = pick([drawn.config["max_num_batched_tokens"], max(q, slots), slots + q])
    requests = []
    for one in drawn.requests:
        stop = pick([None, *range(1, one.output_tokens + 1)])
        drafts = pick([None, (0, q), (1,), (0, 1, 2, 0), (2, 0)])
        structured = pick([False, False, True])
        session = pick([None, None, "one", "two"])
        requests.append(one._replace(stop_after=stop, drafts=drafts, structured_output=structured, session=session))
    blocks, block = drawn.config["num_gpu_blocks_override"], drawn.config["block_size"]
    if blocks is not None and any(one.session for one in requests):
        tokens = sum(one.prompt_tokens + one.output_tokens for one in requests if one.session)
        blocks = max(blocks, -(-(tokens + 2 * q) // block))
    config = {**drawn.config, "max_num_batched_tokens": budget, "num_gpu_blocks_override": blocks}
    return drawn._replace(requests=requests, config=config)


STAGES, DRAFTS, MOST = (2, 2, 3, 1, 4), (0, 1, 2, 3), 8


@st.composite
def drawn_worlds(
    draw: st.DrawFn,
    stages: Sequence[int] = STAGES,
    drafts: Sequence[int] = DRAFTS,
    most: int = MOST,
    replicas: int = 1,
    tensor_parallel_size: int = 1,
) -> Drawn:
    """Draws worlds for properties."""
    drawn = a_world(lambda options: draw(st.sampled_from(options)), stages, drafts, most)
    return drawn._replace(replicas=replicas, tensor_parallel_size=tensor_parallel_size)


@st.composite
def varied_worlds(
    draw: st.DrawFn,
    stages: Sequence[int] = STAGES,
    drafts: Sequence[int] = DRAFTS,
    most: int = MOST,
    replicas: int = 1,
) -> Drawn:
    """Draws worlds with requests of all kinds."""
    drawn = draw(drawn_worlds(stages=stages, drafts=drafts, most=most, replicas=replicas))
    return varied(lambda options: draw(st.sampled_from(options)), drawn)


def fixed_worlds(count: int) -> list[Drawn]:
    """Returns the same worlds in every run, with every Python, and whichever modules are loaded.

    Hypothesis does not guarantee this, even derandomized, because it also draws constants from the loaded modules.
    Python guarantees the sequence of `Random.random` only.
    """
    return [a_world(die, STAGES, DRAFTS, MOST) for die in [_die(5)] for _ in range(count)]


def fixed_varied_worlds(count: int) -> list[Drawn]:
    """Returns the same worlds in every run, with requests of all kinds."""
    return [varied(die, a_world(die, STAGES, DRAFTS, MOST)) for die in [_die(6)] for _ in range(count)]


def _die(seed: int) -> Pick:
    random = Random(seed)
    return lambda options: options[int(random.random() * len(options))]


def small_worlds(form: str = "source-002", scheduler: type[PipelineScheduler] = PipelineScheduler) -> Iterator[Drawn]:
    """Yields all worlds of two or three stages, one or two slots, none or one draft, and one to three requests.

    They have asynchronous scheduling or not. Each request arrives in the first or the second step. It has a prompt of
    one or two tokens and an output of one or two. It is never aborted, or one step after its arrival. If several worlds
    have one history, only the first of them is yielded.
    """
    sizes = product(range(2), (1, 2), (1, 2), (False, True))
    one = [Request(t * STEP_NS, p, o, (t + 1) * STEP_NS if gone else None) for t, p, o, gone in sizes]
    yield from _small(
        form, scheduler, [chosen for most in (1, 2, 3) for chosen in combinations_with_replacement(one, most)]
    )


def small_varied_worlds(form: str = "source-002") -> Iterator[Drawn]:
    """Yields worlds as `small_worlds` does, with one or two requests of one prompt token and of more kinds.

    Each request wants two or three tokens, may stop after the first, and may follow a grammar. All its decodes have
    drafts, or all but the first.
    """
    kinds = product(range(2), (2, 3), (None, 1), (False, True), (None, (0, 1)))
    one = [Request(t * STEP_NS, 1, o, stop_after=s, structured_output=g, drafts=d) for t, o, s, g, d in kinds]
    lists = [chosen for most in (1, 2) for chosen in combinations_with_replacement(one, most)]
    yield from _small(form, PipelineScheduler, lists)


def _small(form: str, scheduler: type[PipelineScheduler], lists: Sequence[tuple[Request, ...]]) -> Iterator[Drawn]:
    """Yields the worlds of these lists of requests; of worlds with one history, only the first."""
    seen = set()
    for stages, slots, drafts, at_once in product((2, 3), (1, 2), (0, 1), (False, True)):
        config = {
            "max_num_seqs": slots,
            "max_num_batched_tokens": slots * (1 + drafts),
            "num_speculative_tokens": drafts,
            "async_scheduling": at_once,
        }
        for requests in lists:
            drawn = Drawn(stages, list(requests), config, form=form)
            history = stages, slots, drafts, str(drawn.prepared(scheduler=scheduler).histories[0].calls)
            if history not in seen:
                seen.add(history)
                yield drawn
