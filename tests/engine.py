"""Answers of the engine's own code: questions put to published releases on a CPU, and what they answered.

    for row in answers("ladder", "0.33.0"):
        assert sizes(row["config"]) == row["answer"]

They lie in tests/data/engine, whose README says what each file asks. The variable DPSIM_ENGINE_ANSWERS names another
folder with files of the same names, for answers of other releases or to other questions.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

from tests import ROOT

FOLDER = Path(os.environ.get("DPSIM_ENGINE_ANSWERS", ROOT / "tests" / "data" / "engine"))


def answers(file: str, version: str | None = None) -> list[dict[str, Any]]:
    """The rows of a file, in order; of one release, or of all."""
    with gzip.open(FOLDER / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return rows if version is None else [row for row in rows if row["version"] == version]
