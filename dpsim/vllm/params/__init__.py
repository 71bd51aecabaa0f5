"""The parameters of the programs: the sections of a scenario of engines, and the arguments of a program.

    scenario.py        a scenario with the sections topology, config, config_by_rank and workload
    workload/          requests: written out, made up from a seed, or read from a trace
    arguments.py       a program's arguments: requests, the step clock, topology and configuration as plain data
    estimate.py        the size of a run, from the requests alone
    communicators.py   the groups of ranks of a topology, and their names
    small.py           every small scenario like a given one
    one_more.py        a scenario with one data-parallel rank more
    strategies.py      Hypothesis strategies: scenarios to draw
    fault_strategies.py  the same for their faults and delays
    options.py         options of `dpsim run` and `dpsim explore`
    agreement.py       the case of the conformance suite that runs a protocol

Entry points name `scenario`, `strategies`, `options` and `agreement`; only strategies import Hypothesis.
"""
