"""The Python class that describes a key of a JSON object, and the keys of several objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class JsonField(NamedTuple):
    """A key with the type of its value and its meaning. The type ends with "or null" if there may be no value."""

    key: str
    value: str
    meaning: str


def below(key: str, fields: Iterable[JsonField]) -> tuple[JsonField, ...]:
    """Returns the fields of an object that is the value of `key`, with `key` as prefix.

    >>> below("a[]", [JsonField("b", "text", "")])[0].key
    'a[].b'
    """
    return tuple(field._replace(key=f"{key}.{field.key}") for field in fields)


DETAIL = JsonField("detail", "text or null", "how the mistake showed; many classes have no detail")
"""Stands beside each `class`. Class and detail, joined by a colon, are the full name, which patterns select."""

CULPRIT = (
    JsonField("rank", "number", "the rank to blame, the first one of several"),
    JsonField("step", "number", "its step"),
    JsonField("site", "text", "the site of its op"),
    JsonField("where", "text or null", "file and line of the call"),
    JsonField("within", "text or null", "the replay of a graph that made the op"),
    JsonField("of_peer", "true or false", "the culprit left the op out, and `where` is the line of a peer's op"),
    JsonField("ranks", "list of numbers", "all ranks that did the same"),
)

FINDINGS = (
    JsonField("check", "text", "the check that made the finding"),
    JsonField("class", "text", "its class"),
    DETAIL,
    JsonField("message", "text", "the finding in one line"),
    JsonField("culprit", "object or null", "the rank and the op to blame"),
    *below("culprit", CULPRIT),
    JsonField("details", "list of text", "further lines of the report"),
    JsonField("ground", "list of text", "the evidence against the culprit; often empty"),
    JsonField(
        "waits",
        "list of text",
        "the waits from a rank that hangs to the culprit, if they led to it; else empty, also in many hangs",
    ),
    JsonField(
        "chain", "list of pairs", "function and place of each call that led to the culprit's line, innermost first"
    ),
    JsonField("facts", "list of objects", "what the texts say, as values; a text that has no facts yet is left out"),
    JsonField("facts[].in", "text", "the text that it belongs to: message, details, ground, waits or why"),
    JsonField("facts[].fact", "text", "its name, a key of the table of sentences"),
    JsonField("facts[].*", "any", "a value: number, text, list, record or another fact"),
)

EVIDENCE = (
    JsonField("agreed", "number or null", "the last step before the findings in which every rank took part"),
    JsonField(
        "chain", "list of pairs", "function and place of each call that led to the culprit's line, innermost first"
    ),
    JsonField(
        "waits",
        "list of text",
        "the waits of the first finding that has some; if none has, a cycle of ranks or the message of another hang",
    ),
    JsonField("ground", "list of text", "`ground` of the first finding"),
    JsonField("no_return", "text or null", "the event after which no schedule of this world finishes"),
    JsonField("swap", "text or null", "the two events to swap so that the run finishes"),
    JsonField("one_more", "text or null", "the culprit in the same world with one rank more"),
    JsonField(
        "repairs",
        "list of text",
        "changes of one call with which the run holds; one is of the culprit, two are of both sides",
    ),
    JsonField("shared", "text or null", "that a rank acts differently alone, so ranks share state"),
    JsonField("variant", "text or null", "the variant: name, class and file"),
    JsonField("unprotected", "list of text", "what the form of the program leaves unprotected"),
    JsonField("next", "list of text", "commands to type"),
)
