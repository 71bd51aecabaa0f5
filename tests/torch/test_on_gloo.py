"""Runs the plain programs of test_targets.py on the real gloo. Those that hang in the simulation also hang on gloo, and
the others end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.torch.runs import PROGRAMS
from tests.torch.test_targets import HOLD, WRONG

pytest.importorskip("torch")

ENDING = ("reductions", "bits", "pieces", "refused")
"""The programs of `typed.py` that end."""

ON_GLOO = [
    pytest.param(HOLD[:2], [*WRONG][:1], id="some", marks=pytest.mark.slow),
    pytest.param((*HOLD, *ENDING), [], id="all that end", marks=pytest.mark.nightly),
    *[
        pytest.param([], pair, id=" and ".join(pair), marks=pytest.mark.nightly)
        for pair in zip([*WRONG][::2], [*WRONG][1::2], strict=True)
    ],
]
"""The programs of a test that end, and those that hang. A hang costs GLOO_SECONDS."""


@pytest.mark.parametrize(("ends", "hangs"), ON_GLOO)
def test_a_program_hangs_or_ends_on_gloo_as_in_the_simulation(ends: list[str], hangs: list[str]) -> None:
    command = [sys.executable, str(PROGRAMS / "on_gloo.py"), "3", *ends, *hangs]
    environment = {**os.environ, "GLOO_SECONDS": "15"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert outcomes == {**dict.fromkeys(ends, "ended"), **dict.fromkeys(hangs, "hangs")}
