"""Rows: captured graphs."""

from __future__ import annotations

from dpsim.campaign.assumptions.devices import LAUNCH_QUEUE
from dpsim.campaign.assumptions.facts import OLD_CONTENTS
from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Says, Section

REPLAYED = Says(OTHERWISE, lambda on: on.did("replay"))

CHOSEN = "graphs are chosen, not captured"
"""What a program assumes whose ranks choose graphs, and run the same calls eagerly."""

NEITHER = "graphs are neither chosen nor captured"
"""What a program assumes that runs eagerly where its engine chooses a graph."""

GRAPHS = Section(
    "Captured graphs",
    (
        Assumption(
            "run the nodes of a graph in any order that its edges allow, on whatever streams",
            "always. A stream that joined a capture is a branch. Only the events of the capture and the end of the "
            "replay order it, and the calls of one stream keep their order",
        ),
        Assumption(
            "run replays of one graph one after the other (CUDA: an instantiated graph has at most one launch under "
            "way)",
            "always, on whatever streams they are put",
        ),
        Assumption(
            "pair a captured collective with an eager one, or with one of another capture (NCCL with "
            "`NCCL_GRAPH_MIXING_SUPPORT`, its default)",
            "always: they pair as they come, and the check `graph_lint` tells of it",
        ),
        Assumption(
            "hang or corrupt where eager and captured collectives are mixed (NCCL without it)",
            "no: that they are mixed is the finding",
            nothing="the mixture is a finding",
        ),
        Assumption(
            "give out the memory of a graph's pool again, to this graph or others of the pool. It stays on one stream "
            "of the capture and one kind of blocks",
            "always: no program may count on a certain block, so any block that was given back before may be it",
        ),
        Assumption(
            "let kernels and collectives of a graph take memory of its pool and give it back at once. Each replay then "
            "overwrites there what was taken later or given back before (seen on H200: 41 where 2 was)",
            "always: each call takes some; the numbers of a run do not show it, the finding does",
        ),
        Assumption(
            "allow a second capture on another stream of the thread (CUDA does, torch has one a process)",
            "no: 902",
            nothing="the call is refused",
        ),
        Assumption(
            "let a host collective or a look into a mailbox pass in a capture, since CUDA does not see it; no replay "
            "makes it",
            "no: it is refused with 900 where it is called",
            nothing="the call is refused",
        ),
        Assumption(
            "let a replay read what a host meant to write anew before it, and did not",
            "option: a finding for buffers that say so; else a replay may read old contents, as it may read weights",
            "`Stream.alloc` with `per_replay=True`",
            (Says("replays may read old contents", lambda on: OLD_CONTENTS in on.runs),),
        ),
        Assumption(
            "fuse, leave out or move kernels of a graph",
            "no: a replay is the kept calls, one by one",
            "",
            (REPLAYED,),
        ),
        Assumption(
            "take a replay apart for a fault, a delay or a death of its host",
            "no: a replay is issued as one; its device may stop anywhere in it",
            "",
            (
                Says(
                    "a replay is issued as one",
                    lambda on: on.did("replay") and bool(on.world.kills or on.world.faults or on.world.delays),
                ),
            ),
        ),
        Assumption(
            "hold a host up in a replay, as the launch queue is full",
            "option: a replay takes one place, its branches none; else an unlimited launch queue",
            "`limits.launch_queue`",
            (LAUNCH_QUEUE,),
        ),
        Assumption(
            "instantiate or upload a graph anew at its first launch, and synchronise there", "no", "", (REPLAYED,)
        ),
        Assumption(
            "replay the graph that ranks choose for a step",
            "option: a program may capture the graphs that it chooses; else its ranks make the calls eagerly. "
            "Then no check sees to which graph a call would belong",
            "the keys of the program: `config: {capture_graphs: true}`",
            (
                Says(CHOSEN, lambda on: CHOSEN in on.by_program),
                Says(NEITHER, lambda on: NEITHER in on.by_program),
            ),
        ),
        Assumption(
            "update a graph's nodes (`cudaGraphExecUpdate`), or capture work of the host (`cudaLaunchHostFunc`)",
            "no: the contract has no call for it",
            nothing="no program can do it",
        ),
    ),
)
