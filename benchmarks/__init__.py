"""How fast the simulated machine is, next to SimPy itself. Run by `make bench`, or `python -m benchmarks`.

One representative step of an engine (data-parallel agreement, two microbatches on two streams with an all-to-all each,
hidden states handed to the next pipeline stage, tokens returned), written three times:

    baseline.py      as one writes it in SimPy: a process per stream, Stores, a helper process per collective
    program.py       against the contract, run by the simulated machine: addresses, memory, numbers, a full journal
    flattened.py     by hand for this one step, with a tenth of the events: what SimPy alone would allow

All three end at the same simulated time. They are run in turn, many times, in one process. The report has ratios
within a turn, in CPU time. Ratios judge nothing, for the instruction cache of a processor decides on them as well.
Counts judge: a call more in each step is a count above its floor, on every processor.

    counts.py        calls of functions, a rank-step and a schedule
    instructions.py  instructions a rank-step, where valgrind is installed
    floors.py        the lowest counts that were reached, in floors.json: they only sink
    measure.py       turns, ratios and their spread
    growth.py        many ranks: cost per rank-step, memory (in a process of its own)
    untimed.py       ops per second where there is no time, and the cost of a tiny run
    recording.py     what the recorder costs a call: `python -m benchmarks.recording`
    dumps.py         a hung job of 512 ranks, explained: `python -m benchmarks.dumps`
    exploring.py     schedules and small worlds a second; tokens.py the same of pipelines
    startup.py       CPU seconds of commands
    torch_ranks.py   programs of torch.distributed: start-up, a schedule, memory
    report.py        writes RESULTS.md and results.json

On GPUs, next to plain torch, `make bench-gpu`:

    gpu.py           ratios over plain torch in the same worker, their bars, RESULTS_GPU.md and results_gpu.json
    gpu_ways.py      what is compared: the same work through the contract and in plain torch
    gpu_profile.py   where the time of two of these goes, part by part; run by hand
    gpu_parts.py     its variants: where records go, and which half of the contract an op takes

No test looks at a clock here; tests/vllm/test_benchmarks.py holds that an extra call a rank-step is noticed. No module
of `dpsim` imports this.
"""
