"""The coordination protocols, each written once against `dpsim.interface`.

    model/           the stand-in for the model: integer arithmetic whose every token is known beforehand
    data_parallel/   the program dp_batch: ranks agree on how each step runs
    pipeline/        the program pp_tokens: hidden states go forward through the stages, sampled tokens come back

The protocols know the model and never each other: what needs two of them is a module of its own above both.
"""
