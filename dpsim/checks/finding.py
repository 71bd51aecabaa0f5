"""Finding: what a check reports. It has a class, a culprit and facts.

A fact is a name with values, and no sentence: a reader that needs a rank or a count asks the fact for it. Only
`dpsim.diagnose.words` turns facts into text, by one table of sentences, so a word changes in one place.

    >>> death = fact("died", rank=1, step=5)
    >>> death.name, death["rank"]
    ('died', 1)

A *part* of a finding is a fact, or a sentence of the package `blame`. No code reads a sentence back; it adds by `also`.

A user selects classes by patterns with shell wildcards:

    >>> matches("HANG:COLLECTIVE:MISSING_RANK", "HANG:*"), matches("HANG:COLLECTIVE:MISSING_RANK", "HANG")
    (True, True)

The table `dpsim.checks.classes` has a row for each class. With it, dpsim refuses a pattern that can select nothing.

    >>> pattern_problem("HANG:*"), pattern_problem("CRASH:ValueError")
    (None, None)
    >>> pattern_problem("HANGS")
    "no finding has a class that 'HANGS' selects; did you mean 'HANG'?"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from dpsim.checks.classes import CLASSES
from dpsim.contract.ops import MAIN, Record
from dpsim.contract.words import did_you_mean, ranks_text, step_words


@dataclass(frozen=True)
class Culprit:
    """The rank that a finding blames, and the op.

    `step` is the logical step, `site` the name of the op in the source, and `where` its file:line. `within` names the
    graph replay that contains the op (`dpsim.contract.rules.replay_frame`). `of_peer`: the rank left the op out, and
    `where` is the line at which a peer issued it. `service` is the name if the rank is a service. If several ranks did
    the same, `ranks` lists them and `rank` is the first; `every` is True if they are all ranks.
    """

    rank: int
    step: int
    site: str
    where: str
    thread: str = MAIN
    within: str = ""
    service: str = ""
    ranks: tuple[int, ...] = ()
    every: bool = False
    of_peer: bool = False

    @property
    def who(self) -> str:
        """Returns the blamed ranks in words.

        >>> Culprit(1, 0, "dp.agree", "").who, Culprit(0, 0, "dp.agree", "", ranks=(0, 2)).who
        ('rank 1', 'ranks 0, 2')
        """
        return "every rank" if self.every else ranks_text(self.ranks or [self.rank])

    @staticmethod
    def of(rank: int, record: Record, within: str = "") -> Culprit:
        """Returns the culprit for an op of a rank. `within` names its replay."""
        return Culprit(rank, record.step, record.site, record.where, record.thread, within)

    def __str__(self) -> str:
        return self._text("")

    def described(self) -> str:
        """Returns the culprit for a report: it adds that a line is that of a peer. `str(culprit)` has no such addition,
        because files and tests identify a failure by it.

        >>> Culprit(1, 5, "dp.agree", "step.py:104", of_peer=True).described()
        'rank 1, step 5, dp.agree at step.py:104 (where a peer calls it)'
        """
        return self._text(" (where a peer calls it)" if self.of_peer else "")

    def _text(self, of_line: str) -> str:
        thread = "" if self.thread == MAIN else f" thread {self.thread},"
        where = f" at {self.where}{of_line}" if self.where else ""
        within = f", in {self.within}" if self.within else ""
        return step_words(f"{self.service or self.who},{thread} step {self.step}, {self.site}{where}{within}")


@dataclass(frozen=True)
class Fact:
    """A name with values. A value is a number, a text of the program, a record, another fact, or a tuple of these."""

    name: str
    values: tuple[tuple[str, Any], ...]

    def __getitem__(self, name: str) -> Any:
        """Returns a value. Raises KeyError if the fact has none of this name."""
        return dict(self.values)[name]

    def having(self, **values: Any) -> Fact:
        """Returns the fact with other values for some names."""
        return Fact(self.name, tuple((dict(self.values) | values).items()))


Part = Fact | str
"""A fact, or a sentence of a check that has no facts yet."""


def fact(name: str, /, **values: Any) -> Fact:
    """Returns a fact. `dpsim.diagnose.words` has the sentence of each name, with the same values."""
    return Fact(name, tuple(values.items()))


def left_out(ranks: Sequence[int], call: str, step: int) -> Fact:
    """Returns that ranks left out a call: its site, or "SITE (OP on COMMUNICATOR)"."""
    return fact("left_out", ranks=tuple(ranks), call=call, step=step)


def left_out_by(part: Part) -> tuple[int, ...]:
    """Returns the ranks that left out a call, as the part says; empty if it says so of none."""
    return next((one["ranks"] for one in facts_in(part) if one.name == "left_out"), ())


def indented(part: Part) -> Fact:
    """Returns a part that continues the one before it."""
    return fact("indented", part=part)


def without_indent(part: Part) -> Part:
    """Returns the part that `indented` got."""
    return without_indent(part["part"]) if isinstance(part, Fact) and part.name == "indented" else part


def fact_name(part: Part) -> str:
    """Returns the name of a fact; empty for a sentence."""
    return part.name if isinstance(part, Fact) else ""


def also(*parts: Part) -> Part:
    """Returns a part that says all of these. An empty part says nothing.

    >>> also("rank 0 waits", "", "rank 1 left")
    'rank 0 waits; rank 1 left'
    """
    said = tuple(one for part in parts for one in each(part))
    texts = [part for part in said if isinstance(part, str)]
    return "; ".join(texts) if len(texts) == len(said) else said[0] if len(said) == 1 else fact("also", parts=said)


def each(part: Part) -> tuple[Part, ...]:
    """Returns the parts that `also` joined; for another part, the part itself."""
    return part["parts"] if isinstance(part, Fact) and part.name == "also" else (part,) if part else ()


def not_reached(part: Part) -> Part:
    """Returns the part, which says that ranks did not reach a call where it said that they left it out."""
    return replace(part, name="did_not_reach") if isinstance(part, Fact) and part.name == "left_out" else part


def facts_in(part: Part) -> Iterator[Fact]:
    """Yields the fact and all facts among its values."""
    if isinstance(part, Fact):
        yield part
        for _, value in part.values:
            for inner in value if isinstance(value, tuple) else (value,):
                yield from facts_in(inner) if isinstance(inner, Fact) else ()


@dataclass(frozen=True)
class Finding:
    """A violation that a check found.

    `position` is (step, index of the op in its journal). Findings are sorted by it, so that the first is the cause: the
    primary finding. `message` says what happened, and `details` say more for the report. `ground` is the evidence
    against the culprit ("step tags differ in 7 of 7 later pairs"). `waits` is the chain of waits from the blocked rank
    to the culprit. `ops` are the ops in no order, each as its rank and its index in the journal. `why` is the rule that
    decides if there is no `ground`, such as the number of ranks on each side. If no rank is blamed, `why` is the
    reason, for example that a majority proves nothing.
    """

    check: str
    klass: str
    message: Part
    culprit: Culprit | None
    position: tuple[int, int]
    details: tuple[Part, ...] = ()
    ground: tuple[Part, ...] = ()
    waits: tuple[Part, ...] = ()
    ops: tuple[tuple[int, int], ...] = ()
    why: Part = ""

    @property
    def grounds(self) -> tuple[Part, ...]:
        """Returns the evidence against the culprit; without evidence, the rule that decided."""
        return self.ground or ((self.why,) if self.culprit is not None and self.why else ())


def matches(klass: str, pattern: str) -> bool:
    """Returns whether a class equals the pattern, matches it as a shell wildcard, or lies below it."""
    return klass.startswith(f"{pattern}:") or (fnmatchcase(klass, pattern) if wild(pattern) else klass == pattern)


def wild(pattern: str) -> bool:
    """Returns whether a pattern contains shell wildcards."""
    return "*" in pattern or "?" in pattern or "[" in pattern


def can_match(known: str, pattern: str) -> bool:
    """Returns whether the pattern selects the class. For a class with angle brackets, one possible word suffices."""
    fixed, angle, _ = known.partition("<")
    if not angle:
        return matches(known, pattern)
    if not wild(pattern):
        return pattern.startswith(fixed) or fixed == f"{pattern}:"
    begins = any(fnmatchcase(fixed, pattern[:end]) for end in range(len(pattern) + 1))
    return begins or fixed == f"{pattern}:"


def covers(known: str, pattern: str) -> bool:
    """Returns whether the pattern selects the class. For a class with angle brackets, it must select all possible
    words.

        >>> covers("CRASH:<EXCEPTION>", "CRASH:*"), covers("CRASH:<EXCEPTION>", "CRASH:V*")
        (True, False)
    """
    fixed, angle, _ = known.partition("<")
    if not angle:
        return matches(known, pattern)
    return (pattern.endswith("*") and fnmatchcase(fixed, pattern)) or fixed.startswith(f"{pattern}:")


def pattern_problem(pattern: str) -> str | None:
    """Returns an error message for a pattern that can select no finding, with the nearest class. None for a good
    pattern.
    """
    if pattern in CLASSES or any(can_match(known, pattern) for known in CLASSES):
        return None
    parts = [known.partition(":<")[0].split(":") for known in CLASSES]
    levels = dict.fromkeys(":".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1))
    hint = did_you_mean(pattern.removesuffix(":*"), levels) or f"; there are {', '.join(CLASSES)}"
    return f"no finding has a class that {pattern!r} selects{hint}"
