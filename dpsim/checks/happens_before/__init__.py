"""The order of a run's accesses, rebuilt from its journals.

walk.py        the rules of the order; the walk through all hosts and streams of a run
hosts.py       a host: its knowledge, and the position in its journal
threads.py     a host with several threads: a clock for each, flags and joins
flags.py       a stream that waits for a flag: the set that releases it
streams.py     a stream: its knowledge, and its ops that cannot fire yet
meeting.py     the state that all of these share: collectives, sends, events, the ready list
mailboxes.py   messages: the posts that a host may have taken
points.py      points of a run, their waiters, and the sinks that get accesses
clocks.py      vector clocks: the ops that happened before a point
"""
