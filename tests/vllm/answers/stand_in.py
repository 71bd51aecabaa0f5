"""Installs a stand-in package `vllm`: its functions have vLLM's modules and signatures, and return stored answers.

    few(folder, 20)                      # a folder with some of the stored answers
    install(site, "0.33.0", folder)      # site/vllm and site/vllm-0.33.0.dist-info
    check_engine(site, "--answers", folder)

A question without a stored row raises KeyError. `modules.py` contains the sources of the package's modules.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsim_engine.stored import answers, files_in, folder
from tests import ROOT
from tests.vllm.answers.modules import DRESSED, METADATA, MODULES, ROWS, V2


def few(place: Path, most: int, files: Sequence[str] = ()) -> Path:
    """Copies the first `most` rows of each kind and release into a new folder, from the given files or from all."""
    place.mkdir()
    for file in files or files_in(folder()):
        seen: Counter[tuple[str, str | None]] = Counter()
        with gzip.open(place / f"{file}.jsonl.gz", "wt") as out:
            for row in answers(file):
                asked = row["version"], row.get("kind")
                seen[asked] += 1
                if seen[asked] <= most:
                    out.write(json.dumps(row) + "\n")
    return place


def install(site: Path, version: str, place: Path, *, like: str = "", wrong: bool = False, without: str = "") -> None:
    """Installs the package.

    `like`: the release whose answers it returns, if not `version`. `wrong`: the package inverts the need mask of the
    first batch. `without`: a function that the package lacks.
    """
    like = like or version
    info = site / f"vllm-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    sources = MODULES | DRESSED | (V2 if like.startswith("0.33") else {})
    if not like.startswith("0.14"):
        sources["vllm/v1/worker/ubatch_utils.py"] += METADATA
        del sources["vllm/v1/attention/backends/utils.py"]
    sources["vllm/_rows.py"] = f"FOLDER, VERSION, WRONG = {str(place)!r}, {like!r}, {wrong}\n" + ROWS
    for name, source in sources.items():
        file = site / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source.replace(f"def {without}(", f"def not_{without}(") if without else source)


def check_engine(site: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpsim.cli", "check-engine", *map(str, words)]
    path = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, cwd=site, capture_output=True, text=True, check=False
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
