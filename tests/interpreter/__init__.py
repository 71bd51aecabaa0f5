"""An interpreter of dpsim's contract that shares no code with the machine, and random programs to compare the two.

The contract defines what each call of a program may do. The interpreter's author read only the contract's two files,
`dpsim/contract/interface.py` and `dpsim/contract/world.py`, and not the machine, the checks or the explorer. So if
those three misread the contract, the interpreter does not repeat the mistake. The interpreter visits all states that
the contract allows, one by one. This is slow but simple.

    language.py     scripts: the instructions of each rank, as plain data
    meeting.py      collectives: the members whose elements a member gets, and the result
    state.py        the state of an execution
    moves.py        the end of every instruction
    device.py       the steps of streams
    graphs.py       captured graphs, and buffers that each replay must find newly written
    host.py         the steps of hosts, instruction by instruction
    threads.py      the host threads of a rank, and the list that they share
    clock.py        sleeps, delays and time-outs
    sharing.py      Python objects that ranks share through a module, or have in their own process
    memory.py       races and unwritten reads
    interpreter.py  all executions of a script: their outcomes and races
    modules.py      objects of a module, and kernels that read or write them
    follower.py     one rank that runs a script on dpsim
    machine.py      a script on dpsim, in all schedules
    steps.py        random instructions of one rank that involve no other rank
    generator.py    random scripts from a seed
    rows.py         random scripts in rows; each row tests one way to claim a false proof
    shrink.py       the smallest script that still shows a difference
    comparison.py   compares the outcomes of the interpreter and of dpsim
    verdicts.py     compares dpsim's verdict with the contract: findings, and assumptions of a proof
    campaign.py     compares many scripts and counts their features
    on_gloo.py      scripts that end on every machine, and a run of one on gloo
    reverted.py     repairs of dpsim that a test reverts; a row must notice each
    faults.py       planted faults of the machine; the comparison must notice each
    hosts/          a second interpreter, of hosts alone, which also knows aborts and stores
"""
