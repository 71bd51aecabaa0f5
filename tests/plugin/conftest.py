"""Fixtures for the tests of the pytest plugin: small scenarios, and projects that contain them."""

import importlib
import textwrap
from collections.abc import Callable

import pytest

from dpsim import runner
from dpsim.contract import registry
from tests import agreeing

# An inner pytest session, which runs in this process, removes at its end the modules that it imported. So modules that
# both sessions use are imported here first.
registry.protocols()
for module in ("dpsim.diagnose.report", "dpsim.sim.backend", "dpsim.campaign.properties", "real.backend"):
    importlib.import_module(module)

HEALTHY = agreeing.HEALTHY.replace("name: three", "name: healthy")
Write = Callable[..., None]
SKIP, EXPECTED = agreeing.SKIP, agreeing.EXPECTED


@pytest.fixture(autouse=True)
def _own_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives an inner pytest session its own backends, which it closes at its end."""
    monkeypatch.setattr(runner, "_backends", {})


@pytest.fixture
def scenario(pytester: pytest.Pytester) -> Callable[..., None]:
    """`scenario("scenarios/two.yaml", HEALTHY, SKIP)` writes a file with these parts."""

    def write(path: str, *parts: str) -> None:
        file = pytester.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(textwrap.dedent(part) for part in parts))

    return write


@pytest.fixture
def healthy() -> str:
    """Returns a scenario whose run has no finding."""
    return HEALTHY


@pytest.fixture
def broken() -> str:
    """Returns a scenario with a violation that it does not expect."""
    return HEALTHY + SKIP


@pytest.fixture
def planted() -> str:
    """Returns a scenario with a violation that it expects."""
    return HEALTHY + SKIP + EXPECTED
