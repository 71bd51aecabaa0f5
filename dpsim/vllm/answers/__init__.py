"""Answers of the engine's own functions, compared with ours: `dpsim check-engine`, and the tests of the protocols.

    comparison.py   a kind of question; compare: equal, a named departure, or different
    stored.py       answers that were stored, and where they lie
    kinds.py        all kinds
    check.py        all kinds checked, by stored answers or by an installed release
    command.py      `dpsim check-engine`
    command_text.py its output
    json_fields.py  the keys of its object
    live/           an installed vLLM, asked itself

    decide.py       V1: the agreement            slices.py       microbatches, and their metadata
    flow.py         V1: batch to agreed graph    need_mask.py    which rows need a sampled token
    dispatch.py     V1: which graph              v2.py           V2: first choice and agreement
    ladder.py       V1: capture sizes            manager.py      source 004: sizes, choices, captures
    config.py       the parallel configuration: accepted ones, values, hashes
    waves.py        an engine's waves, and the coordinator's
    balance.py      to which engine a front end sends

A kind knows no machine and no run: it puts a row to a pure function. Sources are the chapters of the specification that
the functions name.
"""
