"""Template: fills a row of the tables of sentences with the values of a fact.

A row is a text with fields, as `str.format` has them. A field without a specification prints its value. A fact prints
its own sentence, and a record its call. A tuple prints its values, joined by commas.
`None` and `""` print nothing.

    {ranks:ranks}             ranks 0, 2
    {number:times}            once, twice, 3 times
    {count:count step}        3 steps; `count class|classes` gives another plural
    {sides:join ; }            the values of a tuple, joined by "; "
    {graphs:short 240}        at most 240 characters of the value, and the number of the others
    {where:if  at *}          " at " and the value, or nothing if the value is empty (0 is not)
    {alone:if it|they}        the first text if the value is true or not empty, else the second one
    {ranks:one it|they}       the first text for a single value of a tuple or for 1, else the second one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from dpsim.checks.finding import Fact, Part, each
from dpsim.contract.ops import Record
from dpsim.contract.words import counted, ranks_text, times
from dpsim.contract.words import short as shortened
from dpsim.diagnose.words.sentences import SENTENCES, SHORT


def text(part: Part, short: bool = False) -> str:
    """Returns the sentence of a fact, or a sentence as it is. `short`: that of a first screen, if the fact has it.

    >>> from dpsim.checks.finding import fact
    >>> text(fact("died", rank=1, step=5))
    'rank 1 died in step 5'
    """
    if isinstance(part, str):
        return part
    if short and part.name == "also":
        return "; ".join(text(one, short) for one in each(part))
    row = SHORT.get(part.name, SENTENCES[part.name]) if short else SENTENCES[part.name]
    return _FILLER.vformat(row, (), dict(part.values))


class _Filler(Formatter):
    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs[str(key)]

    def format_field(self, value: Any, format_spec: str) -> str:
        how, _, rest = format_spec.partition(" ")
        match how:
            case "ranks":
                return ranks_text(value)
            case "join":
                return rest.join(map(_plain, value))
            case "times":
                return times(value)
            case "count":
                return counted(value, *rest.split("|"))
            case "short":
                return shortened(_plain(value), int(rest))
            case "one":
                first, _, second = rest.partition("|")
                return first if (len(value) if isinstance(value, tuple) else value) == 1 else second
            case "if":
                first, _, second = rest.partition("|")
                return first.replace("*", _plain(value)) if value or type(value) is int else second
        return format(value, format_spec) if format_spec else _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Record):
        return value.describe()
    if isinstance(value, tuple):
        return ", ".join(map(_plain, value))
    return text(value) if isinstance(value, Fact) else str(value)


_FILLER = _Filler()
