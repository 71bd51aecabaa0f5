"""The graph of ops: which op depends on which, and which op fires next.

costs.py           the cost of each op, in nanoseconds
op.py              an op of the graph
lives.py           ranks that may die, and the ops that are lost with them
environment.py     SimPy's event loop, for many hosts and ops
edges.py           the edges between ops
sleeps.py          sleeps and planted delays, and when each ends at the earliest
alarms.py          time-outs
machine.py         the machine: which op fires next, with time and without
"""
