"""The parameters of the programs: what a scenario says of engines, and what a program is handed.

    scenario.py        a scenario with the sections topology, config, config_by_rank and workload
    workload/          requests: written out, made up from a seed, or read from a trace
    arguments.py       what a program is handed: requests, the step clock, topology and configuration as plain data
    estimate.py        how large a run is, from the requests alone
    communicators.py   which groups of ranks a topology has, and what they are called
    small.py           every small scenario like a given one
    one_more.py        a scenario with one data-parallel rank more
    strategies.py      Hypothesis strategies: scenarios to draw
    options.py         what `dpsim run` and `dpsim explore` offer for them
    agreement.py       the case of the conformance suite that runs a protocol

Entry points name `scenario`, `strategies`, `options` and `agreement`; only `strategies` imports Hypothesis.
"""
