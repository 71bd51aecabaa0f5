"""A hung job, explained from what the recorder wrote of each rank.

A recording has more than a dump of torch's flight recorder. It has roots, reductions, transfers of gloo, steps and
decisions. It says how a program ended, and at which lines it stood. The judgement is that of dumps, with this evidence.

reading.py    a file of the recorder: its header, texts and records
job.py        the recordings of a folder as one job
living.py     which processes live
deciding.py   the first decision in which ranks differ
judging.py    outcome, class, culprit
"""
