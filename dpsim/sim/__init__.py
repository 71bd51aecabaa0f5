"""The simulated machine: ranks, streams and collectives as one graph of operations, on SimPy's clock or without time.

    op.py              an operation of the graph
    environment.py     SimPy's event loop, for many hosts and ops
    lives.py           who may die, and what may be lost with them
    edges.py           what comes after what
    alarms.py          time-outs
    machine.py         the graph: edges, and what fires next, with time and without
    broken.py          one that knows what lies behind work that was broken off
    costs.py           what things cost, in nanoseconds
    lines.py           which parts of collectives and transfers end early, without time

    host.py            a host thread: what it knows, what it has issued, how it waits
    turns.py           a host thread that stands still before each of its calls
    threads.py         the host threads of a rank, of which one goes on at a time
    flags.py           flags between them
    chain.py           a stream as the device sees it: a chain of ops
    allocator.py       a caching allocator, as PyTorch's

    contribution.py    what one member brings to a collective or transfer
    results.py         what each member of a collective gets
    residency.py       how many collectives and transfers of a rank can be under way
    lazy.py            communicators that are made at their first use
    groups.py          a communicator, as its members share it
    transfers.py       with time: sends and receives, eager or rendezvous,
    joint.py           and collectives, each a joint op of all members
    parts.py           without time: each member's part is an op of its own
    membership.py      a rank in a communicator, which it may abort
    device.py          the device of a rank: its memory, its chains, its communicators
    watch.py           whether anybody gets on: what has no end is ended

    buffers.py         the contract: buffers,
    streams.py         streams and events,
    communicators.py   the communicators of one rank,
    graphs.py          graphs,
    mailbox.py         mailboxes, which all ranks share,
    notices.py         who is told that an actor is gone,
    ports.py           ports of nodes, and what is behind them,
    stores.py          stores, as one rank has them,
    rank.py            and a rank, as the program on its host threads sees it
    life.py            the life of a rank, and its death
    backend.py         SimBackend, what the entry point names

A file imports only from those above it.
"""

from dpsim.backend.call_site import own_code

own_code(__name__, "simpy")
