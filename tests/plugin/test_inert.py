"""Tests that the plugin costs projects without scenarios almost nothing, and that it works with several workers."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests import ROOT

pytest_plugins = ["pytester"]

HEAVY = {"array_api_compat", "hypothesis", "numpy", "pydantic", "real", "rich", "simpy", "torch", "typer", "yaml"}


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, dpsim.pytest_plugin; print(*sorted(name for name in sys.modules if '.' not in name))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = result.stdout.split()
    assert "dpsim" in imported
    assert HEAVY.isdisjoint(imported)


@pytest.mark.slow
def test_a_project_without_scenarios_pays_nothing(pytester: pytest.Pytester) -> None:
    scenarios = pytester.mkdir("scenarios")
    (scenarios / "playbook.yaml").write_text("hosts: all\n")
    pytester.makepyfile(f"""
        import sys

        def test_it():
            assert "dpsim.pytest_plugin" in sys.modules
            assert not {HEAVY!r} & sys.modules.keys()
            assert {{name for name in sys.modules if name.startswith("dpsim.")}} == {{"dpsim.pytest_plugin"}}
    """)
    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_scenarios_run_on_several_workers_and_failures_are_reported(
    pytester: pytest.Pytester,
    scenario: Callable[..., None],
    healthy: str,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs scenarios on two workers of pytest-xdist. All gloo items run on one worker, and a failure on a worker prints
    the usual report. The simulation replaces gloo here, because it starts faster and the test is only about the
    workers.
    """
    pytester.makeconftest("""
        from dpsim.sim.backend import SimBackend
        from real.backend import GlooBackend
        import tests.agreeing

        GlooBackend.run = lambda self, *args: SimBackend().run(*args)
    """)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    scenario("scenarios/healthy.yaml", healthy)
    scenario("scenarios/second.yaml", healthy)
    scenario("scenarios/broken.yaml", broken)
    result = pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup", "-v", "-k", "sim or gloo and not broken")
    result.assert_outcomes(passed=4, failed=1)
    gloo = [line.split()[0] for line in result.outlines if "PASSED" in line and "::gloo" in line]
    assert len(gloo) == 2
    assert len(set(gloo)) == 1
    result.stdout.fnmatch_lines(
        [
            "VIOLATED  HANG:COLLECTIVE*",
            "*--- replay ---*",
            "dpsim run scenarios/broken.yaml --backend sim --module tests.agreeing",
            "*=== scenarios that are not as expected ===*",
            "HANG:COLLECTIVE *replay: dpsim run scenarios/broken.yaml --backend sim *tests.agreeing",
        ]
    )
