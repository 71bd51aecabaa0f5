"""What all backends share: addresses, records, faults, and the public half of each class of the contract
(`dpsim.contract.interface`).

    journal/           records, addresses, faults
    hosts/             what a host awaits: threads, host communicators, stores
    memory/            pools and buffers
    graphs/            captured graphs
    calls/             streams, device communicators, graphs, and the rank

A backend subclasses the classes of this package. It adds how to run a kernel, copy a buffer, or start a collective;
CONTRIBUTING.md lists the methods that it has to write. The classes here give each op its address, record it and apply
its planted faults. So an op has the same address, record and planted faults on every backend.

Each of these packages imports only packages above it in this list.
"""
