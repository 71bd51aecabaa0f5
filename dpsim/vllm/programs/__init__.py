"""The programs of the model of vLLM, by name: each combines classes of a release to code that ranks run.

A program's *form* is the name of a release (`0.33`) or of a source page (`source-000`, a published file of vLLM). It
selects the classes, called *pieces*, and a variant may replace one of them.

    dp_batch.py          data-parallel ranks agree on each step
    eplb.py              `dp_batch` with experts that move while steps run
    dbo.py               `dp_batch` with microbatches in threads
    pp_tokens.py         pipelines
    engine.py            data-parallel engines that step together: `engine` and `engine_watched`
    startup.py           the start of a group of engines: `startup` and `startup_watched`
    modes.py             the decisions of ranks that a campaign counts, and what a proof assumes of graphs
    pieces.py            the forms of each piece of whole engines
    stacks.py            named sets of forms for whole engines, and the selection of pieces from them
    whole_engine_dp.py   whole engines of one worker each
    whole_engine.py      whole engines with pipelines: `whole_engine` and `whole_engine_watched`

The programs look up the pieces of each release in `releases/`. The program `dp_survivors`, which follows no release, is
in `engine/`.
"""

import dpsim.vllm.keys  # noqa: F401 - registers the keys that messages of these programs name
