"""Words for messages: counts, ranks, durations, and suggestions for misspelt names.

    >>> f"{counted(3, 'step')} on {ranks_text([0, 1, 2, 3, 7])} in {duration(1_234_567)}"
    '3 steps on ranks 0 to 3, 7 in 1.23 ms'

All messages of dpsim use the functions of this module. So a count or a list of ranks reads the same in a finding, a
table and an error. `BadInput` is the error for input that dpsim cannot use. The module imports nothing of dpsim, so
every part may import it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence


class BadInput(ValueError):
    """dpsim cannot use an input of the user. The command line prints the text of this error and exits with code 2.

    The text quotes the input, which may come from a stranger. So it contains no control characters for a terminal.
    """

    def __str__(self) -> str:
        return "\n".join(map(printable, super().__str__().split("\n")))


# ---- names


def nearest(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Returns the known words whose spelling is near `word`, the nearest first. Case does not count, nor does - or _.

    A word is near if it has at most one wrong letter per four (at most three). It is also near if the longer word
    contains the shorter one, which has at least half its length. Two swapped letters are one wrong letter. A word of
    one or two letters is near only itself.

    >>> nearest("collectvie", ["transfer", "Collectives"]), nearest("deepep_low", ["deepep_v2", "deepep_low_latency"])
    (['Collectives'], ['deepep_low_latency'])
    """
    plain = _plain(word)
    found = []
    for name in sorted({*known}, reverse=True):
        wrong = _wrong_letters(plain, _plain(name))
        if wrong is not None:
            found.append((wrong, name))
    return [name for _, name in sorted(found, key=lambda one: one[0])[:most]]


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def _wrong_letters(a: str, b: str) -> int | None:
    shorter, longer = sorted((a, b), key=len)
    most, more = min((len(shorter) + 1) // 4, 3), len(longer) - len(shorter)
    if len(shorter) >= 3 and 2 * len(shorter) >= len(longer) and shorter in longer:
        return more
    if more > most:
        return None
    distance = _distance(a, b)
    return distance if distance <= most else None


def _distance(a: str, b: str) -> int:
    """Returns the number of letters to add, remove, change or swap with the next one (optimal string alignment).

    >>> _distance("dpro", "dpor"), _distance("kill", "skip")
    (1, 3)
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, one in enumerate(a):
        before, last, row = row, before, [i + 1]
        for j, other in enumerate(b):
            least = min(before[j + 1] + 1, row[j] + 1, before[j] + (one != other))
            if i and j and one == b[j - 1] and other == a[i - 1]:
                least = min(least, last[j - 1] + 1)
            row.append(least)
    return row[-1]


def question(meant: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name; empty if no name is near.

    >>> question(["a", "b"]), question([])
    ("; did you mean 'a' or 'b'?", '')
    """
    names = " or ".join(map(repr, meant))
    return f"; did you mean {names}?" if names else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown word, with the nearest known word, if there is one.

    >>> did_you_mean("FUL", ["NONE", "FULL"]), did_you_mean("x", ["NONE", "FULL"])
    ("; did you mean 'FULL'?", '')
    """
    return question(nearest(word, known))


@functools.cache
def by_number(name: str) -> tuple[tuple[int, str], ...]:
    """Returns a sort key that orders names by the numbers in them.

    >>> sorted(["M-DP-10", "M-DP-9"], key=by_number)
    ['M-DP-9', 'M-DP-10']
    """
    return tuple((int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name))


# ---- numbers


def counted(number: int, one: str, more: str = "") -> str:
    """Returns a number with its noun, in the singular for 1.

    >>> counted(1, "schedule"), counted(2000, "class", "classes")
    ('1 schedule', '2,000 classes')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def gigabytes(count: int) -> str:
    """Returns a number of bytes as text in GB.

    >>> gigabytes(72_000_000), gigabytes(4_190_400_000_000)
    ('0.072 GB', '4,190 GB')
    """
    size = count / 10**9
    return f"{size:,.0f} GB" if size >= 999 else f"{size:,.3g} GB"


def times(number: int) -> str:
    """Returns a number of repetitions as text.

    >>> [times(number) for number in range(4)]
    ['not at all', 'once', 'twice', '3 times']
    """
    return {0: "not at all", 1: "once", 2: "twice"}.get(number, f"{number} times")


def duration(ns: float) -> str:
    """Returns a duration in ns as text, with three digits and a unit.

    >>> duration(812), duration(1_234_567), duration(35_820_000_000), duration(754_000_000_000)
    ('812 ns', '1.23 ms', '35.8 s', '754 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size * 0.9995:
            value = ns / size
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{ns:.0f} ns"


# ---- ranks and values


def taken_text(outcome: object) -> str:
    """Returns what a get or poll took, as reports print it.

    >>> taken_text(("done", 0)), taken_text(None)
    ("('done', 0)", 'nothing')
    """
    return "nothing" if outcome is None else repr(outcome)


def ranks_text(ranks: Iterable[int]) -> str:
    """Returns a list of ranks as short text, with neighbours as ranges.

    >>> ranks_text([3]), ranks_text([1, 0]), ranks_text([*range(5), *range(6, 64)]), ranks_text([])
    ('rank 3', 'ranks 0, 1', 'ranks 0 to 4, 6 to 63', 'no rank')
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    if not parts:
        return "no rank"
    return f"rank{'' if len(runs) == 1 and len(runs[0]) == 1 else 's'} {', '.join(parts)}"


def with_services(text: str, size: int, services: Sequence[str]) -> str:
    """Returns the text with names in place of the numbers of services, which follow those of the `size` ranks.

    >>> with_services("ranks 0, 2 to 4 wait for rank 3", 3, ["frontend", "engine.0"])
    'ranks 0, 2, frontend, engine.0 wait for frontend'
    """
    return _RANKS.sub(lambda found: actors_text(_numbers(found[1]), size, services), text) if services else text


def actors_text(numbers: Iterable[int], size: int, services: Sequence[str]) -> str:
    """Returns a list of ranks and services as short text.

    >>> actors_text([0, 1, 2, 4], 3, ["frontend", "engine.0"]), actors_text([3], 3, ["frontend"])
    ('ranks 0 to 2, engine.0', 'frontend')
    """
    numbers = sorted(numbers)
    ranks = [number for number in numbers if number < size]
    names = [services[number - size] for number in numbers if size <= number < size + len(services)]
    return ", ".join([*[ranks_text(ranks)] * bool(ranks or not names), *names])


def step_words(text: str) -> str:
    """Returns the text with words in place of special step numbers: before the first step, or in no step.

    Other negative numbers stand for steps of a warm-up, and are before the first step as well. The large number is
    `dpsim.contract.interface.NO_STEP`.

    >>> step_words("raised in step -1; rank 2, step 1000000, drain")
    'raised before its first step; rank 2, in no step, drain'
    """
    return _STEPS.sub(lambda found: "before its first step" if found[1].startswith("-") else "in no step", text)


_STEPS = re.compile(r"\b(?:in |of )?step (-\d+|1000000)\b")

_RANKS = re.compile(r"\branks? (\d+(?: to \d+)?(?:, \d+(?: to \d+)?)*)")


def _numbers(text: str) -> list[int]:
    runs = [part.split(" to ") for part in text.split(", ")]
    return [number for run in runs for number in range(int(run[0]), int(run[-1]) + 1)]


def short(value: object, limit: int = 120) -> str:
    """Returns a value as text for one line. A long value keeps its beginning, followed by the number of cut characters.

    >>> short("abcdefghijklmnopqrstuvwxyz", 12)
    'abcdefghijkl ... and 14 more characters'
    """
    text = str(value)
    left = len(text) - limit
    return text if left <= 0 else f"{text[:limit]} ... and {counted(left, 'more character')}"


def middle_cut(value: object, limit: int = 120) -> str:
    """A path or a call for one line. A long one is cut in the middle, because its end is the name of a file or a line.

    >>> middle_cut("abcdefghijklmnopqrstuvwxyz", 12)
    'abcdef ... wxyz'
    """
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-limit // 3 :]}"


def printable(text: str) -> str:
    """Returns text from an untrusted source for one line. Control characters, line breaks included, become Python
    escapes.

    >>> printable("größe\\x1b[31m\\n")
    'größe\\\\x1b[31m\\\\n'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
