"""Blame: decides which rank or service caused a violation, from all findings of a run together.

Each check looks for one kind of violation and names the rank that it suspects. The suspect may be a victim of another
rank. So the passes of this package read the findings of all checks and the journals (the list of ops that each rank
issued). They correct the culprit.

Journals of recorded jobs and dumps of torch's flight recorder have neither step numbers nor sites (the names of calls
in the source). For these, `plain_calls` compares only the order of calls.

root_first.py    the passes over the findings of a run, in order
extra_calls.py   the first collective call of a rank that paired up with a different call of a peer
habits.py        the usual order of ops in all threads of a run
beside.py        the message that a culprit dropped
circles.py       ranks that wait for each other in a cycle, through different groups
broken_off.py    a rank that ended because another actor closed its store
wrong_peer.py    a send or receive that named the wrong peer
uneven.py        the side that left out a call or made it twice, where there is no majority
pairs.py         the two sides that have to make equally many calls; a part of uneven
shapes.py        of two paired calls that differ, the one that is unlike the other calls at its site
steps.py         the calls of each rank in each step, by name
regular.py       whether a step looks like the rank's other steps
meetings.py      which calls of different ranks pair up, and at which sites
relations.py     the sizes and values from which the element count of a call follows
settings.py      the settings that a scenario gives to single ranks, as a hint for a difference between ranks
roots.py         an actor that died, raised or stopped between two ops is the cause for all that wait for it
root_classes.py  the classes of the hangs that roots.py explains
blocked_before.py  a rank that is blocked before a call has not left it out
waiters.py       an actor that only waits is not the culprit
lost_wakes.py    who is to blame for a message or key that does not come
debtors.py       the actors that may owe a message or key; a part of lost_wakes and waiters
misdirected.py   a message that went to the wrong rank; a part of lost_wakes
wake_counts.py   how often each side of a wait acts in a step; a part of lost_wakes
cohorts.py       at start-up, the one rank whose ops differ from those of all other ranks
plain_calls.py   the same comparison for plain lists of calls, without steps and sites
chain.py         the state of each actor at the end of a run, and the actors that it waits for
messages.py      the actors that may answer a wait at a mailbox or a store; a part of chain
witnesses.py     actors that raised because others did not act
reached.py       the op that an actor was about to issue when it died or stopped
places.py        predicts an actor's next op from similar places in the journals; chain and reached use it
repairs.py       the single changes of the culprit's calls with which a run may hold
restoring.py     whether such a change leads back to what the actor does in its other steps
"""
