"""The start of a group of engines: front ends, coordinator, engines and workers (specification 8.3 to 8.7 and
chapter 9).

errors.py         the errors of a start, each with one clear message
layout.py         all participants, their nodes, and their time-outs
conversation.py   messages between a parent and its children: calls, answers, failures
compared.py       settings that must be equal on all engines, and their comparison
ports.py          how members of a group find its port, in two published forms
rendezvous.py     members of a group meet at a port: barriers and reductions with a time-out
groups.py         process groups and communicators of workers, in one global order
memory.py         the memory of a device: communicators first, then the KV cache
forwards.py       the forwards before serving: profile, warm-up and capture
participant.py    what all participants have in common: each serves in the end, or fails and reports it
frontend.py       front ends: they start the others, compare settings, and let all serve
coordinator.py    the coordinator, to which all engines subscribe
engine.py         engine cores, one for each data-parallel rank
worker.py         workers, which are the ranks
watched.py        participants that notice the deaths of their children and parents
"""
