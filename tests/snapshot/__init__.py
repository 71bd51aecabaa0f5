"""The snapshot: what dpsim says of many worlds and jobs, as rows of values, to compare a refactoring with.

    python -m tests.snapshot --list                # the parts, each with its rows
    python -m tests.snapshot compare               # exit code 1 if any row differs from the stored one
    python -m tests.snapshot compare jobs

A refactoring must not change what dpsim finds. The tests show this of chosen facts; the snapshot shows it of all facts
of a thousand outcomes. It has no opinion: an intended change is stored by `make`, and the diff of the rows shows it.

__main__.py   the command
parts.py      the parts, and the processes that compute their rows
row.py        makes a row of a JSON object: its values, and digests of the rest
files.py      the rows of scenario files: one run of each, and a short exploration of each
worlds.py     the rows of drawn worlds
jobs.py       the rows of dumps and recordings, which jobs.tar.xz keeps
collecting.py collects these jobs while tests make them
comparing.py  the differences of rows, and of whole JSON objects
stored.py     reads and writes rows and JSON objects
rows/         the stored rows, a file for each part, and the keys that the objects had
"""
