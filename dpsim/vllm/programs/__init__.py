"""The programs by name: the record of each form, the pieces that a variant replaces, and refusals.

    dp_batch.py          data-parallel ranks agree on each step
    eplb.py              the same, with experts that move while steps run
    dbo.py               the same, with microbatches in threads
    pp_tokens.py         pipelines
    engine.py            engines in lockstep: `engine`, and `engine_watched`
    startup.py           the start of a group: `startup`, and `startup_watched`
    modes.py             modes and rows of tables that ranks decide, and what a proof assumes of graphs
    pieces.py            the forms of each piece of whole engines
    stacks.py            the stacks, and the way from a stack, swaps and a configuration to the pieces
    whole_engine_dp.py   whole engines of one worker each
    whole_engine.py      whole engines with pipelines: `whole_engine`, and `whole_engine_watched`; their participants

They build on `releases/`, which names the pieces of each release. `dp_survivors`, which has no releases, is in
`engine/`.
"""

import dpsim.vllm.keys  # noqa: F401 - registers the keys that messages of these programs name
