"""Every small world like a scenario, where a random search may miss one.

    worlds.py    the worlds with parameters up to given sizes, for a program that has `Params`
    values.py    the values of one parameter up to a size
    within.py    the faults, delays and messages that a smaller world keeps

A package whose parameters are sections of a scenario makes its own small worlds (`Parameters.all_up_to`).
"""
