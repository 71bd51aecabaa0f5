"""How a group of engines comes up (specification chapters 8.3 to 8.7 and 9).

errors.py         the errors of a start, each with one clear message
layout.py         all participants, their nodes, and their time-outs
conversation.py   a parent and its children, over a store: calls, answers, failures
compared.py       settings that all engines must share, compared before anything can hang
ports.py          the port of the next group, in two published forms
rendezvous.py     members of a group meet at a port: barriers and reductions with a time-out
groups.py         process groups and communicators of workers, in one global order
memory.py         the memory of a device: communicators first, then the KV cache
forwards.py       profile, warm-up and capture as collectives
participant.py    the common part of all: to come up, or to fail and report it
frontend.py       front ends: they start the others, compare, and let them serve
coordinator.py    the coordinator, to which all engines subscribe
engine.py         engine cores, one a data-parallel rank
worker.py         workers: the ranks
watched.py        participants that notice deaths: those of their children, and those of their parents
"""
