"""The first line of a trace: what ran, where, and how it ended; and the promise of what follows.

    {"format":"dpsim-trace","version":1,"digest":"9f2c...","records":21548,"backend":"sim","verdict":"held","class":null,
    ...}

Only `digest` (SHA-256 of the body) and `records` (its length) speak of the body; the rest may differ between two
backends that ran the same scenario to the same body. `scenario` is the whole scenario as plain data: a trace can be run
again without the file that it came from.

The digest stands at a fixed place, so that a writer can put it in when the body is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from dpsim.trace.form import FORMAT, VERSION
from dpsim.world import End

PREFIX = f'{{"format":"{FORMAT}","version":{VERSION},"digest":"'
"""What a trace of this version begins with; the digest follows."""

NO_DIGEST = "0" * 64

_VERDICTS = ("held", "violated")
_ENDS = get_args(End)


@dataclass(frozen=True)
class Header:
    """Tuples have one entry per rank. `klass`: of the primary finding, if any. Times: ns, as in `dpsim.world.Run`."""

    scenario: Mapping[str, Any]
    backend: str
    verdict: str
    klass: str | None
    ends: tuple[End, ...]
    observed: str
    waited_ns: tuple[int, ...]
    elapsed_ns: int
    versions: Mapping[str, str]
    records: int
    digest: str = NO_DIGEST

    def line(self) -> bytes:
        """The header as it is written, with its newline. Raises TypeError or ValueError for what is not plain data."""
        rest = {
            "records": self.records,
            "backend": self.backend,
            "verdict": self.verdict,
            "class": self.klass,
            "ends": self.ends,
            "observed": self.observed,
            "waited_ns": self.waited_ns,
            "elapsed_ns": self.elapsed_ns,
            "versions": dict(sorted(self.versions.items())),
            "scenario": self.scenario,
        }
        text = json.dumps(rest, separators=(",", ":"), allow_nan=False)
        return f'{PREFIX}{self.digest}",{text[1:]}\n'.encode()


def parse(line: bytes) -> Header:
    """The header of a first line. Raises ValueError that says what was expected."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is no JSON object ({error})") from None
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise ValueError(f'expected a header with "format":"{FORMAT}"')
    if row.get("version") != VERSION:
        raise ValueError(f"version {row.get('version')!r} of the format is unknown; this dpsim reads version {VERSION}")
    lacking, foreign = sorted(_FIELDS.keys() - row.keys()), sorted(row.keys() - _FIELDS.keys() - {"format", "version"})
    if lacking or foreign:
        said = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"has unknown {', '.join(foreign)}"] * bool(foreign)
        raise ValueError(f"the header {' and '.join(said)}; expected {', '.join(_FIELDS)}")
    for name, (expected, fits) in _FIELDS.items():
        if not fits(row[name]):
            raise ValueError(f"header: {name}: expected {expected}, got {json.dumps(row[name])[:100]}")
    if len(row["ends"]) != len(row["waited_ns"]):
        raise ValueError(
            f"header: {len(row['ends'])} ends, but {len(row['waited_ns'])} waited_ns; expected one each a rank"
        )
    return Header(
        scenario=row["scenario"],
        backend=row["backend"],
        verdict=row["verdict"],
        klass=row["class"],
        ends=tuple(row["ends"]),
        observed=row["observed"],
        waited_ns=tuple(row["waited_ns"]),
        elapsed_ns=row["elapsed_ns"],
        versions=row["versions"],
        records=row["records"],
        digest=row["digest"],
    )


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_FIELDS: dict[str, tuple[str, Any]] = {
    "digest": (
        "64 hexadecimal digits",
        lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
    ),
    "records": ("a number of lines", _count),
    "backend": ("a name", lambda value: isinstance(value, str)),
    "verdict": (" or ".join(_VERDICTS), lambda value: value in _VERDICTS),
    "class": ("the class of a finding, or null", lambda value: value is None or isinstance(value, str)),
    "ends": (
        f"for each rank one of {', '.join(_ENDS)}",
        lambda value: isinstance(value, list) and value != [] and all(end in _ENDS for end in value),
    ),
    "observed": ("text", lambda value: isinstance(value, str)),
    "waited_ns": (
        "for each rank a number of nanoseconds",
        lambda value: isinstance(value, list) and all(map(_count, value)),
    ),
    "elapsed_ns": ("a number of nanoseconds", _count),
    "versions": ("names and versions", _texts),
    "scenario": ("a scenario as an object", lambda value: isinstance(value, dict)),
}
