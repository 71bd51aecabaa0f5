"""From findings to words that a tired engineer can act on.

report.py        the report of a run that did not hold: its first screen, and all that is behind it
first_screen.py  at most ten lines: verdict, culprit, what followed, who waits, what to type
evidence.py      the facts that it is made of, for text and JSON alike
class_words.py   the class of a finding in words
first_wrong.py   the first value of another step, and who raised first
fitting.py       text that has to fit into a few lines
variants.py      the file of a variant
last_ops.py      what each rank did last, in columns
timeouts.py      time-outs that passed
turning_text.py  steps of a schedule in words: the point of no return, and what to swap
dumps/           a hung job of torch, from the dumps of its flight recorders
recordings/      the same, from what the recorder wrote of each rank
pictures/        a run or a job in time: who waits for whom, and which call is missing
injected.py      faults and delays that were asked for and never happened
"""
