"""Runs an unmodified program of torch.distributed in the simulation: each rank has its own process.

A *warm parent* process imports torch once and forks one *child* process for each rank. A child sends each call of
torch.distributed through a pipe to dpsim's process. There, the protocol `torch` makes the corresponding call of dpsim's
interface (`dpsim.contract.interface`).

    program.py         the protocol `torch`: its parameters, and the coroutine that runs for each rank
    targets.py         parses the target: a script, or a function of a file
    found.py           runs the program once, to find the communicators for its tags and pairs
    conversation.py    reads the messages of one thread of a rank, and makes the calls
    threads.py         threads of the process, as host threads of the rank
    times.py           connects the clocks of ranks
    messages.py        the types of the items of each message
    wire.py            reads and writes messages on a pipe
    lowered.py         translates a call of torch into a call of a communicator
    host_calls.py      makes calls as gloo does: on the host
    device_calls.py    makes calls as NCCL does: on streams
    monitored.py       monitored_barrier
    store_calls.py     messages about stores
    ports.py           the service for the store of the launcher
    nursery.py         starts the warm parent, and requests children from it

    child/             the code of the warm parent and of its children

Only `child/` imports torch. The other modules start the warm parent by the name of its module, so dpsim works without
torch.
"""
