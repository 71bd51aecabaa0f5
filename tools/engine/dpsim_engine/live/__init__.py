"""Puts questions to an installed vLLM: for each kind of question, one function adds vLLM's answer to a row.

    installed.py    finds the installed release, and imports its modules when a question needs them
    adapters.py     selects the function for a kind of question and a release
    stand_ins.py    replacements for the settings and process groups that vLLM's functions use
    groups.py       calls the agreement of the ranks of a group
    graphs.py       calls the functions for capture sizes and for the choice of a graph
    clients.py      calls the front end's choice of an engine
    batches.py      calls the functions for need masks, slices and metadata
    candidates.py   calls the V2 runner's choice of a graph, and its agreement
    loops.py        runs an engine's loop
    coordinators.py runs the coordinator's loop
    configurations.py   constructs configurations, and compares their hashes
    draws.py        draws random questions for each file of questions
    drawn_loops.py  drawn_groups_v2.py  drawn_configurations.py

dpsim imports vLLM only when a check puts a question to it, and contains no code of vLLM. An adapter calls vLLM's
function for one kind of question. It translates an assertion of vLLM to a row with a refusal. Any other exception means
that the adapter no longer fits the installed release, so the check cannot put this kind of question.
"""
