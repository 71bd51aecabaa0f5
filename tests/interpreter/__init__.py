"""An interpreter of the contract that shares nothing with the machine, and random programs to compare the two on.

Who wrote it read `dpsim/contract/interface.py` and `dpsim/contract/world.py`, and neither the machine nor the checks
nor the explorer: a misreading of theirs is none of its. It is slow and has no cleverness: all states that the contract
allows, one by one.

    language.py     scripts: what each rank does, as plain data
    meeting.py      collectives: whose elements a member gets, and what comes of it
    state.py        where an execution stands
    moves.py        how every instruction ends
    device.py       what streams do
    graphs.py       captured graphs, and content that each replay needs anew
    host.py         what hosts do, instruction by instruction
    threads.py      the host threads of a rank, and the list that they share
    clock.py        sleeps, delays and time-outs
    sharing.py      what ranks have in a module, each for itself
    memory.py       races and unwritten reads
    interpreter.py  all executions of a script: their outcomes, and is there a race in any
    modules.py      state of a module, and kernels that touch it
    follower.py     what a script says, done on dpsim
    machine.py      the same script on dpsim, in all schedules
    steps.py        what one rank does by itself, drawn at random
    generator.py    random scripts from a seed
    rows.py         random scripts of which each kind is about one way to prove what does not hold
    shrink.py       the smallest script on which the two still differ
    comparison.py   where the two differ
    verdicts.py     the same of a verdict: findings, and what a proof assumes
    campaign.py     many scripts, and what was among them
    on_gloo.py      scripts that end on every machine, and a run of one on gloo
    reverted.py     repairs taken back, for the rows to notice
    faults.py       planted faults of the machine, for the comparison to notice
"""
