"""Reads and writes the rows of a part, and the JSON objects behind them.

tests/snapshot/rows/jobs.jsonl     the rows of a part, sorted by name, a row in each line
tests/snapshot/rows/keys.json      for each part, the paths of the keys that its objects had
build/snapshot/made/jobs/7.json    an object, which `--write` keeps for a comparison
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.snapshot.row import Row

ROWS = ROOT / "tests" / "snapshot" / "rows"
MADE, COMPARED = (ROOT / "build" / "snapshot" / name for name in ("made", "compared"))


def rows_of(part: str, folder: Path = ROWS) -> dict[str, Row]:
    """Returns the stored rows of a part by name; none if there is no file."""
    file = folder / f"{part}.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {one["name"]: one for one in map(json.loads, lines)}


def keep_rows(part: str, rows: Iterable[Row], keys: Iterable[str], folder: Path = ROWS) -> None:
    """Writes the rows of a part, and the keys of its objects."""
    lines = [json.dumps(one, separators=(",", ":")) for one in sorted(rows, key=lambda one: one["name"])]
    (folder / f"{part}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    all_keys = {**_keys(folder), part: sorted(keys)}
    (folder / "keys.json").write_text(json.dumps(all_keys, indent=0, sort_keys=True) + "\n")


def keys_of(part: str, folder: Path = ROWS) -> frozenset[str]:
    """Returns the paths of the keys that the digests of a part cover."""
    return frozenset(_keys(folder).get(part, ()))


def _keys(folder: Path) -> dict[str, list[str]]:
    file = folder / "keys.json"
    found: dict[str, list[str]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def keep_object(folder: Path, part: str, name: str, found: Any) -> None:
    """Writes the JSON object of a row."""
    file = _file(folder, part, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1, sort_keys=True))


def object_of(folder: Path, part: str, name: str) -> Any:
    """Returns the JSON object of a row, or None if none was written."""
    file = _file(folder, part, name)
    return json.loads(file.read_text()) if file.exists() else None


def _file(folder: Path, part: str, name: str) -> Path:
    return folder / part / f"{name.replace('/', '.')}.json"
