"""Blame: one layer that finds the cause, whatever check found the trouble.

Each check states what does not hold, and its own suspicion. This layer sees all findings of a run together, and all
journals. Steps and sites may be absent, as in recordings and in the dumps of a flight recorder.

root_first.py   the passes over the findings of a run, in order
astray.py       the first call of a collective that met another call
habits.py       what follows what in all threads of a run
beside.py       the message that a culprit dropped
uneven.py       the side that left out a call or made it twice, where there is no majority
shapes.py       of calls that meet and differ, the one that departs from its site's other calls
steps.py        what each rank made in each step, by name
regular.py      whether a step looks like the rank's other steps
meetings.py     which calls meet, and at which sites
relations.py    what the number of elements of a call goes with
settings.py     the settings of single ranks, beside a difference of ranks
"""
