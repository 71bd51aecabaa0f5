"""For the tests of this repository: reproducible Hypothesis, and the folder of real traces.

Hypothesis profiles: `ci` (default) draws the same examples in every run, so that a red build is red again; `nightly`
draws new ones, and many: HYPOTHESIS_PROFILE=nightly pytest. Neither has a deadline, since times are not what is tested.

The plugin of dpsim is not named here: it is loaded because dpsim is installed, as for everybody else.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", derandomize=False, deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def dpsim_data() -> Path:
    """The folder of real traces, from the environment variable DPSIM_DATA; skips the test if there is none."""
    data = os.environ.get("DPSIM_DATA")
    if not data:
        pytest.skip("needs the real traces: the environment variable DPSIM_DATA is not set to their folder")
    if not Path(data).is_dir():
        pytest.skip(f"needs the real traces: DPSIM_DATA is {data}, which is no folder")
    return Path(data)
