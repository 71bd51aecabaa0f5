"""Scenarios of programs that have `Params`: a pydantic model of their parameters.

    protocol: {name: waves, params: {interval: 2, slots: 1}}

    scenario.py    the scenario of such a program: its ranks and communicators come from the parameters
    strict.py      a key that the model does not have is an error, also where the model would ignore it
    places.py      the place of an error as the user wrote it, without the tags of a union
    per_rank.py    a value for all ranks, with other values of single ranks
    files.py       files that parameters name, in the folder of the scenario
    shapes.py      what values a field can have, by its type and bounds

`dpsim.scenario.small` enumerates such parameters, and `dpsim.testing.models` draws them.
"""
