"""What every backend shares: addresses, records, injections, and the public half of each class of the contract.

    journal/           records, addresses, faults
    hosts/             what a host awaits: threads, host communicators, stores
    memory/            pools and buffers
    graphs/            captured graphs
    calls/             streams, device communicators, graphs, and the rank

A backend subclasses the classes of the contract. It adds how to run a kernel, copy a buffer, or start a journaled
collective; CONTRIBUTING.md lists the methods that it has to write. So an op has the same address, record and injected
faults on every backend.

Each of these packages imports only those above it in this list.
"""
