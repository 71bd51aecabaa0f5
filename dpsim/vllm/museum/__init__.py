"""Variants: programs of the model of vLLM with one planted mistake each, which the checks of dpsim have to catch.

A variant is a mutant of the engine's specification (keys such as M-DP-1; see docs/keys.md), or a bug that an engine
had. Where its docstring names "one" rank, engine or worker, the last one has the mistake. Its healthy twin is the same
program without the mistake. No check imports a variant, so no check has an exception for one. Entry points in
pyproject.toml name the files, and only the registry imports them:

    batch.py             the batch agreement of data-parallel ranks
    batch_v2.py          the agreement of the V2 runner, and of release 0.33
    flow.py              decisions that a data-parallel rank makes alone, and its drafter
    step_order.py        the order of the phases in a data-parallel step, and their inputs
    experts.py           expert load balancing: ranks move experts according to their load
    lockstep.py          bugs of engines whose data-parallel ranks run every step together
    graphs.py            dispatch: the CUDA graph that a rank selects for a batch
    captures.py          captures of CUDA graphs, and their replays
    offloading.py        weights in host memory, which a rank copies to the device layer by layer
    graph_bugs.py        bugs that engines had with CUDA graphs
    overlap.py           microbatches in threads that take turns (dual-batch overlap)
    overlap_errors.py    microbatches that raise
    overlap_graphs.py    microbatches that are captured
    overlap_slices.py    the cut of a batch into microbatches
    tokens.py            pipelines: the broadcast of sampled tokens
    pipeline.py          pipelines: the transfer of hidden states, and the queue of batches
    remote_calls.py      pipelines: remote calls of the engine to its workers, and deferred sampling
    requests.py          pipelines: stop tokens, drafts by row, admission, sessions
    steps.py             pipelines: dummy steps, a queue that is too deep, and the order after sampling
    tensor_parallel.py   pipelines: slices of hidden states
    startup.py           start-up: the handshake, ports and READY
    startup_groups.py    start-up: groups and communicators, warm-up and capture
    startup_bugs.py      start-up: bugs that engines had with configuration and ports
    startup_deaths.py    start-up: a process dies, and another one does not notice
    deaths.py            serving: a process dies, and another one does not notice
    pipeline_bugs.py     bugs of engines with pipelines
    engine.py            the loop of data-parallel engines, and waves
    engine_pauses.py     pause and resume
    engine_bugs.py       bugs that engines had with waves and pauses
"""
