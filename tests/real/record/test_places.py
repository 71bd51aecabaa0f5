"""Tests of the place of a recorded call."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from real.record.places import key_of, lines_of


def test_the_recorder_keeps_no_line_of_pythons_library() -> None:
    def call() -> list[tuple[str, str]]:
        frame = sys._getframe()
        key_of(frame)
        return lines_of(frame)

    with ThreadPoolExecutor(1) as pool:
        lines = pool.submit(call).result()
    assert [(function, line.rpartition(":")[0]) for function, line in lines] == [("call", str(Path(__file__)))]
