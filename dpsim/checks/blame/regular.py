"""Regular: whether the ops of one name in a step follow the pattern of the rank's other steps.

A *rule* is a pattern of two names that is the same in all other steps. A rank that left a call out, or made it twice,
breaks the rules between this call and nearly all other names of the step. The other names keep their rules among each
other:

    steps 1, 3, 4   layers  hidden.send  residual.send
    step 2          layers               residual.send      hidden.send breaks 2 of 2 rules, residual.send none

So a name is odd if it breaks more rules than it keeps. If the other steps make a name equally often, this number is a
rule, too. A step that the rank has not finished may continue, so its missing ops break no rule.

A rank may have no other step with this name. Then the steps of other ranks with this name count, unless an earlier step
of the rank shows that it does not make it. If it has only one, the steps of ranks that use the same names count as
well.

Steps may be of several kinds, with and without work. So a step that has one of two names and lacks the other breaks no
rule about the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dpsim.checks.blame.steps import Did, Name, RankStep, Steps

Pattern = tuple[bool, ...]
"""The order of two names in a step, one value for each op. True is an op of the first name."""

FEW = 2
"""The number of other steps that are needed to establish how often a step makes a name."""

LEAST = 3
"""The smallest number of rules that a sound step keeps."""

CLEAR = 4
"""The number of rules that a sound step keeps for each rule that it breaks. Steps of several kinds may break one."""


class Rules(NamedTuple):
    """The numbers of rules about a name that a step breaks and keeps.

    `steps` is the number of other steps from which the rules come. `usual` is how often each of them makes the name;
    None if that varies. `own` is whether they are steps of the rank itself.
    """

    broken: int
    kept: int
    steps: int
    usual: int | None
    own: bool = True

    @property
    def odd(self) -> bool:
        """Returns whether the step breaks more rules than it keeps. Rules that come from a single step are
        no evidence.
        """
        return self.broken > self.kept and self.steps > 1

    @property
    def sound(self) -> bool:
        return self.kept >= max(LEAST, CLEAR * self.broken)


def rules(steps: Steps, at: RankStep, name: Name, apart: frozenset[RankStep]) -> Rules:
    """Returns how the step `at` follows the rules about `name`. The steps in `apart` are no evidence."""
    rows, own = _samples(steps, at[0], name, apart)
    if not own and _of_another_role(steps, at, name, apart):
        return Rules(0, 1, 0, None, own)
    with_name = [row for row in rows if _has(row, name)]
    if not with_name:
        return Rules(0, 0, 0, None)
    here, done = steps.rows.get(at, []), steps.done(*at)
    others = {did.name for row in with_name for did in row if did.name[2] == name[2]} & steps.names[at[0]] - {name}
    fits = [fit for fit in (_keeps(here, rows, name, other, done) for other in sorted(others)) if fit is not None]
    numbers = {sum(did.name == name for did in row) for row in (with_name if _has(here, name) else rows)}
    usual = min(numbers) if len(numbers) == 1 and len(with_name) >= FEW else None
    if usual is not None:
        made = steps.made(at, name)
        fits += [made == usual] if done or made >= usual else []
    return Rules(fits.count(False), fits.count(True), len(with_name), usual, own)


def _of_another_role(steps: Steps, at: RankStep, name: Name, apart: frozenset[RankStep]) -> bool:
    """Returns whether a rank may have another role than the ranks with this name.

    So it is if the rank finished earlier steps, and none has the name. Without such a step, it is so if the rank never
    made an op of this kind.
    """
    rank, step = at
    earlier = [row for (_, when), row in steps.others(apart, rank) if when < step]
    if earlier:
        return not any(_has(row, name) for row in earlier)
    return all(name[0] != kind for kind, _, _ in steps.names[rank])


def _samples(steps: Steps, rank: int, name: Name, apart: frozenset[RankStep]) -> tuple[list[list[Did]], bool]:
    """Returns the steps from which rules come, and whether they are the rank's own.

    One own step with the name is too few. Then the steps of all ranks with the same names count, if there are more.
    """
    own = [row for _, row in steps.others(apart, rank)]
    number = sum(_has(row, name) for row in own)
    if not number:
        return [row for _, row in steps.others(apart) if _has(row, name)], False
    if number < FEW:
        alike = [row for (other, _), row in steps.others(apart) if steps.names[other] == steps.names[rank]]
        if sum(_has(row, name) for row in alike) >= FEW:
            return alike, False
    return own, True


def _keeps(here: list[Did], rows: list[list[Did]], name: Name, other: Name, done: bool) -> bool | None:
    """Returns whether a step keeps the rule about two names. None if there is no rule, or the unfinished step may still
    keep it.
    """
    mine = _pattern(here, name, other)
    units = {_unit(pattern) for pattern in (_pattern(row, name, other) for row in rows) if pattern}
    if all(mine) or len(units) != 1:  # without the other name the step is of another kind, or the other name is odd
        return None
    unit = min(units)
    if len(set(unit)) == 1:
        return None
    whole = unit * -(-len(mine) // len(unit))
    return None if not done and len(mine) < len(whole) and mine == whole[: len(mine)] else mine == whole


def _has(row: Iterable[Did], name: Name) -> bool:
    return any(did.name == name for did in row)


def _pattern(row: Iterable[Did], name: Name, other: Name) -> Pattern:
    return tuple([did.name == name for did in row if did.name in (name, other)])


def _unit(pattern: Sequence[bool]) -> Pattern:
    """Returns the shortest part that a pattern repeats.

    >>> _unit((True, False, True, False))
    (True, False)
    """
    whole = tuple(pattern)
    return next(whole[:size] for size in range(1, len(whole) + 1) if whole[:size] * (len(whole) // size) == whole)
