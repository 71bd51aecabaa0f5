"""dpsim: write the coordination protocol of an inference engine once; simulate it, explore it, run it on gloo and NCCL.

    import dpsim

    result = dpsim.run_scenario(dpsim.load_scenario(dpsim.scenario_path("quickstart")))
    result.verdict, result.met

    contract/          the interface for programs and backends, and the records that they write
    backend/           code that all backends share; the package `real` uses it too
    alone/             repeats one rank of a run in a separate process
    sim/               the simulated machine
    explore/           searches the schedules of a program
    checks/            finds violations in journals, the records of a run
    diagnose/          explains findings in words
    trace/             stores a run in a file, and compares two runs
    scenario/          scenario files: the program, the planted faults, the expected outcome
    runner.py          runs a scenario once, and judges the run
    campaign/          explores scenarios, also in several processes, and replays failures
    cli/               the command `dpsim`
    pytest_plugin.py   runs scenario files as tests
    testing/           functions for tests of protocols and of backends
    torch/             runs unmodified programs of torch.distributed
    recorded/          turns the recorded calls of a hung job into a program
    mark.py            marks steps and decisions in a program of torch.distributed
    version.py         the version of this distribution

    vllm/              the model of one engine, which dpsim finds by entry points, like a user's package

An import of dpsim imports no other module. Python imports a public name at its first use (PEP 562). A protocol, a
variant or a test needs only the names of `dpsim` and `dpsim.testing`, because other modules may move between releases.
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
    from dpsim.contract.ops import Domain, DType, RawRecord, ReduceOp, as_record
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
    "contract.ops": "DType Domain RawRecord ReduceOp as_record",
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
"""Maps a module of dpsim to the public names that it defines."""

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
    "as_record",
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
