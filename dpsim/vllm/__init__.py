"""The model of one engine, vLLM: its protocols, its configuration, its releases, its known bugs.

    config/          the engine's configuration, in vLLM's names, and the rules of its releases
    graphs/          CUDA graph sizes and dispatch: which graph a batch runs in, pure functions
    capture/         capturing and replaying them: wrappers, the session, offloaded weights
    model/           the stand-in for the model: integer arithmetic whose every token is known beforehand
    data_parallel/   the program dp_batch: ranks agree on how each step runs
    overlap/         the program dbo: steps of data_parallel whose microbatches run in threads of their own
    pipeline/        the program pp_tokens: hidden states go forward through the stages, sampled tokens back
    engine/          the program engine: engines in lockstep by waves, with their coordinator and front ends;
                     engine_watched: all learn of a death; dp_survivors: ranks go on without a dead one
    startup/         the program startup: front ends, coordinator, engines and workers start, or all of them fail;
                     startup_watched: all notice a death
    whole/           the programs whole_engine_dp and whole_engine: one engine step of everything, in stacks with names;
                     whole_engine_watched: all learn of a death
    params/          what a scenario says of engines, and what a program is handed
    answers/         what the engine's own code answered, and the comparison with it (`dpsim check-engine`)
    from_vllm/       from a command line of vLLM to a scenario
    museum/          known bugs and mutants, each beside its healthy twin

The protocols import the graphs and the model and never each other: what needs two of them is a module above both, as
overlap/ and whole/ are. The framework imports nothing of this package: it finds it by entry points.
"""
