"""The names by which a scenario selects a release, and the lookup of a release's record by such a name.

    >>> named("dp_batch", "v2-0.33")[0].name, named("agreement", "v1-0.33")[0].name, named("engine", "0.24")[0].name
    ('0.33', '0.33', '0.24')

A *place* is a key of a scenario that names a release: the form of a program, or a piece of a stack. A name is the name
of a record, such as `0.33`. With the prefix `v2-` it selects the V2 model runner of the release. If a piece exists for
both runners, `v1-` selects the V1 runner.

Another package registers a release with one call. If the record contains all pieces of a place, this place then offers
the release, as the form of a program or as a piece. All three `whole_engine` programs accept it as a stack, too:

    V0_99 = V0_33._replace(name="0.99", agreement=MyAgreement)
    register_release(V0_99, __name__)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from dpsim.contract import registry
from dpsim.contract.program import Unsuitable
from dpsim.vllm.config.forms import add_rules
from dpsim.vllm.releases.page_000 import PAGE_000
from dpsim.vllm.releases.page_001 import PAGE_001
from dpsim.vllm.releases.page_002 import PAGE_002, PAGE_002_VERBATIM
from dpsim.vllm.releases.page_003 import PAGE_003
from dpsim.vllm.releases.page_004 import PAGE_004
from dpsim.vllm.releases.record import Absent, Release, RunnerV2, misfits
from dpsim.vllm.releases.repaired import REPAIRED
from dpsim.vllm.releases.v0_14 import V0_14
from dpsim.vllm.releases.v0_17 import V0_17
from dpsim.vllm.releases.v0_24 import V0_24
from dpsim.vllm.releases.v0_28 import V0_28
from dpsim.vllm.releases.v0_31 import V0_31
from dpsim.vllm.releases.v0_33 import V0_33

Runner: TypeAlias = Literal["v1", "v2"]

PAGES = (PAGE_000, PAGE_001, PAGE_002, PAGE_002_VERBATIM, PAGE_003, PAGE_004)
RELEASES = (V0_14, V0_17, V0_24, V0_28, V0_31, V0_33)

_records: dict[str, Release] = {one.name: one for one in (*PAGES, *RELEASES, REPAIRED)}


class Place(NamedTuple):
    """A key that names a release. `names`: of dpsim's records, the default first. `programs`: whose forms they are.

    `pieces`, `of_v2`: what a record, or its V2 runner, needs here. `before`: the prefix for its V1 runner.
    """

    names: tuple[str, ...]
    pieces: tuple[str, ...]
    of_v2: tuple[str, ...] = ()
    before: str = ""
    programs: tuple[str, ...] = ()


STEP = ("agreement", "flow", "dispatcher")
LOOP = ("lockstep", "config", "balance", "tokens", "transfer")
WHOLE = ("whole_engine", "whole_engine_dp", "whole_engine_watched")

PLACES: Mapping[str, Place] = {
    "dp_batch": Place(("source-000", "0.14", "0.33", "v2-0.33", "v2-0.17"), STEP, ("step",), programs=("dp_batch",)),
    "eplb": Place(("source-000", "0.33"), (*STEP, "async_balance"), programs=("eplb",)),
    "dbo": Place(
        ("source-000", "0.14", "0.33", "v2-0.33", "0.33-repaired"),
        (*STEP, "microbatches"),
        ("microbatches", "overlap_step"),
        programs=("dbo",),
    ),
    "pp_tokens": Place(
        ("source-002", "page-002", "0.14", "0.24", "0.33", "0.33-repaired"),
        ("tokens", "transfer", "scheduler"),
        programs=("pp_tokens",),
    ),
    "engine": Place(("0.33", "0.31", "0.28", "0.24", "0.14"), ("lockstep",), programs=("engine", "engine_watched")),
    "startup": Place(("0.33", "0.14"), ("startup",), programs=("startup", "startup_watched")),
    "stack": Place(("current", "source"), (*STEP, "microbatches", *LOOP), programs=WHOLE),
    "agreement": Place(
        ("source-000", "v1-0.14", "v1-0.33", "v2-0.33"), ("agreement", "flow"), ("agreement",), before="v1-"
    ),
    "graphs": Place(
        ("source-004", "v1-0.14", "v1-0.17", "v1-0.33", "v2-0.33"), ("dispatcher",), ("graphs",), before="v1-"
    ),
    "microbatches": Place(
        ("source-001", "v1-0.14", "v1-0.33", "v2-0.33", "v1-0.33-repaired"),
        ("microbatches",),
        ("microbatches",),
        before="v1-",
    ),
    "experts": Place(("source-000", "0.14", "0.33"), ("balance",)),
    "tokens": Place(("source-002", "page-002", "0.33", "0.33-repaired"), ("tokens", "scheduler")),
    "transfer": Place(("source-002", "0.14", "0.33"), ("transfer",)),
    "finish_sync": Place(("source-003", "0.24", "0.28", "0.31", "0.33"), ("lockstep",)),
    "config": Place(("source-003", "0.33"), ("config",)),
}
"""The names that each place accepts. `current` and `source` are stacks (`dpsim.vllm.programs.stacks`)."""

_more: dict[str, dict[str, str]] = {}  # by place, then by name of a registered release: the name of its record


def names(place: str, runner: Runner | None = None) -> tuple[str, ...]:
    """Returns the names that a place accepts, or only those of one runner."""
    every = (*PLACES[place].names, *_more.get(place, ()))
    return tuple(name for name in every if runner in (None, runner_of(name)))


def runner_of(name: str) -> Runner:
    return "v2" if name.startswith("v2-") else "v1"


def named(place: str, name: str) -> tuple[Release, Runner]:
    """Returns the record and the runner of a name in a place. Raises Unsuitable for an unknown name."""
    if name not in names(place):
        raise Unsuitable(f"protocol.form: {place} has no form {name!r}; expected one of {', '.join(names(place))}")
    return _records[name.removeprefix("v1-").removeprefix("v2-")], runner_of(name)


def name_of(place: str, release: Release, runner: Runner = "v1") -> str | None:
    """Returns the name of a record's runner in a place; None if the place does not offer it."""
    return next((name for name in names(place, runner) if named(place, name)[0] is release), None)


def of_name(name: str | None) -> Release | None:
    """Returns the record with this name, or None."""
    registry.protocols()  # entry points of other packages may register releases
    return None if name is None else _records.get(name)


def registered() -> tuple[Release, ...]:
    """Returns the releases of other packages."""
    registry.protocols()
    own = {*PAGES, *RELEASES, REPAIRED}
    return tuple(one for one in _records.values() if one not in own)


def register_release(release: Release, module: str) -> None:
    """Registers a release under its name, in each place whose pieces it has.

    `module` is the caller's `__name__`; worker processes import it, so that they register the release, too. Raises
    ValueError for a name that another record has, for an invalid name, and for a piece of a wrong class.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(release.name)) or release.name in ("current", "source"):
        raise ValueError(
            f"a release has the name {release.name!r}; expected letters, digits, '.', '_', '-', as in 0.99"
        )
    for wrong in misfits(release):
        raise ValueError(f"release {release.name}: {wrong}")
    if _records.get(release.name, release) != release:
        raise ValueError(f"a release {release.name!r} is registered already, with other pieces")
    if release.name.startswith(("v1-", "v2-")):
        raise ValueError(f"release {release.name!r}: expected a name without v1- or v2-, which select the runner")
    _records[release.name] = release
    if not isinstance(release.config, Absent):
        add_rules(release.name, release.config)
    for key, place in PLACES.items():
        more = dict.fromkeys(_offered(place, release), release.name)
        _more.setdefault(key, {}).update(more)
        for program in place.programs:
            for form in more:
                registry.add_form(program, form, module)


def _offered(place: Place, release: Release) -> Iterator[str]:
    if _has(release, place.pieces):
        yield f"{place.before}{release.name}"
    if place.of_v2 and not isinstance(release.v2, Absent) and _has(release.v2, place.of_v2):
        yield f"v2-{release.name}"


def _has(record: Release | RunnerV2, pieces: tuple[str, ...]) -> bool:
    return not any(isinstance(getattr(record, piece), Absent) for piece in pieces)


class Choices(Mapping[str, tuple[str, ...]]):
    """The names of each piece of a program. They include those of releases that other packages register later."""

    def __init__(self, **of_piece: Callable[[], tuple[str, ...]]) -> None:
        self.of_piece = of_piece

    def __getitem__(self, piece: str) -> tuple[str, ...]:
        return self.of_piece[piece]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.of_piece)

    def __len__(self) -> int:
        return len(self.of_piece)
