"""Protections that no release of vLLM has: for each program, the forms that contain one and those that do not.

The form of a release does what the release does, even if it causes harm. A form with an additional protection has
another name, such as `0.33-repaired`. `dpsim list`, reports and documents print this table.

    >>> unprotected_of("pp_tokens")["0.33"][0]
    'without asynchronous scheduling a request with drafts runs before its token has arrived; 0.33-repaired waits'
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from dpsim.contract.program import Program


class Protection(NamedTuple):
    """`protects`: the forms with the protection `what`. `leaves`: those of releases and pages without, and the `harm`.

    `source`: a chapter, an issue or a pull request. `shows`: patterns of finding classes that reveal the harm.
    """

    program: str
    protects: tuple[str, ...]
    leaves: tuple[str, ...]
    what: str
    harm: str
    source: str
    shows: tuple[str, ...] = ()


EARLY = ("CRASH:WRONGLENGTH", "CRASH:WRONGTOKEN", "STALE", "UNDEFINED")
"""Findings of a request that runs before its token has arrived: it reads a token that is not there yet."""

WRONG_GRAPH = ("CRASH:EMPTYREPLAY", "CRASH:EAGERINGRAPH", "CRASH:WRONGTOKEN")
"""Findings of a replay of a graph that does not fit the batch."""

PROTECTIONS = (
    Protection(
        "dbo",
        ("0.33-repaired",),
        ("source-000", "0.14", "0.33", "v2-0.33"),
        "a microbatch that raises wakes its siblings, and they stop",
        "a microbatch that raises leaves its siblings waiting without end; 0.33-repaired wakes them",
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
        "with drafts, stages disagree on width and mask of sampled tokens; in source-002 and 0.33 they agree",
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
            "each process watches the others, and all end if one has died",
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
"""All protections."""


class Kept(NamedTuple):
    """Forms that contain a protection although their releases do not: `what`, and `why` it stays."""

    forms: str
    what: str
    why: str


KEPT = (
    Kept(
        "pp_tokens: page-002, 0.24",
        "stages free the slots of ended requests in sorted order, as 0.33; earlier releases iterate a set",
        "each token arrives by its row in the batch, so another order has no effect (mutant M-PP-18)",
    ),
    Kept(
        "pp_tokens: 0.14",
        "the handler of page 002 broadcasts tokens, with slot generations; releases up to 0.20 have no handler",
        "their broadcast ends within the step, so no token is in flight that a generation could protect (6.3)",
    ),
    Kept(
        "dbo: source-000, 0.14",
        "the all-to-all marks tensors that cross streams, as the engine does since 0.33 (4.4)",
        "earlier, the all-to-all library marks its own tensors; mutant M-BT-17 is a library that does not",
    ),
    Kept(
        "startup: pieces: {compared: fields}",
        "the front end compares fields that no release compares",
        "a scenario selects it by name; the default is `compared: hash`, as in all releases (8.4)",
    ),
)
"""All such cases, each with its reason."""


def protects_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """Returns, for each form of a program, the protections that no release has."""
    return _by_form([(one.protects, one.what) for one in PROTECTIONS if one.program == program and one.what])


def unprotected_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """Returns, for each form of a program, the harm that the release or page does not prevent."""
    return _by_form([(one.leaves, one.harm) for one in PROTECTIONS if one.program == program and one.harm])


def shows_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """Returns, for each harm of a program, the classes of findings that reveal it."""
    return {one.harm: one.shows for one in PROTECTIONS if one.program == program and one.harm}


P = TypeVar("P", bound=type[Program[Any]])


def says_unprotected(program: P) -> P:
    """Appends the harms that the program's forms do not prevent to its docstring."""
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
