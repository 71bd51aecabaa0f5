"""The first line of a trace: what ran, on which backend, the verdict, and the digest of the lines behind it.

    {"format":"dpsim-trace","version":3,"digest":"9f2c...","records":21548,"backend":"sim","verdict":"held","class":null,
    ...}

`digest` is the SHA-256 of the body, the lines of records. It has a fixed place, so the writer inserts it after the
body. All other fields may differ between two backends that wrote the same body. `scenario` is the whole scenario as
plain data, so dpsim can run a trace again without the scenario file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from dpsim.contract.ops import KIND
from dpsim.contract.world import End, Run
from dpsim.trace.form import FORMAT, UNWRITTEN, VERSION
from dpsim.trace.strict_json import loads_once

PREFIX = f'{{"format":"{FORMAT}","version":{VERSION},"digest":"'
"""The beginning of each trace of this version; the digest follows it."""

NO_DIGEST = "0" * 64

_LACKS = {1: "which host thread did what", 2: "how long a get waits for a message"}

MOST_ACTORS = 1 << 16
"""The most ranks and services that a trace may have, more than any world has."""

VERDICTS = ("held", "violated", "lost")
_ENDS = get_args(End)


class Field(NamedTuple):
    """How the header writes and reads one field. `expected`: the values that a reader accepts, in words. `fits`:
    returns whether a value is one of them. `key`: the key in the line, if it differs from the name of the field.
    """

    expected: str
    fits: Callable[[Any], bool]
    key: str = ""


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_count, value))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _optional_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _verdict(value: Any) -> bool:
    return value in VERDICTS


def _ends(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST_ACTORS and all(end in _ENDS for end in value)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


@dataclass(frozen=True, kw_only=True)
class Header:
    """The fields of the header, in the order of the line. A tuple has one entry for each rank. Times are in ns."""

    digest: Annotated[str, Field("64 hexadecimal digits", _digest)] = NO_DIGEST
    records: Annotated[int, Field("a number of lines", _count)]
    backend: Annotated[str, Field("a name", _text)]
    verdict: Annotated[str, Field(" or ".join(VERDICTS), _verdict)]
    klass: Annotated[str | None, Field("the class of a finding, or null", _optional_text, "class")]
    ends: Annotated[tuple[End, ...], Field(f"for each rank one of {', '.join(_ENDS)}", _ends)]
    observed: Annotated[str, Field("text", _text)]
    waited_ns: Annotated[tuple[int, ...], Field("for each rank a number of nanoseconds", _counts)]
    elapsed_ns: Annotated[int, Field("a number of nanoseconds", _count)]
    versions: Annotated[Mapping[str, str], Field("names and versions", _texts)]
    scenario: Annotated[Mapping[str, Any], Field("a scenario as an object", _object)]

    @staticmethod
    def of(
        run: Run,
        *,
        scenario: Mapping[str, Any] | None = None,
        verdict: str = "held",
        klass: str | None = None,
        versions: Mapping[str, str] | None = None,
        digest: str = NO_DIGEST,
    ) -> Header:
        """Returns the header of a run. `versions` are added to the versions of the run."""
        return Header(
            digest=digest,
            records=sum(raw[KIND] != UNWRITTEN for journal in run.journals for raw in journal),
            backend=run.backend,
            verdict=verdict,
            klass=klass,
            ends=tuple(run.ends),
            observed=run.observed,
            waited_ns=tuple(run.waited_ns),
            elapsed_ns=run.elapsed_ns,
            versions={**(versions or {}), **run.versions},
            scenario=scenario or {},
        )

    def line(self) -> bytes:
        """Returns the line with its newline. Raises TypeError or ValueError for a value that is no plain data."""
        rest = {key: getattr(self, name) for key, (name, _) in _FIELDS.items() if name != "digest"}
        rest["versions"] = dict(sorted(self.versions.items()))
        text = json.dumps(rest, separators=(",", ":"), allow_nan=False)
        return f'{PREFIX}{self.digest}",{text[1:]}\n'.encode()


def _fields() -> dict[str, tuple[str, Field]]:
    forms = {name: hint.__metadata__[0] for name, hint in get_type_hints(Header, include_extras=True).items()}
    return {form.key or name: (name, form) for name, form in forms.items()}


_FIELDS = _fields()


def parse(line: bytes) -> Header:
    """Returns the header of a first line. Raises ValueError, which says what was expected."""
    try:
        row = loads_once(line)
    except ValueError as error:
        raise ValueError(f"the header is no JSON object that dpsim writes ({error})") from None
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise ValueError(f'expected a header with "format":"{FORMAT}"')
    if type(row.get("version")) is int and row["version"] in _LACKS:
        lacks = _LACKS[row["version"]]
        raise ValueError(
            f"a trace of format {row['version']}, which does not say {lacks}; this dpsim reads format {VERSION}. "
            "Record the run again: dpsim run SCENARIO --trace FILE (the header holds the scenario)"
        )
    if row.get("version") != VERSION:
        found = json.dumps(row.get("version"))[:100]
        raise ValueError(f"version {found} of the format is unknown; this dpsim reads version {VERSION}")
    lacking, foreign = sorted(_FIELDS.keys() - row.keys()), sorted(row.keys() - _FIELDS.keys() - {"format", "version"})
    if lacking or foreign:
        problems = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"has unknown {', '.join(foreign)}"] * bool(
            foreign
        )
        raise ValueError(f"the header {' and '.join(problems)}; expected {', '.join(_FIELDS)}")
    for key, (_, form) in _FIELDS.items():
        if not form.fits(row[key]):
            raise ValueError(f"header: {key}: expected {form.expected}, got {json.dumps(row[key])[:100]}")
    if len(row["ends"]) != len(row["waited_ns"]):
        raise ValueError(
            f"header: {len(row['ends'])} ends, but {len(row['waited_ns'])} waited_ns; expected one each a rank"
        )
    values: dict[str, Any] = {name: row[key] for key, (name, _) in _FIELDS.items()}
    return Header(**values | {"ends": tuple(row["ends"]), "waited_ns": tuple(row["waited_ns"])})
