"""Enumerates every small world like a scenario, because a random search may miss a small one that fails.

    worlds.py    the worlds with parameters up to given sizes, for a program with `Params`
    values.py    the values of one parameter up to a size
    within.py    the faults, delays and messages that a smaller world keeps

A package that adds its own sections to scenarios enumerates small worlds itself (`Parameters.all_up_to`).
"""
