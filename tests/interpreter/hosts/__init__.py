"""An interpreter of hosts alone: host calls, aborts, threads, made groups, any source, stores, time-outs and deaths.

Like the interpreter of whole scripts (`tests.interpreter`), it was written from the contract's text alone and shares no
code with the machine. With aborts, the end of a call is a separate event: it comes before or after the peer leaves,
whether or not the host looks. The other interpreter has no such event, so this is a second one. It knows no devices.

    language.py     the instructions, and what the interpreter has to know of a script
    state.py        the state of an execution
    parts.py        parts of host calls: start, end, and what an abort does to them
    tables.py       stores
    steps.py        the steps of a host thread, instruction by instruction
    interpreter.py  all executions of a script
    generator.py    random scripts from a seed, which mix all features
    follower.py     one thread that runs a script on dpsim
    comparison.py   compares the outcomes of the interpreter and of dpsim
    campaign.py     compares many scripts and counts their features
    reverted.py     repairs of dpsim that a test reverts; the random scripts must notice each
"""
