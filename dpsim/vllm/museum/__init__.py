"""Variants of the protocols: mutants of the specification and historical bugs, each beside its healthy twin.

    batch.py             the batch agreement of data-parallel ranks
    batch_v2.py          the same of the V2 runner, and what release 0.33 does
    flow.py              what a data-parallel rank decides alone, and its drafter
    step_order.py        order and inputs of a data-parallel step
    experts.py           experts that move by their load
    lockstep.py          bugs that engines had where ranks go in lockstep
    graphs.py            which CUDA graph a rank looks for
    captures.py          what is captured, and how it is replayed
    offloading.py        weights that come to the device layer by layer
    graph_bugs.py        bugs that engines had with CUDA graphs
    overlap.py           microbatches in threads, and the baton between them
    overlap_errors.py    microbatches that raise
    overlap_graphs.py    microbatches that are captured
    overlap_slices.py    how batches are cut into microbatches
    tokens.py            sampled tokens of a pipeline
    pipeline.py          hidden states and the queue of batches
    remote_calls.py      what an engine tells its workers to do, and when sampling is put off
    requests.py          stop tokens, drafts by row, admission, sessions
    steps.py             dummy steps of a pipeline, and a queue that is too deep
    tensor_parallel.py   slices of hidden states
    startup.py           handshake, ports and READY
    startup_groups.py    groups and communicators, warm-up and capture
    startup_bugs.py      bugs that engines had with configuration and ports
    startup_deaths.py    deaths that a start does not notice
    deaths.py            who is not told that somebody is gone
    pipeline_bugs.py     bugs that engines had in pipelines
    engine.py            the loop of engines in lockstep, and waves
    engine_pauses.py     pause and resume
    engine_bugs.py       bugs that engines had with waves and pauses

One file an area. Nothing imports them but the registry, by the entry points of pyproject.toml; checks never do.
"""
