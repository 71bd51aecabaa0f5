"""The command of the snapshot.

    python -m tests.snapshot --list
    python -m tests.snapshot compare [PART...]     # computes the rows again, and prints each difference
    python -m tests.snapshot make [PART...]        # computes the rows, and stores them

With `--write`, the command also writes the whole JSON objects: `make` to build/snapshot/made, and `compare` to
build/snapshot/compared. `compare` prints how the objects of a differing row differ, if both were written. `--before`
names another folder of objects, for example that of a checkout without the change:

    cd ../untouched && python -m tests.snapshot make --write jobs
    cd ../changed && python -m tests.snapshot compare --write jobs --before ../untouched/build/snapshot/made

Exit code 1: a row differs; 2: there is no such part.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.snapshot import jobs, stored
from tests.snapshot.comparing import of_objects, of_rows
from tests.snapshot.parts import PARTS, Part, computed
from tests.snapshot.row import keys, plain, row


def make(part: Part, write: bool) -> int:
    """Computes and stores the rows of a part. Returns 0, the number of differences."""
    rows, known = [], set[str]()
    for name, found in computed(part, part.names()):
        rows.append(row(name, found))
        known |= {*keys(plain(found.json))}
        if write:
            stored.keep_object(stored.MADE, part.name, name, found.json)
    stored.keep_rows(part.name, rows, known)
    print(f"{part.name}: {len(rows)} rows stored")
    return 0


def compare(part: Part, write: bool, before: Path = stored.MADE, words: bool = False) -> int:
    """Computes the rows of a part again, and prints each difference. Returns their number."""
    known, after = stored.keys_of(part.name), {}
    for name, found in computed(part, part.names()):
        after[name] = row(name, found, known)
        if write:
            stored.keep_object(stored.COMPARED, part.name, name, found.json)
    count, told = 0, set[str]()
    rows = {name: one for name, one in stored.rows_of(part.name).items() if not jobs.absent(name)}
    for name, difference in of_rows(rows, after, words):
        print(f"{part.name}/{name}  {difference}")
        count += 1
        if write and name not in told:
            told.add(name)
            _objects(part.name, name, before)
    print(f"{part.name}: {len(after)} rows, {count} differences")
    return count


def _objects(part: str, name: str, before: Path) -> None:
    """Prints how the objects of a row differ, if both were written."""
    old, new = stored.object_of(before, part, name), stored.object_of(stored.COMPARED, part, name)
    if old is not None and new is not None:
        for line in of_objects(old, new):
            print(f"    {line}")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.snapshot", description="Compares what dpsim finds.")
    parser.add_argument("what", nargs="?", choices=["make", "compare"], default="compare")
    parser.add_argument("parts", nargs="*", metavar="PART", help="the parts; all without any")
    parser.add_argument("--list", action="store_true", help="print the parts, and do nothing else")
    parser.add_argument("--write", action="store_true", help="write whole JSON objects to build/snapshot")
    parser.add_argument("--before", type=Path, default=stored.MADE, help="the folder of objects to compare with")
    parser.add_argument("--words", action="store_true", help="compare sentences, too")
    asked = parser.parse_intermixed_args(words)
    if asked.list:
        for part in PARTS.values():
            print(f"{part.name:18}{len(part.names()):4} rows  {part.about}")
        return 0
    if unknown := [name for name in asked.parts if name not in PARTS]:
        print(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    differences = 0
    for name in asked.parts or PARTS:
        begun = time.monotonic()
        if asked.what == "make":
            make(PARTS[name], asked.write)
        else:
            differences += compare(PARTS[name], asked.write, asked.before, asked.words)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
