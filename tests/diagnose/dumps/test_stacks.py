"""Tests of reading where a program is, from the stacks of its threads."""

from __future__ import annotations

from dpsim.diagnose.dumps.entries import NOWHERE
from dpsim.diagnose.dumps.stacks import place_of_thread

FAULT_HANDLER = """Timeout (0:00:15)!
Thread 0x00007f3a00000700 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/opt/dpsim/real/record/watching.py", line 50 in _watch

Thread 0x00007f3a00000740 (most recent call first):
  File "/opt/torch/distributed/distributed_c10d.py", line 2900 in all_reduce
  File "/opt/dpsim/real/record/installing.py", line 99 in wait
  File "train.py", line 42 in step
  File "train.py", line 60 in <module>
"""

PY_SPY = """Process 4711: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2900)
    step (train.py:42)
    <module> (train.py:60)
Thread 4712 (idle): "Thread-1"
    wait (threading.py:327)
"""


def test_the_fault_handlers_main_thread() -> None:
    place = place_of_thread(FAULT_HANDLER, 0x7F3A00000740)
    assert place.chain == (("step", "train.py:42"), ("<module>", "train.py:60"))


def test_another_thread_is_not_it() -> None:
    assert place_of_thread(FAULT_HANDLER, 0x7F3A00000700).line.startswith("/usr/lib/python3.11/threading.py")


def test_a_stack_of_py_spy_gives_the_chain_of_lines() -> None:
    assert place_of_thread(PY_SPY, 0).chain == (("step", "train.py:42"), ("<module>", "train.py:60"))


def test_text_without_threads() -> None:
    assert place_of_thread("no thread here\n", 0) == NOWHERE
