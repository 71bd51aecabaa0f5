"""What every backend shares: addresses, records, injections, and the public half of each class of the contract.

    journal/           records, addresses, faults
    hosts/             what a host awaits: threads, host communicators, stores
    memory/            pools and buffers
    graphs/            captured graphs
    calls/             streams, device communicators, graphs, and the rank

A backend subclasses the classes of the contract and adds how to run a kernel, copy a buffer, or start a collective
that has been journaled: CONTRIBUTING.md lists all methods that are left to it. So an op has the same address, record
and injected faults everywhere.

Each of these packages imports only those above it in this list.
"""
