"""Puts questions to dpsim's code under vLLM's signatures: loop, coordinator, configuration, V2 agreement.

Each test also questions a faulty twin with one mistake, and the drawn questions must find it. `test_wheels.py`
questions vLLM's own code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dpsim.vllm.config import CUDAGraphMode, ParallelConfig033
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2
from dpsim.vllm.engine.coordination import Coordination, Coordination031, Coordination033
from dpsim.vllm.engine.waves import EngineWaves, Release031, Release033
from dpsim_engine import check
from tests.vllm.answers.live import dressed
from tests.vllm.answers.stand_in import few
from tests.vllm.data_parallel.v2_groups import LargestMode


def module(monkeypatch: pytest.MonkeyPatch, name: str, members: Mapping[str, Any] | None = None) -> ModuleType:
    """Installs a module of this name with these members, for the duration of a test."""
    made = ModuleType(name)
    parts = name.split(".")
    for parent in (".".join(parts[:at]) for at in range(1, len(parts))):
        if parent not in sys.modules:
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    vars(made).update(members or {})
    monkeypatch.setitem(sys.modules, name, made)
    return made


def differs(place: Path, file: str, draws: int) -> dict[str, bool]:
    """Returns, for each kind of question that `check-engine` compared, whether some row differs."""
    return {one.kind: bool(one.differing) for one in live(place, file, draws).compared}


def live(place: Path, file: str, draws: int) -> check.Checked:
    return check.live(few(place / "few", 2, [file]), "0.33.0", draws=draws)


@pytest.mark.parametrize("kind", [Release033, Release031])
def test_an_engine_loop_answers_as_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[EngineWaves]
) -> None:
    """The engine loop of 0.33 answers as its model.

    The twin is the loop of 0.31, which wakes no peer when a request arrives.
    """
    dist = module(monkeypatch, "torch.distributed", {"all_reduce": None})
    module(monkeypatch, "vllm.v1.engine.core", dressed.core(dist, kind))
    module(monkeypatch, "vllm.config.parallel")
    assert differs(tmp_path, "waves", 200)["waves"] is (kind is Release031)


@pytest.mark.parametrize("kind", [Coordination033, Coordination031])
def test_a_coordinator_answers_as_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[Coordination]
) -> None:
    """The coordinator of 0.33 answers as its model. The twin of 0.31 wakes engines for a front end's first request."""
    module(monkeypatch, dressed.COORDINATOR, dressed.coordinator(kind))
    assert differs(tmp_path, "waves", 100)["coordination"] is (kind is Coordination031)


@pytest.mark.parametrize("every", [False, True])
def test_a_configuration_answers_as_its_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, every: bool) -> None:
    """The configuration of 0.33 answers as its model. The twin also hashes fields that belong to a single process."""
    module(monkeypatch, "vllm.config.parallel", dressed.parallel(ParallelConfig033, every))
    assert differs(tmp_path, "config", 150) == {"config": False, "config_hash": every}


@pytest.mark.parametrize("kind", [AgreementV2, LargestMode])
def test_an_agreement_answers_as_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[AgreementV2]
) -> None:
    """The V2 agreement answers as its model. The twin chooses the largest mode of the ranks instead of the smallest."""
    manager, agreement = dressed.v2(kind)
    module(monkeypatch, "vllm.config", {"CUDAGraphMode": CUDAGraphMode})
    module(monkeypatch, "vllm.v1.worker.gpu.cudagraph_utils", manager)
    module(monkeypatch, dressed.AGREEMENT, agreement)
    assert differs(tmp_path, "v2_sync", 100) == {"v2_dispatch": False, "v2_sync": kind is LargestMode}
