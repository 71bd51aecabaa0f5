"""dpsim: write the coordination protocol of an inference engine once; simulate it, explore it, run it on gloo and NCCL.

    import dpsim

    result = dpsim.run_scenario(dpsim.load_scenario(dpsim.scenario_path("quickstart")))
    result.verdict, result.met

    contract/          what a program calls, what a backend runs: interface, ops, world, program, registry
    backend/           what every backend shares; the package `real` builds on it too
    alone/             one rank of a run again, in its own process
    sim/               the simulated machine
    explore/           the search over schedules
    checks/            what must hold, as folds over journals
    diagnose/          findings in words
    trace/             a run as a file, and the comparison of two
    scenario/          what is run, what goes wrong, and what must come out
    runner.py          one run, judged
    campaign/          many runs: a world explored whole, over processes, replayed
    cli/               the command `dpsim`
    pytest_plugin.py   scenario files as tests
    testing/           for tests of protocols and of backends
    torch/             unmodified programs of torch.distributed, each rank a process
    recorded/          the calls of a hung job as a program
    mark.py            marks in a program that runs anywhere: steps and decisions
    version.py         the version of this distribution

    vllm/              the model of one engine, found by entry points like the packages of a user

Importing dpsim imports nothing else: Python looks the public names up when a module first uses them (PEP 562). A
protocol, a variant or a test needs only the names of `dpsim` and of `dpsim.testing`; other modules may move. No module
of this package imports this front.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsim.contract.dtypes import numpy_dtype
    from dpsim.contract.interface import (
        Aborted,
        Buffer,
        CaptureError,
        DeviceCommunicator,
        Event,
        Flag,
        Frozen,
        Graph,
        HostArray,
        HostCommunicator,
        Mailbox,
        Rank,
        Store,
        Stream,
        Thread,
    )
    from dpsim.contract.ops import Domain, DType, RawRecord, ReduceOp
    from dpsim.contract.pieces import with_variant
    from dpsim.contract.program import Arguments, Program, Unsuitable
    from dpsim.contract.registry import register_protocol, register_variant, variant
    from dpsim.contract.words import BadInput
    from dpsim.contract.world import Backend, BackendUnavailable, CommunicatorSpec, Lost, Run, World
    from dpsim.runner import Result, run_scenario, warm_backends
    from dpsim.scenario import Scenario, ScenarioError, dump_scenario, load_scenario, scenario_from
    from dpsim.scenario.locate import scenario_path
    from dpsim.scenario.params.per_rank import PerRank
    from dpsim.trace import compare, digest, read_trace, write_trace

    __version__: str

_HOMES = {
    "contract.dtypes": "numpy_dtype",
    "contract.interface": (
        "Aborted Buffer CaptureError DeviceCommunicator Event Flag Frozen Graph HostArray HostCommunicator Mailbox "
        "Rank Store Stream Thread"
    ),
    "contract.ops": "DType Domain RawRecord ReduceOp",
    "contract.pieces": "with_variant",
    "contract.program": "Arguments Program Unsuitable",
    "contract.registry": "register_protocol register_variant variant",
    "contract.words": "BadInput",
    "contract.world": "Backend BackendUnavailable CommunicatorSpec Lost Run World",
    "runner": "Result run_scenario warm_backends",
    "scenario": "Scenario ScenarioError dump_scenario load_scenario scenario_from",
    "scenario.locate": "scenario_path",
    "scenario.params.per_rank": "PerRank",
    "trace": "compare digest read_trace write_trace",
}
"""Module of dpsim -> the public names that it has."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Aborted",
    "Arguments",
    "Backend",
    "BackendUnavailable",
    "BadInput",
    "Buffer",
    "CaptureError",
    "CommunicatorSpec",
    "DType",
    "DeviceCommunicator",
    "Domain",
    "Event",
    "Flag",
    "Frozen",
    "Graph",
    "HostArray",
    "HostCommunicator",
    "Lost",
    "Mailbox",
    "PerRank",
    "Program",
    "Rank",
    "RawRecord",
    "ReduceOp",
    "Result",
    "Run",
    "Scenario",
    "ScenarioError",
    "Store",
    "Stream",
    "Thread",
    "Unsuitable",
    "World",
    "__version__",
    "compare",
    "digest",
    "dump_scenario",
    "load_scenario",
    "numpy_dtype",
    "read_trace",
    "register_protocol",
    "register_variant",
    "run_scenario",
    "scenario_from",
    "scenario_path",
    "variant",
    "warm_backends",
    "with_variant",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("dpsim.version").version()
    elif name in _HOME_OF:
        value = getattr(import_module(f"dpsim.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'dpsim' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
