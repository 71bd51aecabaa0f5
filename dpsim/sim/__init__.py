"""The simulated machine: one graph of operations for all ranks, streams and collectives. It runs on SimPy's clock or
without time.

    graph/             the graph of ops, and which op fires next
    hosts/             host threads, and the watch of their progress
    services/          mailboxes, notices, ports, stores
    collectives/       communicators as their members share them, in timed and untimed mode
    memory/            the device's memory
    calls/             the calls of the contract: streams, graphs, communicators, ranks
    onlooker.py        an observer of a run, for example `dpsim replay` with a breakpoint
    wiring.py          creates the parts of one run
    backend.py         SimBackend, to which the entry point refers

Each entry imports only entries above it in this list.
"""

from dpsim.backend.journal.call_site import own_code

own_code(__name__, "simpy", "dpsim.contract.registry")  # a run asks the registry where the program stands
