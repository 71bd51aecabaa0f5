"""Measures how fast the simulated machine is, compared with plain SimPy. Run it with `make bench`, or `python -m
benchmarks`.

The benchmarks run one representative step of an engine. The step has a data-parallel agreement and two microbatches on
two streams with an all-to-all each. A stage sends hidden states to the next pipeline stage, and tokens return. The step
is written three times:

    baseline.py      in usual SimPy: a process per stream, Stores, a helper process per collective
    program.py       as a dpsim program on the simulated machine: addresses, memory, numbers, a full journal
    flattened.py     by hand for this one step, with a tenth of the events: the limit of SimPy

All three end at the same simulated time. One process runs them in turn, many times, and the report has the ratios of
CPU times within a turn. No ratio fails the benchmark, because the instruction cache of a processor affects ratios as
well. But a count of function calls is equal on every processor, so one more call in each step fails the benchmark.

    counts.py        function calls per rank-step and per schedule
    instructions.py  instructions per rank-step, if valgrind is installed
    floors.py        the lowest counts so far, in floors.json: they only decrease
    measure.py       turns, ratios and their spread
    growth.py        many ranks: cost per rank-step, and memory in a separate process
    untimed.py       ops per second of untimed runs, and the cost of a tiny run
    recording.py     the cost of the recorder per call: `python -m benchmarks.recording`
    dumps.py         the time to explain a hung job of 512 ranks: `python -m benchmarks.dumps`
    exploring.py     schedules and small worlds per second; tokens.py the same for pipelines
    startup.py       CPU seconds of commands
    ways.py          one exploration in eight ways with equal results: `python -m benchmarks.ways`
    speed_up.py      the loss of several processes by scheduling: `python -m benchmarks.speed_up`
    ray_cost.py      the cost of Ray itself: `python -m benchmarks.ray_cost`
    torch_ranks.py   programs of torch.distributed: start-up, a schedule, memory
    report.py        writes RESULTS.md and results.json

`make bench-gpu` compares dpsim with plain torch on GPUs:

    gpu.py           ratios to plain torch in the same worker, their limits, RESULTS_GPU.md and results_gpu.json
    gpu_ways.py      the compared ways: the same work through dpsim and in plain torch
    gpu_profile.py   the time of two of these ways, part by part; run it by hand
    gpu_parts.py     the variants of gpu_profile.py: where records go, and which code path an op takes

No test measures time. tests/vllm/test_benchmarks.py shows that the counts notice one more call per rank-step. No module
of `dpsim` imports this package.
"""
