"""From findings to words that somebody can act on.

report.py        the report of a run that did not hold, the most useful line first
timeouts.py      time-outs that passed
turning_text.py  steps of a schedule in words: the point of no return, and what to swap
injected.py      faults and delays that were asked for and never happened
"""
