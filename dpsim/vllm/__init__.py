"""The model of one engine, vLLM: its protocols, its configuration, its releases, its known bugs.

    config/          the engine's configuration, in vLLM's names, and the rules of its releases
    graphs/          CUDA graph sizes and dispatch: which graph a batch runs in, pure functions
    capture/         capturing and replaying them: wrappers, the session, offloaded weights
    model/           the stand-in for the model: integer arithmetic whose every token is known beforehand
    data_parallel/   ranks agree on how each step runs
    overlap/         steps of data_parallel whose microbatches run in threads
    pipeline/        hidden states go forward through the stages, sampled tokens back
    engine/          engines in lockstep by waves, with their coordinator and front ends
    startup/         front ends, coordinator, engines and workers start, or all of them fail
    whole/           one engine step of everything
    params/          what a scenario says of engines, and what a program is handed
    releases/        each release and source page as one record: the class of each piece above that it has
    programs/        the programs by name: the pieces of a release put together, and the settings it refuses
    answers/         what the engine's own code answered, and the comparison with it (`dpsim check-engine`)
    from_vllm/       from a command line of vLLM to a scenario
    keys.py          the keys of the specification, with their meanings
    museum/          known bugs and mutants, each beside its healthy twin

The protocols import the graphs and the model and never each other. A module that needs two of them stands above both,
as overlap/ and whole/ do. A piece of a protocol knows no release: programs look releases up. The framework imports
nothing of this package: it finds it by entry points.
"""
