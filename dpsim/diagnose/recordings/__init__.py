"""Recordings: explains a hung torch job by the files that dpsim's recorder wrote, one for each process.

A recording has more than a dump of torch's flight recorder. It also contains roots, reductions, transfers of gloo,
steps and decisions. It shows whether the program ended, and at which lines it is blocked. The package `dumps` judges
the calls, and this package adds the other evidence.

reading.py    reads a file of the recorder: its header, texts and records
job.py        combines the recordings of a folder into one job
living.py     finds out which processes are still alive
deciding.py   finds the first decision in which ranks differ
failing.py    the cause if a rank died or raised, and the job has ended
judging.py    decides outcome, class and culprit
"""
