"""Compares answers of vLLM's own functions with those of dpsim: for `dpsim check-engine` and for tests.

A question is a row of arguments, such as the batches of all ranks. vLLM's function and dpsim's function of the same
rule must return the same answer. The package is the extra `engine` of dpsim-ranks. It imports the model, and nothing of
dpsim imports it. The folder `answers/` has the stored answers. The files:

    comparison.py   one kind of question, and the comparison of two answers
    stored.py       reads stored answers of published releases
    kinds.py        the list of all kinds of questions
    check.py        compares all kinds, with stored answers or with an installed vLLM
    command.py      `dpsim check-engine`
    command_text.py the output of the command
    live/           puts questions to an installed vLLM

The kinds of questions:

    decide.py       V1 runner: agreement              slices.py     microbatches and their metadata
    flow.py         V1 runner: batch to agreed graph  need_mask.py  rows that need a sampled token
    dispatch.py     V1 runner: choice of a graph      v2.py         V2 runner: first choice and agreement
    ladder.py       V1 runner: capture sizes          manager.py    source page 004: sizes, choices, captures
    config.py       the parallel configuration: validity, derived values, hashes
    waves.py        the waves of an engine and of the coordinator
    balance.py      the engine to which a front end sends a request

A kind of question needs no simulation: it passes a row to a pure function. Docstrings of the functions name the chapter
of the specification.
"""
