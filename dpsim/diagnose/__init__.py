"""Reports: findings in words that an engineer can act on.

report.py        the report of a run that did not hold: its first screen, and the rest
first_screen.py  at most ten lines: verdict, culprit, consequences, waits, commands to type
evidence.py      the facts of a report, for text and JSON alike
class_words.py   the class of a finding in words
class_cures.py   what a user does after a finding of a class
first_wrong.py   the first value of another step, and the ranks that raised first
fitting.py       text that has to fit into a few lines
variants.py      the file of a variant
last_ops.py      the last ops of each rank, in columns
timeouts.py      time-outs that passed
turning_text.py  steps of a schedule in words: the point of no return, and the events to swap
dumps/           a hung job of torch, from the dumps of its flight recorders
recordings/      the same, from the recordings of each rank
pictures/        a run or a job in time: the waits, and the missing call
injected.py      planted faults and delays that never happened
"""
