"""The backends of `real` for the programs of vLLM. The plugin of dpsim closes them at the end of the session."""

from __future__ import annotations

from typing import cast

import pytest

from dpsim.runner import find_backend
from real.backend import TorchBackend


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> TorchBackend:
    """The backend with which the test is parametrized."""
    backend = cast(TorchBackend, find_backend(request.param))
    reason = backend.unavailable(2)
    if reason is not None:
        pytest.skip(reason)
    return backend
