"""dpsim: write the coordination protocol of an inference engine once; simulate it, explore it, run it on gloo and NCCL.

    import dpsim

    result = dpsim.run_scenario(dpsim.load_scenario(dpsim.scenario_path("quickstart")))
    result.verdict, result.met

Importing dpsim imports nothing else: the names below are looked up when they are first used (PEP 562), so that `dpsim
--help` answers at once and a protocol can import `dpsim.interface` without the rest. The contract of a protocol is
`dpsim.interface`; protocols and variants are registered with `dpsim.registry`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsim.runner import Result, run_scenario, warm_backends
    from dpsim.scenario import Scenario, ScenarioError, load_scenario, scenario_from
    from dpsim.scenario.locate import scenario_path
    from dpsim.trace import compare, digest, read_trace, write_trace

    __version__: str

_HOMES = {
    "Result": "runner",
    "Scenario": "scenario",
    "ScenarioError": "scenario",
    "compare": "trace",
    "digest": "trace",
    "load_scenario": "scenario",
    "read_trace": "trace",
    "run_scenario": "runner",
    "scenario_from": "scenario",
    "scenario_path": "scenario.locate",
    "warm_backends": "runner",
    "write_trace": "trace",
}
"""Public name -> the module of dpsim that has it."""

__all__ = [
    "Result",
    "Scenario",
    "ScenarioError",
    "__version__",
    "compare",
    "digest",
    "load_scenario",
    "read_trace",
    "run_scenario",
    "scenario_from",
    "scenario_path",
    "warm_backends",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOMES:
        value = getattr(import_module(f"dpsim.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'dpsim' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """The version of the installed distribution; "unknown" where the source is used without an installation."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dpsim-ranks")
    except PackageNotFoundError:
        return "unknown"
