"""Functions for tests of protocols and of backends.

`holds` checks that a scenario holds in every schedule that it explores (`dpsim.campaign.properties`). `same_on` checks
that a real backend does the same as the simulation (`dpsim.testing.elsewhere`). `check_backend` checks that a backend
follows the contract of `dpsim.contract.interface`. It tests sim, gloo, nccl and backends of other packages:

    from dpsim.testing import CONFORMANCE, check_backend

    @pytest.mark.parametrize("case", CONFORMANCE)
    def test_mine(case):
        check_backend(MyBackend(), only=case)

`CONFORMANCE` names the cases of `check_backend`. Each case runs small programs on the backend and on the simulation. It
compares decisions, learned values, how ranks end, and the ops on each communicator and stream, in order. No case
compares times. A case that plants a fault also requires the right finding with the right culprit. Then the backend must
run another world.

An `AssertionError` names the backend, the case with its rule, the rank, and the expected and the actual value.

    suite.py         check_backend: runs the cases one after the other
    cases.py         the cases; the docstring of each is the rule that it checks
    fault_cases.py   the cases that plant a fault
    bench.py         runs a world on the backend and on the simulation, and compares the runs
    written_by.py    finds the source line of a call, and the calls that write a record
    programs.py      a program of six steps for the cases that plant a fault
    conformance/     a program that makes every call of the contract and predicts each result
    elsewhere.py     same_on
    torch_programs.py  torch_holds: `holds` for an unmodified program of torch.distributed

    strategies.py    Hypothesis strategies for scenarios of any protocol
    models.py        Hypothesis strategies for the parameters of a model

Other packages may add strategies under their own names, by entry points in the group `dpsim.strategies`
(`dpsim.vllm.params.strategies`).

The cases do not require that a backend reuses freed memory, because gloo never does, but only that no backend reuses it
too early. They also ignore what the contract does not define: the order of messages from two senders, and the memory
after a mismatched collective.
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
    """Imports a public name at its first use (PEP 562), so that worker processes which import `conformance` load
    little.
    """
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
    """Returns the same error. If an optional dependency is missing, it adds the command that installs it."""
    if error.name not in ("hypothesis", "pytest"):
        return error
    cure = "install it: pip install -e '.[test]' in a clone of dpsim"
    return ModuleNotFoundError(
        f"dpsim.testing needs {error.name}, which is not installed here; {cure}", name=error.name
    )


def strategy_of_a_package(name: str) -> Any:
    """Returns a public name from the modules in `dpsim.strategies`: the first module with this name provides it."""
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
