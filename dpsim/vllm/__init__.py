"""The model of one inference engine, vLLM: its protocols, its configuration, its releases, and its known bugs.

    config/          the engine's configuration, in vLLM's names, and the rules of its releases
    graphs/          which CUDA graphs there are, and which one a batch runs in: pure functions
    capture/         captures and replays of CUDA graphs: wrappers, the capture session, offloaded weights
    model/           the stand-in for the language model: integer arithmetic with known results
    data_parallel/   data-parallel ranks agree on how each step runs
    overlap/         steps of data_parallel whose microbatches run in host threads
    pipeline/        stages send hidden states forward, and the last stage sends sampled tokens back
    engine/          engines that step in lockstep, with their coordinator and front ends
    startup/         front ends, coordinator, engines and workers start together, or all of them fail
    whole/           engines with all of the above
    params/          the parameters of a scenario that describe engines, and the arguments of a program
    releases/        one record for each release and source page: the class of each piece of the model
    programs/        the programs by name: they combine the pieces of a release, and refuse some settings
    answers/         recorded answers of the engine's own code, and the comparison with the model
    from_vllm/       from a command line of vLLM to a scenario
    keys.py          the keys of the specification, with their meanings
    museum/          known bugs and mutants as variants, each of which overrides a class of the model

A *piece* is a part of the model that may differ between releases. Pieces do not import releases; programs look up the
pieces in the record of a release. The packages of single protocols (data_parallel, engine, pipeline, startup) import
the graphs and the model, but not each other. The packages overlap/ and whole/ need several of them, and import them.
The framework imports nothing from this package: it finds the programs by entry points.
"""
