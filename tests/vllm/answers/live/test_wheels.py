"""Puts freshly drawn questions to the code of six released wheels, and compares its answers with dpsim's.

`absent` replaces the packages that vLLM imports but that these functions do not call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.vllm.torch.wheels import unpacked

pytest.importorskip("torch")

ASK = "from tests.vllm.answers.live.absent import absent; absent(); from dpsim.cli import main; main()"
EQUAL = {
    "0.14.0": {"balance", "config", "config_hash", "coordination", "slices", "waves"},
    "0.17.0": {"balance", "choices_004", "ladder", "sizes_004", "slices"},
    "0.24.0": {"balance", "coordination", "ladder", "need_mask", "slices", "waves"},
    "0.28.0": {"balance", "coordination", "need_mask", "slices", "waves"},
    "0.31.0": {"balance", "coordination", "need_mask", "slices", "waves"},
    "0.33.0": {"balance", "config", "config_hash", "coordination", "ladder", "slices_v2", "v2_sync", "waves"},
}
"""Some of the kinds of questions that `check-engine` must compare for each release."""


def asked(release: str, *words: str) -> tuple[int, dict[str, Any]]:
    path = os.pathsep.join([str(ROOT), str(unpacked(release))])
    command = [sys.executable, "-c", ASK, "check-engine", "--json", *words]
    env = {**os.environ, "PYTHONPATH": path, "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.nightly
@pytest.mark.parametrize("release", EQUAL)
def test_a_wheel_answers_as_its_model(release: str) -> None:
    code, told = asked(release, "--draws", "1000", "--seed", "31")
    rows = {one["kind"]: one["rows"] for one in told["compared"]}
    assert (code, told["verdict"], told["release"]) == (0, "equal", release), told["not_compared"]
    assert rows.keys() >= EQUAL[release]
    drawn = {"balance", "config", "coordination", "slices", "v2_sync", "waves"} & EQUAL[release]
    assert all(rows[kind] >= 400 for kind in drawn), rows


@pytest.mark.nightly
def test_the_model_of_another_release_differs(tmp_path: Path) -> None:
    code, told = asked("0.31.0", "--draws", "200", "--as", "0.33.0")
    differing = {one["kind"] for one in told["compared"] if one["differing"]}
    assert (code, differing >= {"coordination", "waves"}) == (1, True)
