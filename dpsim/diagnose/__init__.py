"""Diagnose: turns findings into reports, pictures and advice that an engineer can act on.

A finding is what a check reports about a run: a class such as HANG:COLLECTIVE:MISSING_RANK, a message, and a culprit.

report.py        the report of a run with findings: its first screen, and the rest
first_screen.py  at most ten lines: verdict, culprit, consequences, waits, commands to type
evidence.py      the facts of a report, for both text and JSON
first_wrong.py   finds the first receive that got a value of another step
fitting.py       cuts and wraps text to lines of 120 columns
variants.py      names the source file of a planted bug (variant) for a report
last_ops.py      the last ops of each rank, in columns
timeouts.py      lists the waits that timed out
words/           turns the facts of findings into text: the only place that makes sentences of them
turning_text.py  describes the steps of a schedule in words
dumps/           explains a hung torch job by the dumps of its flight recorders
recordings/      explains a hung torch job by the files that dpsim's recorder wrote
pictures/        draws a run or a job on a time axis, with waits and missing calls
injected.py      reports planted faults and delays that never happened
"""
