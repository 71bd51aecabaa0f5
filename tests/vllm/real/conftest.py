"""The fixture for vLLM's programs on the backends of `real`. dpsim's pytest plugin closes the backends after the
session.
"""

from __future__ import annotations

from typing import cast

import pytest

from dpsim.runner import find_backend
from real.backend import TorchBackend


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> TorchBackend:
    """Returns the backend that the test's parameter names. Skips the test if this machine cannot run it."""
    backend = cast(TorchBackend, find_backend(request.param))
    reason = backend.unavailable(2)
    if reason is not None:
        pytest.skip(reason)
    return backend
