"""Blame: one layer that finds the cause, whichever check found the violation.

Each check reports a violation, and its own suspicion. This layer sees all findings of a run together, and all journals.
Steps and sites may be absent, as in recordings and in the dumps of a flight recorder.

root_first.py    the passes over the findings of a run, in order
astray.py        the first call of a collective that met another call
habits.py        the usual order of ops in all threads of a run
beside.py        the message that a culprit dropped
circles.py       ranks that wait for each other in different groups
broken_off.py    a rank that ended because another actor closed its store
wrong_peer.py    a transfer that went to the wrong peer
uneven.py        the side that left out a call or made it twice, where there is no majority
shapes.py        among different calls that meet, the one that departs from its site's other calls
steps.py         the calls of each rank in each step, by name
regular.py       whether a step looks like the rank's other steps
meetings.py      which calls meet, and at which sites
relations.py     the numbers that the number of elements of a call depends on
settings.py      the settings of single ranks, for a difference between ranks
roots.py         an actor that died, raised or stands in no op is the cause for those that wait
root_classes.py  the classes of such hangs; a part of roots
waiters.py       an actor that only waits is not the culprit
cohorts.py       ranks that did the same so far, and the one that departs from them
plain_calls.py   the same for plain lists of calls, without steps and sites
chain.py         the state of each actor at the end of a run, and the actors that it waits for
letters.py       the actors that may answer a wait at a mailbox or a store; a part of chain
witnesses.py     actors that raised because others did not act
reached.py       the op that an actor reached and did not issue
places.py        the next op at similar places of the journals; a part of chain and reached
"""
