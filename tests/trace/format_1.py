"""What the digest of a trace was in format 1, whose records did not name their host thread.

    python -m tests.trace.format_1 OLD.jsonl NEW.jsonl [OLD NEW ...]

Each pair is a trace of format 1 and one of format 2 of the same run. The script takes `thread` out of every record of
the new one, and compares the digest of what is left with the old one's. It ends with 1 if one of them differs: then
more has changed than that records name their thread.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from dpsim.contract.ops import MAIN


def digest_in_format_1(path: Path) -> str:
    """The SHA-256 of the body of a trace of format 2 without threads. ValueError for a thread that is not main."""
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
    """The digest that a trace of whatever format has of its body."""
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
