"""The contract between a program and the backend that runs it. All other packages of dpsim build on it.

interface.py       the calls that a program makes
ops.py             the records of a journal, and the addresses of ops
kinds.py           what each kind of record is, and the sets of kinds that readers ask
dtypes.py          the element types, as numpy has them
world.py           what a backend runs, and the run that it returns
gates.py           fixes outcomes of calls, so that a run repeats the order of another run
chain.py           the calls that led a program to a line
recording.py       the layout of a recorder's file
machine.py         names of a system and a process that no other one has
times.py           when the ops of a run began and ended
occupied.py        ranks without a free slot for device work
undefined.py       collectives of a run that have no defined result
program.py         the class of all programs: `prepare` once, `run` on every rank
program_parts.py   whether a user's program has its parts in the right form
registry.py        protocols and variants by name
keys.py            keys that messages name, with their meanings
pieces.py          the parts of a program, one of which a variant may replace
events.py          the events of a schedule, and their text
schedule.py        the interface between the simulated machine and a search over schedules
installed.py       entry points of installed packages
words.py           helpers for messages: the nearest name, counts, durations
differing.py       the elements in which two long values differ, for messages
collectives/       the collectives, one file each, with all rules for it
rules/             rules that machines and checks share

This package imports no other part of dpsim.
"""
