"""Computes the digest that a trace had in format 1, whose records did not name their host thread.

    python -m tests.trace.format_1 OLD.jsonl NEW.jsonl [OLD NEW ...]

Each pair is a trace of format 1 and one of format 2, both of the same run. The script removes `thread` from all records
of the new trace, and compares the digest of the result with the digest of the old one. If a pair differs, the exit code
is 1, because the formats then differ in more than the threads.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from dpsim.contract.ops import MAIN


def digest_in_format_1(path: Path) -> str:
    """Returns the SHA-256 of the body of a trace of format 2 without threads. Raises ValueError for a thread other than
    main.
    """
    total = hashlib.sha256()
    with path.open("rb") as file:
        records = json.loads(file.readline())["records"]
        for _ in range(records):
            line = file.readline()
            record = json.loads(line)
            if _canonical(record) != line:
                raise ValueError(f"{path}: not in canonical form: {line!r}")
            if record.pop("thread") != MAIN:
                raise ValueError(f"{path}: format 1 knows only one thread: {line!r}")
            total.update(_canonical(record))
    return total.hexdigest()


def digest_in_header(path: Path) -> str:
    """Returns the digest of its body that a trace of any format contains."""
    with path.open("rb") as file:
        return str(json.loads(file.readline())["digest"])


def _canonical(record: object) -> bytes:
    return (json.dumps(record, separators=(",", ":"), sort_keys=True) + "\n").encode()


def main(paths: list[str]) -> int:
    pairs = list(zip(map(Path, paths[::2]), map(Path, paths[1::2]), strict=True))
    differ = [new for old, new in pairs if digest_in_header(old) != digest_in_format_1(new)]
    print(f"{len(pairs) - len(differ)} of {len(pairs)} equal", *(f"differs: {path}" for path in differ), sep="\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
