"""How fast the simulated machine is, next to SimPy itself. Run by `make bench`, or `python -m benchmarks`.

One representative step of an engine (data-parallel agreement, two microbatches on two streams with an all-to-all each,
hidden states handed to the next pipeline stage, tokens returned), written three times:

    baseline.py      as one writes it in SimPy: a process per stream, Stores, a helper process per collective
    program.py       against the contract, run by the simulated machine: addresses, memory, numbers, a full journal
    flattened.py     by hand for this one step, with a tenth of the events: what SimPy alone would allow

All three end at the same simulated time. They are run in turn, many times, in one process, and what is reported are
ratios within a turn: figures of one machine say little about another, ratios say more. Times are CPU times of the
process, so that what else runs on the machine disturbs less.

    measure.py       turns, ratios and their spread
    growth.py        many ranks: cost per rank-step, memory (in a process of its own)
    untimed.py       ops per second where there is no time, and the cost of a tiny run
    bars.py          what has to be reached; report.py writes RESULTS.md and results.json

On GPUs, next to plain torch, `make bench-gpu`:

    gpu.py           ratios over plain torch in the same worker, their bars, RESULTS_GPU.md and results_gpu.json
    gpu_ways.py      what is compared: the same work through the contract and in plain torch
    gpu_profile.py   where the time of two of these goes, part by part; run by hand
    gpu_parts.py     its variants: where records go, and which half of the contract an op takes

Nothing here is a test: a test that looks at a clock fails for reasons of its own. Nothing of `dpsim` imports this.
"""
