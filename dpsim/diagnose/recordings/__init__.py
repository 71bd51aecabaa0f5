"""The explanation of a hung job from the recordings of its ranks.

A recording has more than a dump of torch's flight recorder. It has roots, reductions, transfers of gloo, steps and
decisions. It has the end of a program, and the lines at which it stood. The judgement is that of dumps, with this
additional evidence.

reading.py    a file of the recorder: its header, texts and records
job.py        the recordings of a folder as one job
living.py     the processes that live
deciding.py   the first decision in which ranks differ
judging.py    outcome, class, culprit
"""
