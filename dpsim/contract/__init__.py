"""The contract between a program and what runs it: all that the other rooms build on.

    interface.py       the calls that a program makes
    ops.py             the records of a journal, and the addresses of ops
    dtypes.py          the element types, as numpy has them
    world.py           what a backend runs, and the run that it returns
    gates.py           what makes a run take the order of another one
    chain.py           the calls that led a program to a line
    recording.py       the layout of a recorder's file
    machine.py         a system and a process, by names that no other one has
    times.py           when the ops of a run began and ended
    occupied.py        ranks without a free slot for device work
    undefined.py       what a run has no defined result for
    program.py         the class of all programs: `prepare` once, `run` on every rank
    registry.py        protocols and variants by name
    keys.py            keys that messages name, with their meanings
    pieces.py          the pieces of a program, one of them a variant's
    schedule.py        the seam between the simulated machine and a search over schedules
    installed.py       entry points of installed packages
    words.py           small pieces of text: the nearest name, counts, durations
    differing.py       where long values differ, for messages
    collectives/       the collectives, one file each: all that holds for one of them
    rules/             rules that machines and checks share

This package imports no other part of dpsim.
"""
