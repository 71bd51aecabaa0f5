"""Blame: one layer that finds the cause, whatever check found the trouble.

Each check states what does not hold, and its own suspicion. This layer sees all findings of a run together, and all
journals. Steps and sites may be absent, as in recordings and in the dumps of a flight recorder.

root_first.py    the passes over the findings of a run, in order
astray.py        the first call of a collective that met another call
habits.py        what follows what in all threads of a run
beside.py        the message that a culprit dropped
circles.py       ranks that wait for each other in different groups
broken_off.py    a rank that ended since another actor closed its store
wrong_peer.py    a transfer that went to the wrong peer
uneven.py        the side that left out a call or made it twice, where there is no majority
shapes.py        of calls that meet and differ, the one that departs from its site's other calls
steps.py         what each rank made in each step, by name
regular.py       whether a step looks like the rank's other steps
meetings.py      which calls meet, and at which sites
relations.py     what the number of elements of a call goes with
settings.py      the settings of single ranks, beside a difference of ranks
roots.py         an actor that died, raised or stands in no op is behind those that wait
root_classes.py  what such a hang is called; a part of roots
waiters.py       who only waits is not to blame
cohorts.py       ranks that did the same so far, and the one that parts from them
plain_calls.py   the same of plain lists of calls, without steps and sites
chain.py         who stands where at the end of a run, and for whom each waits
letters.py       from whom an actor may hear: mailboxes and stores; a part of chain
witnesses.py     actors that raised because others did not act
reached.py       the op that an actor reached and did not make
places.py        what came next at each place of the journals; a part of chain and reached
"""
