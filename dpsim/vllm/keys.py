"""The keys of the specification that the model of vLLM follows, with their meanings, for docs/keys.md.

    >>> INVARIANTS["I-EL-7"]
    'If an engine that is not paused accepts a request, all engines run in the end.'

The authors of dpsim wrote this specification while they read vLLM's source; it is not part of this repository.
Docstrings, messages and pages name its invariants (I-EL-7), its examples (A-15) and its sections (2.12). A mutant
(M-EL-7) is a planted mistake in the museum; the registry describes mutants, not this file.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.contract.keys import register_keys

AREAS = {
    "DP": (1, "the batch agreement"),
    "EL": (2, "the engine loop"),
    "UB": (3, "microbatches"),
    "BT": (4, "dual-batch overlap"),
    "CG": (5, "CUDA graphs"),
    "PP": (6, "sampled tokens in a pipeline"),
    "PS": (7, "hidden states and the batch queue"),
    "CF": (8, "the configuration"),
    "ST": (9, "start-up"),
    "ES": (10, "one whole engine step"),
}
"""By the letters of a key, the chapter of the specification and the subject of the chapter."""

SECTIONS = {
    1: (
        "purpose; state; inputs; collective; decision (V1); caller; decision (V2); edge cases; order; "
        "invariants; versions; mutants"
    ),
    2: (
        "actors; state; iteration; finish sync; messages; pause; dummy batch; offline; chart; invariants; "
        "versions; mutants"
    ),
    3: ("inputs; threshold; agreement (V1); agreement (V2); slices; lists; collectives; invariants; versions; mutants"),
    4: (
        "state; baton; hooks; use; order; trace; yields; capture; decision; multiprocessors; invariants; "
        "versions; mutants"
    ),
    5: (
        "modes; sizes; choice; dispatcher (V1); manager (V2); capture order; wrapper; replay; offloader; "
        "invariants; versions; mutants"
    ),
    6: (
        "purpose; request index; state; need mask; operations; broadcasts; timeline; order; invariants; "
        "versions; mutants"
    ),
    7: ("state; transfer; answers; queue size; queued step; invariants; versions; mutants"),
    8: ("derived values; validation; ports; hash; cache memory; invariants; mutants"),
    9: ("actors; order; invariants; versions; mutants"),
    10: ("iteration (V2); runner (V1); further agreements; no deadlock; streams; record; invariants; mutants"),
}
"""By chapter, the subjects of its sections, from section 1 on: section 2.12 lists the mutants of chapter 2."""

FIRST_SECTIONS = {8: "fields", 10: "named combinations of releases (stacks)"}
"""The subjects of sections 8.0 and 10.0. The other chapters begin with section 1."""

INVARIANTS = {
    "I-BT-1": "At most one microbatch thread of a rank has the baton (the right to run).",
    "I-BT-2": "The forward context of a rank is that of its running microbatch.",
    "I-BT-5": "All ranks issue dispatch and combine kernels in one order of layer, phase and microbatch.",
    "I-BT-6": "All microbatches of a step yield equally often.",
    "I-BT-7": "Each registered receive hook runs once, before an op reads the received data.",
    "I-BT-8": "No microbatch uses a dispatch handle of another microbatch.",
    "I-BT-9": "After the threads end, no microbatch is registered; the main thread has its former context and streams.",
    "I-BT-10": "The ready barrier has one party for each microbatch and one for the main thread, and is reusable.",
    "I-BT-11": "A replay reads only buffers that the caller's compute stream wrote before it.",
    "I-BT-12": "Each stream of a capture joins the capture stream before the capture ends.",
    "I-CF-1": "Ranks with equal hashes have equal collectives, as far as the parallel configuration decides them.",
    "I-CF-2": "Fields that ranks may set differently do not change the hash.",
    "I-CF-3": "Each group has one port, which all members know, and no two live groups share one.",
    "I-CF-4": "A worker's rank is its replica times the world size of a replica, plus its local rank.",
    "I-CF-5": "The agreed cache size is at most that of each rank that has one, and equal on all ranks.",
    "I-CF-6": "A step that splits has at least two microbatches, and thresholds are not below their number.",
    "I-CF-8": "The workers of a node times the nodes of a replica are the world size.",
    "I-CF-9": "An engine may complete its configuration twice, but the parallel part takes another port each time.",
    "I-CF-10": "The hash is equal across processes, machines and orders of a mapping.",
    "I-CG-1": "The chosen size is the smallest captured one of its kind that holds the tokens.",
    "I-CG-2": "Sizes for decodes lie between one request and the largest number of requests.",
    "I-CG-3": "The dispatcher returns FULL only for a captured or registered key.",
    "I-CG-4": "In mode NONE the dispatch pads no batch.",
    "I-CG-5": "A second dispatch of the padded count returns the same descriptor.",
    "I-CG-6": "All ranks of a group capture the same sequence of modes, sizes, microbatches and adapters.",
    "I-CG-7": "No other replay from the same memory pool overwrites an output between its replay and its use.",
    "I-CG-8": "A replay uses the addresses of its capture.",
    "I-CG-9": "No rank captures after serving began.",
    "I-CG-10": "A batch has at most as many requests as the descriptor of its FULL graph.",
    "I-CG-11": "Padded rows have no effect: slot -1, a flat query start, sequence length 0.",
    "I-CG-12": "All streams that a capture forks have joined before the capture ends.",
    "I-CG-13": "The persistent output buffer holds each captured size.",
    "I-CG-14": "No captured region contains a collective that needs the host.",
    "I-DP-1": "Microbatches, token counts and mode are equal on all ranks of the group.",
    "I-DP-2": "In each iteration of the engine loop, all ranks make equally many agreements.",
    "I-DP-3": "The agreed mode is the smallest one that a rank sent.",
    "I-DP-4": "With a graph or with microbatches, all counts are equal, and none is below a rank's padded count.",
    "I-DP-5": "In mode NONE without microbatches, each rank keeps its count.",
    "I-DP-6": "A rank's agreed count is the size of its forward, and is not below its scheduled tokens.",
    "I-DP-7": "If ranks split, each rank has a real token in its last microbatch.",
    "I-DP-8": "A rank without data-parallel peers runs no agreement, and keeps its mode.",
    "I-DP-9": "The second dispatch changes neither the agreed count nor the agreed mode.",
    "I-DP-10": "Another order of the ranks changes only the order of the result.",
    "I-DP-11": "If one rank lowers its mode, the agreed mode does not rise.",
    "I-DP-12": "A dummy batch does not lower the mode of other ranks only because it is a dummy.",
    "I-DP-13": "If every rank is running, every agreement returns.",
    "I-DP-14": "Ranks that reuse an agreement record run no collective, and all get the same descriptor.",
    "I-EL-1": "Between two collectives of engines, all ranks launch equally many forwards.",
    "I-EL-2": "In each iteration, each running rank launches one forward, and a sleeping group none.",
    "I-EL-3": "After a sync, all ranks agree on whether engines run, and waves end in one iteration.",
    "I-EL-4": "An idle rank performs no collective.",
    "I-EL-5": "A rank's wave number never decreases, and is equal on all ranks when a wave ends.",
    "I-EL-6": "No request is unfinished when a wave ends.",
    "I-EL-7": "If an engine that is not paused accepts a request, all engines run in the end.",
    "I-EL-8": "After all ranks agreed on a pause, no START message makes a rank run before it resumes.",
    "I-EL-9": "A pause of some ranks does not stop the group.",
    "I-EL-10": "After the last request, a wave ends within the interval of the finish sync.",
    "I-EL-11": "At the end the coordinator records running engines only if an engine observed or reported it.",
    "I-EL-12": "A rank applies aborts before the scheduler gets the result of the step. A second abort does no harm.",
    "I-EL-13": "Only state that is equal on all ranks decides which iteration syncs, and which admits prefills.",
    "I-EL-14": "A resume returns on a rank only after every rank has called it.",
    "I-ES-1": "All members of a group run the same sequence of collectives.",
    "I-ES-2": "Each stage agrees once for the target in an iteration, and a fixed number of times for drafters.",
    "I-ES-3": "A rank updates its requests, then agrees, and then prepares what depends on sizes.",
    "I-ES-4": "Expert collectives have the agreed token counts as sizes, and these equal the rows of each rank.",
    "I-ES-5": "A call that samples refers to the last call that executed a batch.",
    "I-ES-7": "A dummy step changes neither requests, caches, the ring nor the numbers of steps.",
    "I-ES-9": "A running rank makes as many forwards as its engine makes iterations.",
    "I-ES-10": "All ranks of a tensor-parallel group get the same schedule.",
    "I-PP-1": "The token queue of each rank before the last stage has one entry for each stage.",
    "I-PP-2": "Before a decode, the first stage has the token that the last stage sampled for its request.",
    "I-PP-3": "All stages run the same broadcasts, and each broadcast has all its receivers.",
    "I-PP-4": "All stages compute the same mask for a step.",
    "I-PP-5": "A row that a stage frees after its receive does not change the next owner of the row.",
    "I-PP-6": "A broadcast does not update rows that need no token.",
    "I-PP-7": "A stage applies all tokens that the last stage sampled for a request, except the final ones.",
    "I-PP-8": "After the first stage applies tokens, it has the last stage's count of computed tokens.",
    "I-PP-9": "The main stream waits for a token broadcast at the earliest as many steps later as there are stages.",
    "I-PP-10": "A dummy step neither takes an entry from the token queue nor appends one.",
    "I-PP-11": "An entry of the token queue without a needed row has no effect, and no stage waits for it.",
    "I-PP-12": "No stage reuses memory of a queue entry before both streams have passed its last use.",
    "I-PP-13": "Each row of the mapping is -1, or the row of its owner at that time.",
    "I-PS-1": "Neighbouring stages make one transfer a step, with the same keys, shapes and types on both sides.",
    "I-PS-2": "All stages process steps in the same order, and a bounded number of steps is in flight.",
    "I-PS-3": "No stage writes a send buffer before its send is complete.",
    "I-PS-4": "A stage reads received data after it waited for the receives and gathers.",
    "I-PS-5": "Each rank of a stage performs the same gathers in the same order.",
    "I-PS-6": "The scheduler gets results in the order in which it scheduled them.",
    "I-PS-7": "Each worker gets one execute and then one sample call for each batch with tokens.",
    "I-PS-8": "No stage runs a request's next decode before it knows the token that the decode needs.",
    "I-PS-9": "A step without tokens makes no transfer, but advances the token queue.",
    "I-PS-10": "Either both stages of a transfer slice a tensor over tensor-parallel ranks, or neither does.",
    "I-PS-11": "The batch queue never exceeds its size, and the core waits for a result only if it has to.",
    "I-PS-12": "The scheduler ignores late results of aborted requests.",
    "I-PS-13": "There are at least as many staging buffers as steps in flight.",
    "I-ST-1": "All ranks create the same sequence of groups with the same members.",
    "I-ST-2": "The groups of one kind together contain each rank once.",
    "I-ST-3": "The root of a device communicator is the first global rank of its group.",
    "I-ST-4": "A worker's rank in a group is its index in the list of members.",
    "I-ST-5": "The group of the engines exists before the workers, and only engines use it.",
    "I-ST-6": "A worker measures free memory after it has created its communicators.",
    "I-ST-7": "All members use a communicator first in the warm-up, and outside of a capture.",
    "I-ST-8": "Each replica runs the same forwards for profile, warm-up and capture.",
    "I-ST-9": "No engine serves before every engine has subscribed and every hash is equal.",
    "I-ST-10": "A front end notices a process that fails, even if the other processes only wait.",
    "I-ST-11": "No rank creates a group after the start.",
    "I-ST-12": "Ranks destroy device communicators before their groups, and the group of the engines last.",
    "I-UB-1": "Padded slices cover all rows once, in order.",
    "I-UB-2": "Sizes of slices depend on the agreed count and the number of microbatches alone.",
    "I-UB-3": "Each real token lies in one slice.",
    "I-UB-4": "A request lies in neighbouring microbatches, and its parts add up to its scheduled tokens.",
    "I-UB-5": "If ranks split, each microbatch of each rank has a token and a request.",
    "I-UB-6": "A rank that does not wish to split gets no slices.",
    "I-UB-7": "A rank with more tokens does not wish less to split.",
    "I-UB-8": "If the cut of a batch lies within a request, both slices contain the request.",
    "I-UB-9": "Query starts of a microbatch begin at 0, never decrease, and end at its real tokens.",
    "I-UB-10": "The outputs of all microbatches in order are the rows of the batch.",
    "I-UB-11": "In mode FULL, requests and tokens are those of the captured shape.",
}
"""The invariants by key, each in one or two sentences."""

EXAMPLES = {
    "A-2": "two ranks with FULL graphs pad to 8 tokens",
    "A-4": "ranks of 4 and 900 tokens agree on NONE and keep their counts; 0.14 pads both to 900",
    "A-14": "a decode of 5 requests in the V1 dispatcher of 0.33",
    "A-15": "padding in the V2 runner of 0.17",
    "A-16": "three decodes and a dummy agree on FULL in the V2 runner",
    "A-19": "a FULL graph over an empty last microbatch in the V2 runner of 0.33",
    "A-21": "a need mask that 0.24 leaves out and 0.33 sends",
    "A-26": "dummies of an idle group that pauses: 32 for each rank in 0.24, one in 0.33",
    "A-28": "34 layers on four stages: 8, 9, 9 and 8",
    "A-31": "adapters without specialised graphs: a dummy lowers every rank to NONE",
}
"""The worked examples that pages and docstrings name, each with its subject."""

SOURCES = {
    "source-000": ("v1/worker/dp_utils.py", "data-parallel ranks agree on a batch"),
    "source-001": ("v1/worker/gpu_ubatch_wrapper.py", "microbatches in threads"),
    "source-002": ("v1/worker/gpu/pp_utils.py", "sampled tokens in a pipeline"),
    "source-003": ("config/parallel.py", "the parallel configuration"),
    "source-004": ("v1/worker/gpu/cudagraph_utils.py", "sizes, choices and captures of graphs"),
}
"""The published files of vLLM that forms follow, each with its subject."""


def section_keys() -> Mapping[str, str]:
    """Returns the meaning of each section, such as 2.12, and of each "chapter 2"."""
    found = {}
    for number, area in AREAS.values():
        subjects = dict(enumerate(SECTIONS[number].split("; "), 1))
        subjects |= {0: FIRST_SECTIONS[number]} if number in FIRST_SECTIONS else {}
        found[f"chapter {number}"] = f"Chapter {number} of the specification of vLLM's behaviour: {area}. {LISTED}"
        for at, subject in subjects.items():
            key = f"{number}.{at}"
            found[key] = f"Section {key} of the specification of vLLM's behaviour, on {area}: {subject}. {LISTED}"
    return found


LISTED = "docs/keys.md lists all chapters."

register_keys(
    {
        **INVARIANTS,
        **{key: f"An example of the specification: {subject}." for key, subject in EXAMPLES.items()},
        **{key: f"The published file {file} of vLLM: {subject}." for key, (file, subject) in SOURCES.items()},
        **section_keys(),
        "M-UB-2": "Another name of M-DP-5.",
    }
)
