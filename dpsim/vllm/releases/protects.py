"""Places in which a form protects and no release does: the table that `dpsim list`, reports and documents show.

A form of a release does what the release does, harm included. A form that protects in such a place has another name,
such as `0.33-repaired`. Or a scenario names a program or a piece that protects. In a few places forms of releases
protect all the same: `KEPT` has them, each with the reason.

    >>> unprotected_of("pp_tokens")["0.33"][0]
    'without asynchronous scheduling a request with drafts runs before its token has arrived; 0.33-repaired waits'
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from dpsim.contract.program import Program


class Protection(NamedTuple):
    """One place. `protects`: the forms that protect; `leaves`: those of releases and pages that do not. `what`: the
    protection; `harm`: what the others leave unprotected; `source`: a chapter, an issue, a pull request. `shows`: the
    classes of findings that show the harm, as patterns.
    """

    program: str
    protects: tuple[str, ...]
    leaves: tuple[str, ...]
    what: str
    harm: str
    source: str
    shows: tuple[str, ...] = ()


EARLY = ("CRASH:WRONGLENGTH", "CRASH:WRONGTOKEN", "STALE", "UNDEFINED")
"""What a request shows that runs before its token has arrived: it reads what is not there yet."""

WRONG_GRAPH = ("CRASH:EMPTYREPLAY", "CRASH:EAGERINGRAPH", "CRASH:WRONGTOKEN")
"""What a replay shows that was chosen for other batches."""

PROTECTIONS = (
    Protection(
        "dbo",
        ("0.33-repaired",),
        ("source-000", "0.14", "0.33", "v2-0.33"),
        "a microbatch that raises lets its siblings go",
        "a microbatch that raises hangs its siblings; 0.33-repaired lets them go",
        "specification 4.7",
        ("HANG", "CRASH"),
    ),
    Protection(
        "pp_tokens",
        ("source-002", "page-002", "0.14", "0.33-repaired"),
        ("0.24", "0.33"),
        "a request with drafts waits for its token, also without asynchronous scheduling",
        "without asynchronous scheduling a request with drafts runs before its token has arrived; 0.33-repaired waits",
        "vllm issue 52071",
        EARLY,
    ),
    Protection(
        "pp_tokens",
        (),
        ("page-002", "0.24"),
        "",
        "with drafts, width and mask of sampled tokens differ between stages; source-002 and 0.33 have equal ones",
        "vllm pull requests 46994 and 54436",
        ("MISMATCH", "HANG", *EARLY),
    ),
    Protection(
        "dp_batch",
        (),
        ("v2-0.33",),
        "",
        "split steps replay FULL graphs over empty microbatches and for eager ranks; the variant v2-repaired does not",
        "vllm pull request 57020",
        WRONG_GRAPH,
    ),
    *[
        Protection(
            program,
            ("source",),
            ("current",),
            "a request with drafts waits for its token, also without asynchronous scheduling",
            "without asynchronous scheduling a request with drafts runs before its token has arrived; the piece "
            "`tokens: 0.33-repaired` waits",
            "vllm issue 52071",
            EARLY,
        )
        for program in ("whole_engine", "whole_engine_watched")
    ],
    *[
        Protection(
            program,
            forms,
            (),
            "each actor watches the others, and all end where one has died",
            "",
            "specification 9.3",
        )
        for program, forms in {
            "engine_watched": ("0.33", "0.31", "0.28", "0.24", "0.14"),
            "startup_watched": ("0.33", "0.14"),
            "whole_engine_watched": ("current", "source"),
        }.items()
    ],
)
"""All places, each of one program."""


class Kept(NamedTuple):
    """A place in which forms of releases protect although their releases do not. `why`: the reason to keep it."""

    forms: str
    what: str
    why: str


KEPT = (
    Kept(
        "pp_tokens: page-002, 0.24",
        "stages free the slots of ended requests in sorted order, as 0.33; earlier releases iterate a set",
        "tokens find their row by the batch, so another order harms nothing (M-PP-18)",
    ),
    Kept(
        "pp_tokens: 0.14",
        "tokens travel by the handler of page 002, with generations; releases up to 0.20 have no handler",
        "their broadcast ends within the step and leaves nothing in flight that a generation could protect (6.3)",
    ),
    Kept(
        "dbo: source-000, 0.14",
        "the all-to-all marks tensors that cross streams, as the engine does since 0.33 (4.4)",
        "before, the all-to-all library marks its own tensors; M-BT-17 is a library that does not",
    ),
    Kept(
        "startup: pieces: {compared: fields}",
        "the front end compares fields that no release compares",
        "a scenario asks for it by name; `compared: hash` is the default and what releases do (8.4)",
    ),
)
"""Each place with its reason."""


def protects_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """For each form of a program, the protections that no release has."""
    return _by_form([(one.protects, one.what) for one in PROTECTIONS if one.program == program and one.what])


def unprotected_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """For each form of a program, what the release or page leaves unprotected."""
    return _by_form([(one.leaves, one.harm) for one in PROTECTIONS if one.program == program and one.harm])


def shows_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """Of what forms of a program leave unprotected: the classes of findings in which it shows."""
    return {one.harm: one.shows for one in PROTECTIONS if one.program == program and one.harm}


P = TypeVar("P", bound=type[Program[Any]])


def says_unprotected(program: P) -> P:
    """Adds to the docstring of a program what its forms leave unprotected, from this table."""
    lines = [f"    {form}: {harm}" for form, harms in program.unprotected.items() for harm in harms]
    if lines:
        program.__doc__ = "\n".join([inspect.getdoc(program) or "", "", "Left unprotected, by form:", "", *lines])
    return program


def _by_form(rows: list[tuple[tuple[str, ...], str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for forms, sentence in rows:
        for form in forms:
            found[form] = (*found.get(form, ()), sentence)
    return found
