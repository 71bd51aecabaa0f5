"""Variants of the protocols: mutants of the specification and historical bugs, each beside its healthy twin.

    batch.py             the batch agreement of data-parallel ranks
    batch_v2.py          the agreement of the V2 runner, and of release 0.33
    flow.py              what a data-parallel rank decides alone, and its drafter
    step_order.py        order and inputs of a data-parallel step
    experts.py           experts that move by their load
    lockstep.py          bugs of engines whose ranks go in lockstep
    graphs.py            which CUDA graph a rank dispatches to
    captures.py          captures of CUDA graphs, and their replays
    offloading.py        weights that a rank copies to the device layer by layer
    graph_bugs.py        bugs that engines had with CUDA graphs
    overlap.py           microbatches in threads, and the baton between them
    overlap_errors.py    microbatches that raise
    overlap_graphs.py    microbatches that are captured
    overlap_slices.py    how batches are cut into microbatches
    tokens.py            sampled tokens of a pipeline
    pipeline.py          hidden states and the queue of batches
    remote_calls.py      remote calls of an engine to its workers, and sampling that it defers
    requests.py          stop tokens, drafts by row, admission, sessions
    steps.py             dummy steps of a pipeline, and a queue that is too deep
    tensor_parallel.py   slices of hidden states
    startup.py           handshake, ports and READY
    startup_groups.py    groups and communicators, warm-up and capture
    startup_bugs.py      bugs that engines had with configuration and ports
    startup_deaths.py    deaths that a start does not notice
    deaths.py            processes that do not learn of a death
    pipeline_bugs.py     bugs of engines with pipelines
    engine.py            the loop of engines in lockstep, and waves
    engine_pauses.py     pause and resume
    engine_bugs.py       bugs that engines had with waves and pauses

One file an area. Only the registry imports them, by the entry points of pyproject.toml. Checks never import them.
"""
