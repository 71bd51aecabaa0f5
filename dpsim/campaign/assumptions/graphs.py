"""Graphs: rows of the table of assumptions about captured CUDA graphs."""

from __future__ import annotations

from dpsim.campaign.assumptions.devices import LAUNCH_QUEUE
from dpsim.campaign.assumptions.facts import OLD_CONTENTS, Facts
from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Section, Statement
from dpsim.contract.words import counted

REPLAYED = Statement(OTHERWISE, lambda on: on.did("replay"))

CHOSEN = "ranks capture no graphs"
"""The assumption of a program whose ranks choose graphs without capturing them, and run the same calls eagerly."""

NEITHER = "ranks neither choose nor capture graphs"
"""What a program assumes that runs eagerly where its engine chooses a graph."""


def _at_once(on: Facts) -> str:
    first, *others = on.replays_at_once
    more = f" and {counted(len(others), 'more pair')}" if others else ""
    return f"replays of two graphs keep the order of their communicator ({first}{more})"


GRAPHS = Section(
    "Captured graphs",
    (
        Assumption(
            "run the nodes of a graph in any order that its edges allow, on whatever streams",
            "always. A stream that joined a capture becomes a branch of the graph. Only events of the capture and the "
            "end of the replay order branches. The calls of one stream keep their order",
        ),
        Assumption(
            "run replays of one graph one after the other (CUDA executes an instantiated graph at most once at a time)",
            "always, on whatever streams the replays are",
        ),
        Assumption(
            "pair a captured collective with an eager one, or with one of another capture (NCCL with "
            "`NCCL_GRAPH_MIXING_SUPPORT`, its default)",
            "always: they pair up in order, and the check `graph_lint` reports it",
        ),
        Assumption(
            "hang or corrupt data if eager and captured collectives are mixed (NCCL without that setting)",
            "no: the mixture itself is a finding",
            nothing="the mixture is a finding",
        ),
        Assumption(
            "run calls of one communicator out of order, or without an end, if two graphs with such calls replay on "
            "two streams at once. (RCCL hangs: ROCm/rccl issue 2179. NCCL supports it)",
            "no: the calls of a communicator run in the order of issue, in whatever graphs. If neither an event nor "
            "the host orders the two replays, a proof names them",
            "order the replays: let one stream wait for the other (`Stream.wait_stream`)",
            (
                Statement(
                    "replays of two graphs keep the order of their communicator",
                    lambda on: bool(on.replays_at_once),
                    _at_once,
                ),
            ),
        ),
        Assumption(
            "reuse the memory of a graph's pool, for this graph or others of the pool. A block stays with one stream "
            "of the capture, and is small or large",
            "always: the checks of reused memory cover every block that was freed before",
        ),
        Assumption(
            "let kernels and collectives of a graph allocate memory of its pool and free it at once. Each replay then "
            "overwrites later or freed buffers there (on an H200, a buffer with 2 then had 41)",
            "always: each call counts as if it did so. The values of a simulated run do not change, but a finding "
            "reports it",
        ),
        Assumption(
            "allow a second capture on another stream of the thread (CUDA does, torch has one a process)",
            "no: the call raises CUDA error 902",
            nothing="the call is refused",
        ),
        Assumption(
            "accept a host collective or a get from a mailbox in a capture, because CUDA does not see it. No replay "
            "repeats it",
            "no: the call raises CUDA error 900",
            nothing="the call is refused",
        ),
        Assumption(
            "let a replay read input that the program should have written again before it, and did not",
            "option: a finding for buffers that the program marks. Any other buffer may keep its contents over several "
            "replays, as weights do",
            "`Stream.alloc` with `per_replay=True`",
            (Statement("replays may read old contents", lambda on: OLD_CONTENTS in on.runs),),
        ),
        Assumption(
            "fuse, leave out or move kernels of a graph",
            "no: a replay executes the captured calls one by one",
            "",
            (REPLAYED,),
        ),
        Assumption(
            "take a replay apart for a fault, a delay or a death of its host",
            "no: a host issues a replay as one op; its device may stop anywhere in it",
            "",
            (
                Statement(
                    "a host issues a replay as one op",
                    lambda on: on.did("replay") and bool(on.world.kills or on.world.faults or on.world.delays),
                ),
            ),
        ),
        Assumption(
            "hold a host up in a replay, because the launch queue is full",
            "option: a replay takes one place in the queue, and its branches none. Without it, an unlimited launch "
            "queue",
            "`limits.launch_queue`",
            (LAUNCH_QUEUE,),
        ),
        Assumption(
            "instantiate or upload a graph anew at its first launch, and synchronise there", "no", "", (REPLAYED,)
        ),
        Assumption(
            "replay the graph that ranks choose for a step",
            "option: a program may capture the graphs that it chooses. Without it, its ranks make the calls eagerly, "
            "and no check knows to which graph a call would belong",
            "the keys of the program: `config: {capture_graphs: true}`",
            (
                Statement(CHOSEN, lambda on: CHOSEN in on.by_program),
                Statement(NEITHER, lambda on: NEITHER in on.by_program),
            ),
        ),
        Assumption(
            "update a graph's nodes (`cudaGraphExecUpdate`), or capture work of the host (`cudaLaunchHostFunc`)",
            "no: the contract has no call for it",
            nothing="no program can do it",
        ),
    ),
)
