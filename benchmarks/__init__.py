"""How fast the simulated machine is, next to SimPy itself. Run by `make bench`, or `python -m benchmarks`.

The benchmarks run one representative step of an engine. The step has a data-parallel agreement and two microbatches on
two streams with an all-to-all each. A stage passes hidden states to the next pipeline stage, and tokens return. The
step is written three times:

    baseline.py      as one writes it in SimPy: a process per stream, Stores, a helper process per collective
    program.py       against the contract, run by the simulated machine: addresses, memory, numbers, a full journal
    flattened.py     by hand for this one step, with a tenth of the events: what SimPy alone would allow

All three end at the same simulated time. One process runs them in turn, many times. The report has ratios within a
turn, in CPU time. No ratio fails the benchmark, because the instruction cache of a processor affects ratios as well.
Counts do: one more call in each step is a count above its floor, on every processor.

    counts.py        calls of functions, a rank-step and a schedule
    instructions.py  instructions a rank-step, where valgrind is installed
    floors.py        the lowest counts so far, in floors.json: they only decrease
    measure.py       turns, ratios and their spread
    growth.py        many ranks: cost per rank-step, memory (in a separate process)
    untimed.py       ops per second of untimed runs, and the cost of a tiny run
    recording.py     the cost of the recorder per call: `python -m benchmarks.recording`
    dumps.py         a hung job of 512 ranks, explained: `python -m benchmarks.dumps`
    exploring.py     schedules and small worlds a second; tokens.py the same for pipelines
    startup.py       CPU seconds of commands
    ways.py          one exploration in eight ways, which have to agree: `python -m benchmarks.ways`
    speed_up.py      what several processes lose by scheduling: `python -m benchmarks.speed_up`
    ray_cost.py      what Ray costs beside the units: `python -m benchmarks.ray_cost`
    torch_ranks.py   programs of torch.distributed: start-up, a schedule, memory
    report.py        writes RESULTS.md and results.json

On GPUs, next to plain torch, `make bench-gpu`:

    gpu.py           ratios over plain torch in the same worker, their bars, RESULTS_GPU.md and results_gpu.json
    gpu_ways.py      the compared ways: the same work through the contract and in plain torch
    gpu_profile.py   the time of two of these, part by part; run by hand
    gpu_parts.py     its variants: the place of records, and the half of the contract that an op takes

No test looks at a clock here. tests/vllm/test_benchmarks.py shows that the counts notice one more call per rank-step.
No module of `dpsim` imports this.
"""
