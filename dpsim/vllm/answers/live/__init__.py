"""An installed vLLM, asked itself: one function a kind of question, which gives a row the engine's answer.

    installed.py    which release is installed; its modules, imported when they are asked
    adapters.py     who asks what, of which releases; ask
    stand_ins.py    what surrounds the engine's functions: settings, process groups and their all-reduce
    groups.py       asks ranks of a group
    graphs.py       asks for capture sizes and graphs
    clients.py      asks front ends for engines
    batches.py      asks for masks, slices and metadata
    candidates.py   asks the V2 runner's graphs, and its agreement
    loops.py        asks an engine's loop
    coordinators.py asks the coordinator's loop
    configurations.py   asks which configurations are accepted, and which have equal hashes

    draws.py        new questions, by the file whose questions they are like
    drawn_loops.py  drawn_groups_v2.py  drawn_configurations.py

Nothing of vLLM is imported before a question is asked, and nothing is copied from it. An adapter knows where a function
lies and what it takes. It turns an assertion of the engine into the row of a refusal. Whatever else is raised means
that the adapter no longer fits, and the kind could not be asked.
"""
