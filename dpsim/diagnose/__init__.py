"""From findings to words that somebody can act on.

report.py      the report of a run that did not hold, the most useful line first
timeouts.py    time-outs that passed
injected.py    faults and delays that were asked for and never happened
"""
