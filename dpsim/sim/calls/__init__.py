"""The calls of the contract (`dpsim.contract.interface`) on the simulated machine.

flags.py           flags between threads and streams
streams.py         streams, events and graphs
underway.py        collectives and transfers that a host has started: awaits, queries and time-outs
communicators.py   the communicators of one rank
rank.py            a rank, as the program on its host threads sees it
life.py            how a rank runs its program and then ends, or dies
"""
