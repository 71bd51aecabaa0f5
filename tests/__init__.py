"""The tests of dpsim. Each folder has the name of the package or topic that it tests. This folder has the shared
helpers.

    programs.py     a program that is one function, a world in one line, kernels
    properties.py   properties of drawn values, and proofs that they can fail
    every_value.py  draws values of a type, for tests of writers and readers
    records.py      records of a journal, written by hand
    answers.py      all answers to the questions of a run, for brute force
    night.py        the parts of `make nightly`, each within its bound
    documents.py    follows the commands and files of a document word for word
    blame/          whom the checks blame in drawn protocols of many kinds, each with one mistake
    worlds/         small programs, each healthy and with a bug, in all their schedules
    soundness/      programs that exploring must not call proven
    determinism/    the same run in any process; 5 % of all simulated runs are repeated
    house/          the source tree itself: its layout, its figures, repeated lines, odd words; the tests near a change
    plugin/         dpsim/pytest_plugin.py, in separate projects
    real/           the package real

A test that expects no finding has a *faulty twin*: the same test of a program or machine with one mistake, which it
must find.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The root of the repository."""
