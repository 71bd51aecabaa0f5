"""dpsim: write the coordination protocol of an inference engine once; simulate it, explore it, run it on gloo and NCCL.

    import dpsim

    result = dpsim.run_scenario(dpsim.load_scenario(dpsim.scenario_path("quickstart")))
    result.verdict, result.met

    interface.py       the contract between a protocol and whatever runs it
    ops.py             what a journal is made of: records and addresses
    awaited.py         whom a member of a collective waits for, for the simulation and for the checks
    within.py          which replay of a graph a record belongs to
    world.py           what a backend is told, and the run that it gives back
    program.py         what a protocol is: prepared once, then run by every rank
    shared_state.py    what its ranks share where they share a process, which no run may change
    registry.py        protocols and variants by name
    config/            the engine's configuration, in vLLM's names, and the rules of its releases
    protocol/          the protocol, written once
    museum/            known mistakes of it, each beside its healthy twin

    backend/           what every backend shares; the package `real` is built on it too
    sim/               the simulated machine
    schedule.py        the seam between that machine and whoever picks a schedule
    explore/           which schedules there are, and which are worth a run
    campaign/          many runs: a world explored whole, over processes, replayed

    scenario/          what is run, what goes wrong, and what must come out
    runner.py          one run, judged
    checks/            what must hold, as folds over journals
    diagnose/          findings in words
    trace/             a run as a file, and two of them compared

    cli/               the command `dpsim`
    pytest_plugin.py   scenario files as tests
    testing/           for tests of protocols and of backends
    words.py           small pieces of text: what was meant, how many, how long

Importing dpsim imports nothing else: the public names are looked up when they are first used (PEP 562), so that `dpsim
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
