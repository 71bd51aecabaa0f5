"""How a group of engines comes up (specification chapters 8.3 to 8.7 and 9).

errors.py         what a start fails with, one clear error each
layout.py         who takes part, where everybody is, and how long anybody waits
conversation.py   a parent and its children, over a store: calls, answers, failures
compared.py       what all engines have to have alike, before anything can hang
ports.py          the port of the next group, in two published forms
rendezvous.py     members of a group meet at a port: barriers and reductions with a time-out
groups.py         process groups and communicators of workers, in one global order
memory.py         the memory of a device: communicators first, then the KV cache
forwards.py       profile, warm-up and capture as collectives
participant.py    what all have in common: to come up, or to fail and tell
frontend.py       front ends: they start the others, compare, and let them serve
coordinator.py    the coordinator, to which all engines subscribe
engine.py         engine cores, one a data-parallel rank
worker.py         workers: the ranks
watched.py        participants who notice deaths: parents those of their children, and children those of parents
"""
