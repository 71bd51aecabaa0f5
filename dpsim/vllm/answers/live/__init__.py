"""An installed vLLM answers: one function a kind of question, which gives a row the engine's answer.

    installed.py    the installed release; its modules, imported when a question needs them
    adapters.py     adapters by kind and release; ask
    stand_ins.py    the surroundings of the engine's functions: settings, process groups and their all-reduce
    groups.py       asks ranks of a group
    graphs.py       asks for capture sizes and graphs
    clients.py      asks front ends for engines
    batches.py      asks for masks, slices and metadata
    candidates.py   asks the V2 runner's graphs, and its agreement
    loops.py        asks an engine's loop
    coordinators.py asks the coordinator's loop
    configurations.py   asks which configurations are valid, and which have equal hashes

    draws.py        new questions, drawn at random, by the file that has such questions
    drawn_loops.py  drawn_groups_v2.py  drawn_configurations.py

A question imports vLLM only when the check asks it, and dpsim copies nothing of vLLM. An adapter knows where a function
lies and what it takes. It turns an assertion of the engine into the row of a refusal. Any other exception means
that the adapter no longer fits, and the check cannot ask the kind.
"""
