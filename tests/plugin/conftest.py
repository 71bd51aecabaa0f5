"""What all tests of the plugin share: small scenarios, and projects that hold them."""

import importlib
import textwrap
from collections.abc import Callable

import pytest

from dpsim import runner
from dpsim.contract import registry
from tests import agreeing

# A session in this process forgets at its end what it imported. What it must share with us is imported here, once.
registry.protocols()
for module in ("dpsim.diagnose.report", "dpsim.sim.backend", "dpsim.campaign.properties", "real.backend"):
    importlib.import_module(module)

HEALTHY = agreeing.HEALTHY.replace("name: three", "name: healthy")
Write = Callable[..., None]
SKIP, EXPECTED = agreeing.SKIP, agreeing.EXPECTED


@pytest.fixture(autouse=True)
def _own_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in this process closes its own backends at its end, not the warm ones of the session that tests it."""
    monkeypatch.setattr(runner, "_backends", {})


@pytest.fixture
def scenario(pytester: pytest.Pytester) -> Callable[..., None]:
    """`scenario("scenarios/two.yaml", HEALTHY, SKIP)` writes a file made of these parts."""

    def write(path: str, *parts: str) -> None:
        file = pytester.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(textwrap.dedent(part) for part in parts))

    return write


@pytest.fixture
def healthy() -> str:
    """A scenario that holds."""
    return HEALTHY


@pytest.fixture
def broken() -> str:
    """A scenario that does not hold, but says that it does."""
    return HEALTHY + SKIP


@pytest.fixture
def planted() -> str:
    """A scenario that does not hold, as it says."""
    return HEALTHY + SKIP + EXPECTED
