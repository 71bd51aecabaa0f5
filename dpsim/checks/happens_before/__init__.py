"""The order of a run's accesses, rebuilt from its journals.

walk.py        the rules of what comes after what; all hosts and streams of a run, walked side by side
hosts.py       a host: what it knows, how far its journal was walked
threads.py     a host with several threads: a clock for each, flags and joins
flags.py       a stream that waits for a flag: by which set it goes on
streams.py     a stream: what it knows, what on it cannot fire yet
meeting.py     what all of these share: collectives, sends, events, who can go on
mailboxes.py   messages: which post it may have been that a host took
points.py      points that others may come after, who waits for them, who is told of accesses
clocks.py      vector clocks: what a point knows of all that happened before it
"""
