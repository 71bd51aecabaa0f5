"""The coordination protocols, each written once against `dpsim.interface`.

    graphs/          CUDA graph sizes and dispatch: which graph a batch runs in, pure functions
    capture/         capturing and replaying them: wrappers, the session, weights that come and go
    model/           the stand-in for the model: integer arithmetic whose every token is known beforehand
    data_parallel/   the program dp_batch: ranks agree on how each step runs
    overlap/         the program dbo: steps of data_parallel whose microbatches run in threads of their own
    pipeline/        the program pp_tokens: hidden states go forward through the stages, sampled tokens come back
    engine/          the program engine: engines in lockstep by waves, with their coordinator and front ends;
                     engine_watched: all learn of a death; dp_survivors: ranks go on without a dead one
    startup/         the program startup: front ends, coordinator, engines and workers come up, or all of them fail;
                     startup_watched: all notice a death
    whole/           the programs whole_engine_dp and whole_engine: one engine step of everything, in stacks with names;
                     whole_engine_watched: all learn of a death

The protocols know the graphs and the model and never each other: what needs two of them is a module of its own
above both, as overlap/ and whole/ are.
"""
