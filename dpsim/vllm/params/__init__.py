"""The sections of a scenario file that concern the engine, and the arguments that a program receives from them.

A scenario of the model of vLLM has a topology, a configuration and a workload of requests. The files:

    scenario.py        the model of the sections topology, config, config_by_rank and workload
    workload/          the requests: listed in the file, drawn from a seed, or read from a trace
    arguments.py       the arguments of a program: requests, step clock, topology and configuration as plain data
    estimate.py        an estimate of the steps, records and memory of a run, computed before the run
    communicators.py   the communicators of a topology, and their names
    small.py           an enumeration of all small scenarios that are similar to a given one
    strategies.py      Hypothesis strategies that draw scenarios
    accepted.py        the topologies and fields of requests that a program accepts, for `strategies.py`
    fault_strategies.py  Hypothesis strategies that draw faults and delays
    options.py         options of `dpsim run` and `dpsim explore`
    agreement.py       a conformance test that runs a protocol on a backend

Entry points in pyproject.toml name `scenario`, `strategies`, `options` and `agreement`. Only the two files with
strategies import Hypothesis.
"""
