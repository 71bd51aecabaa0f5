"""The tests. A folder has the name of what it tests; helpers of all are here.

    programs.py     a program that is one function, a world in a line, kernels
    properties.py   properties of drawn values, and the proof that they can fail
    records.py      records of a journal, written by hand
    answers.py      every answer to all that a run asks: brute force
    documents.py    documents are followed, word for word

    worlds/         small worlds, each healthy and with a bug, and all their schedules
    soundness/      what exploring must not call proven
    determinism/    the same again, in any process; 5 % of all simulated runs are made twice
    house/          the tree itself: what lies where, what is written twice, odd words
    plugin/         dpsim/pytest_plugin.py, in separate projects
    real/           the package real

A test of something that finds or holds has a *faulty twin*: the same with one mistake, which has to be found.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The root of the repository."""
