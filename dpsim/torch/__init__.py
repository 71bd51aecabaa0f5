"""Unmodified programs of torch.distributed under the explorer: each rank is a process, which a warm parent forks.

    program.py         the protocol `torch`: what a scenario says, and what runs on each rank
    targets.py         what is run: a script, or a function of a file
    found.py           the groups that a program makes, found by running it
    conversation.py    one rank: its messages, and the calls of the contract that they become
    threads.py         threads of the process, as host threads of the rank
    messages.py        the forms of what a rank says
    wire.py            a message on a pipe
    lowered.py         a call of torch as calls of the contract
    host_calls.py      calls in gloo's order
    device_calls.py    calls in NCCL's order
    monitored.py       monitored_barrier
    store_calls.py     messages of stores
    ports.py           the store of the launcher
    endings.py         how a process ends
    nursery.py         the warm parent, as dpsim sees it

    child/             the warm parent and its children: all code that imports torch

dpsim's side imports no torch: it starts the parent by its name.
"""
