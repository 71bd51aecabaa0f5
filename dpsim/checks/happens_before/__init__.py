"""Happens-before: rebuilds from the journals of a run which access to memory came before which other one.

The walk is one pass over the journals of all ranks together.
walk.py        the rules of the order, and the walk through all hosts and streams of a run
hosts.py       a host during the walk: its vector clock, and its position in the journal
threads.py     a host with several threads: a clock for each of them, flags and joins
flags.py       which set of a flag releases a stream that waits for it
streams.py     a stream during the walk: its vector clock, and its queue of ops that cannot execute yet
meeting.py     the state that hosts and streams share: collectives, sends, messages, the ready list
mailboxes.py   which post a host took from a mailbox
points.py      points that others wait for, and the interface of consumers of accesses
clocks.py      vector clocks in two representations
"""
