"""The simulated machine: one graph of operations for all ranks, streams and collectives. It runs on SimPy's clock or
without time.

    graph/             the graph of ops, and what fires next
    hosts/             host threads, and the watch over their progress
    services/          mailboxes, notices, ports, stores
    collectives/       communicators as their members share them, with time and without
    memory/            the device's memory
    calls/             the contract: streams, graphs, communicators, the rank and its life
    onlooker.py        what looks on while a run goes on: `dpsim replay` at a breakpoint
    wiring.py          what one run is made of
    backend.py         SimBackend, which the entry point names

Each entry imports only entries above it in this list.
"""

from dpsim.backend.journal.call_site import own_code

own_code(__name__, "simpy")
