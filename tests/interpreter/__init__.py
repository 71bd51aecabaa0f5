"""An interpreter of the contract that shares nothing with the machine, and random programs to compare the two on.

Who wrote it read `dpsim/contract/interface.py` and `dpsim/contract/world.py`, and neither the machine nor the checks
nor the explorer: a misreading of theirs is none of its. It is slow and has no cleverness: all states that the contract
allows, one by one.

    language.py     scripts: what each rank does, as plain data
    meeting.py      collectives: whose elements a member gets, and what comes of it
    state.py        where an execution stands
    device.py       what streams do
    host.py         what hosts do, instruction by instruction
    memory.py       races and unwritten reads
    interpreter.py  all executions of a script: their outcomes, and is there a race in any
    machine.py      the same script on dpsim, in all schedules
    steps.py        what one rank does by itself, drawn at random
    generator.py    random scripts from a seed
    shrink.py       the smallest script on which the two still differ
    comparison.py   where the two differ
    campaign.py     many scripts, and what was among them
    faults.py       planted faults of the machine, for the comparison to notice
"""
