"""For tests. `holds` checks that a scenario holds in every schedule (`dpsim.campaign.properties`). `same_on` checks
that a real backend does the same with it (`dpsim.testing.elsewhere`). `check_backend` checks that a backend keeps the
contract of `dpsim.contract.interface`. It judges sim, gloo and nccl, and backends of other packages.

    from dpsim.testing import CONFORMANCE, check_backend

    @pytest.mark.parametrize("case", CONFORMANCE)
    def test_mine(case):
        check_backend(MyBackend(), only=case)

Each case runs small programs on the backend and on the simulation and compares them. Decisions, learned values and ends
must be equal, and so must the ops on every communicator and stream, in order. Where a case plants a fault, it also
requires the right finding with the right culprit, and a backend that runs the next world. An `AssertionError` names the
backend, the case with its rule, the rank, the expected and the actual value. Cases do not compare times.

    suite.py         check_backend: the cases, one after the other
    cases.py         the cases; the docstring of each is the rule that it holds a backend to
    fault_cases.py   those in which something is planted
    bench.py         runs a world on the backend and on the simulation, and compares
    written_by.py    which line made a call, and which calls write a record
    programs.py      six steps, made of parts that a case picks: where faults are planted
    conformance/     every call of the contract, with results that a formula predicts: where nothing is planted
    elsewhere.py     same_on
    torch_programs.py  torch_holds: `holds` for an unmodified program of torch.distributed

    strategies.py    scenarios, for Hypothesis: of any protocol
    models.py        the parameters that a model allows, for Hypothesis
    rank_fields.py   bounds of parameters that say how many ranks there are

Further strategies are here under their names. Entry points of the group `dpsim.strategies` name the modules that have
them, beside the parameters that they draw (`dpsim.vllm.params.strategies`).

Not covered: that freed memory is reused, which the backend gloo does not claim; only that it is not reused too early.
Nor the order of messages from two senders without gates, nor what a mismatched collective leaves in memory, which are
undefined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsim.campaign.properties import holds
    from dpsim.testing.elsewhere import same_on
    from dpsim.testing.fault_cases import CONFORMANCE
    from dpsim.testing.strategies import scenarios
    from dpsim.testing.suite import check_backend
    from dpsim.testing.torch_programs import torch_holds


def __getattr__(name: str) -> Any:
    """Names are looked up when they are first used (PEP 562): worker processes that import `conformance` need none."""
    from importlib import import_module

    homes = {
        "CONFORMANCE": "testing.fault_cases",
        "check_backend": "testing.suite",
        "holds": "campaign.properties",
        "same_on": "testing.elsewhere",
        "scenarios": "testing.strategies",
        "torch_holds": "testing.torch_programs",
    }
    if name.startswith("_"):
        raise AttributeError(f"module 'dpsim.testing' has no attribute {name!r}")
    if name not in homes:
        return strategy_of_a_package(name)
    try:
        value = globals()[name] = getattr(import_module(f"dpsim.{homes[name]}"), name)
    except ModuleNotFoundError as error:
        raise with_cure(error) from None
    return value


def with_cure(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error; of an extra that is not installed, with the command that installs it."""
    if error.name not in ("hypothesis", "pytest"):
        return error
    cure = "install it: pip install -e '.[test]' in a clone of dpsim"
    return ModuleNotFoundError(
        f"dpsim.testing needs {error.name}, which is not installed here; {cure}", name=error.name
    )


def strategy_of_a_package(name: str) -> Any:
    """A public name of the modules of strategies; the first module that has it."""
    from importlib.metadata import entry_points

    for point in entry_points(group="dpsim.strategies"):
        try:
            return getattr(point.load(), name)
        except ModuleNotFoundError as error:
            if with_cure(error) is not error:
                raise with_cure(error) from None
        except (ImportError, AttributeError):
            continue
    raise AttributeError(f"module 'dpsim.testing' has no attribute {name!r}")


__all__ = ["CONFORMANCE", "check_backend", "holds", "same_on", "scenarios", "torch_holds"]
