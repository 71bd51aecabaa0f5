"""Scenarios of programs with `Params`, a pydantic model of their parameters.

    protocol: {name: waves, params: {interval: 2, slots: 1}}

    scenario.py    the class of such a scenario: the parameters define its ranks and communicators
    strict.py      refuses unknown keys, even if the model would ignore them
    per_rank.py    a parameter with one value for all ranks, and other values for single ranks
    files.py       parameters that name files
    shapes.py      the values that a field can have, from its type and bounds

`dpsim.scenario.small` enumerates the parameters of such a model, and `dpsim.testing.models` draws them at random.
"""
