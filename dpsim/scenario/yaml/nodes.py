"""Parses YAML text into a tree of nodes that know their line, strictly and with limits.

PyYAML's parser yields events, and this module builds the tree from them. It uses no recursion, and it limits nesting,
aliases and expanded nodes before it creates a node. So no file can crash the process. It never creates an object from a
tag. Some YAML has no meaning in a scenario: duplicate keys, tags, merge keys, several documents, tabs and control
characters.

A node for a scalar has a value (`data`) and its source text (`text`), because YAML 1.1 reads some plain words as other
types. A number that is not decimal (010, 0x1f, 1:30, .inf, dates) stays text. If a field requires text, the reader uses
the source text (`form: 0.14`).

    >>> root, problems = read_nodes("name: two\\nrank: 1")
    >>> root.data(), root.entries["rank"].value.line, problems
    ({'name': 'two', 'rank': 1}, 2, [])
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import Reader
from yaml.resolver import Resolver

from dpsim.scenario.errors import shown

MAX_DEPTH = 50
MAX_ALIASES = 1_000
MAX_NODES = 100_000  # each may be wrong, and an error of pydantic takes 1.5 kB
TEXT = 64  # this number of characters counts as one value, because an alias repeats a long text like a long list
TOO_MANY = f"more than {MAX_NODES} values, aliases expanded ({TEXT} characters of a text count as one); expected fewer"

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,299})")
_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|[-+]?\.[0-9]+([eE][-+][0-9]+)?")
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + kind for kind in ("null", "bool", "int", "float", "str", "timestamp", "value", "merge")}


class Misread(NamedTuple):
    """A problem in the text. Line and column count from 1."""

    line: int
    column: int
    message: str


class NotYaml(Exception):
    """The parser cannot continue. `problem` is the cause."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(line, column, message)
        self.problem = Misread(line, column, message)


@dataclass(slots=True)
class Scalar:
    line: int
    column: int
    text: str
    plain: bool
    value: Any
    size: int = 1
    height: int = 0

    def data(self) -> Any:
        return self.value


@dataclass(slots=True)
class Sequence:
    line: int
    column: int
    items: list[Node] = field(default_factory=list)
    size: int = 1
    height: int = 1

    def data(self) -> Any:
        return [item.data() for item in self.items]


class KeyNode(NamedTuple):
    key: Node
    value: Node


@dataclass(slots=True)
class Mapping:
    line: int
    column: int
    entries: dict[str, KeyNode] = field(default_factory=dict)
    size: int = 1
    height: int = 1
    pending: Node | None = None  # a key that waits for its value

    def data(self) -> Any:
        return {key: entry.value.data() for key, entry in self.entries.items()}


Node: TypeAlias = Scalar | Sequence | Mapping


def read_nodes(text: str) -> tuple[Node | None, list[Misread]]:
    """Returns the tree of the document in `text`, or None if it is empty, and a list of problems. Raises NotYaml."""
    bad = Reader.NON_PRINTABLE.search(text)
    if bad:
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        raise NotYaml(line, column, f"the character {bad.group()!r} may not occur in YAML; expected printable text")
    composer = _Composer()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        raise NotYaml(*_syntax_problem(error, text)) from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())[:200]
        raise NotYaml(1, 1, f"not YAML: {reason}; expected `key: value` lines") from None
    return composer.root, composer.problems


class _Composer:
    """Builds nodes from events, with its own stack instead of recursion."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.problems: list[Misread] = []
        self.documents = self.aliases = self.nodes = 0
        self.open: list[tuple[Sequence | Mapping, str | None]] = []
        self.anchors: dict[str, Node] = {}
        self.unfinished: set[str] = set()
        self.resolver: Any = Resolver()

    def take(self, event: Event) -> None:
        mark: Any = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        if isinstance(event, ScalarEvent):
            self._add(self._scalar(event, line, column), event.anchor)
        elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            self._start(event, line, column)
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            node, anchor = self.open.pop()
            self.unfinished.discard(anchor or "")
            self._close(node)
        elif isinstance(event, AliasEvent):
            self._close(self._alias(event.anchor or "", line, column))
        elif isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise NotYaml(line, column, "a second document begins here; expected one scenario a file")

    def _start(self, event: MappingStartEvent | SequenceStartEvent, line: int, column: int) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise NotYaml(line, column, f"nested more than {MAX_DEPTH} deep; a scenario needs less than 10")
        self._limit(1, 0, line, column)
        is_mapping = isinstance(event, MappingStartEvent)
        node: Sequence | Mapping = Mapping(line, column) if is_mapping else Sequence(line, column)
        if event.tag not in (None, "!", _TAG + ("map" if is_mapping else "seq")):
            self._refuse_tag(event.tag, line, column)
        if event.anchor:
            self.anchors[event.anchor] = node
            self.unfinished.add(event.anchor)
        self.open.append((node, event.anchor))

    def _scalar(self, event: ScalarEvent, line: int, column: int) -> Scalar:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        elif tag not in _PLAIN_TAGS:
            self._refuse_tag(tag, line, column)
        surrogate = re.search("[\ud800-\udfff]", event.value)
        if surrogate:
            self._note(line, column, f"the character {surrogate.group()!r} is half of one; expected whole characters")
            return Scalar(line, column, "", False, "")
        size = 1 + len(event.value) // TEXT
        return Scalar(line, column, event.value, not event.style, _value(tag, event.value), size)

    def _alias(self, anchor: str, line: int, column: int) -> Node:
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            raise NotYaml(line, column, f"more than {MAX_ALIASES} aliases; expected a file that is written out")
        node = self.anchors.get(anchor)
        if node is None:
            raise NotYaml(line, column, f"unknown alias *{anchor[:40]}; expected an anchor &{anchor[:40]} before it")
        if anchor in self.unfinished:
            raise NotYaml(line, column, f"the alias *{anchor[:40]} contains itself; expected a tree")
        self._limit(node.size, len(self.open) + node.height, line, column)
        return node

    def _add(self, node: Scalar, anchor: str | None) -> None:
        self._limit(node.size, 0, node.line, node.column)
        if anchor:
            self.anchors[anchor] = node
        self._close(node)

    def _close(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1][0]
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif parent.pending is None:
            parent.pending = node
        else:
            key, parent.pending = parent.pending, None
            self._entry(parent, key, node)

    def _entry(self, mapping: Mapping, key: Node, value: Node) -> None:
        if not isinstance(key, Scalar):
            self._note(key.line, key.column, "a key that is no word; expected `key: value`")
            return
        if key.text == "<<" and key.plain:
            self._note(key.line, key.column, "merge keys (<<) are not read in scenarios; expected the keys written out")
            return
        earlier = mapping.entries.get(key.text)
        if earlier is not None:
            message = f"the key {shown(key.text)} occurs twice, first in line {earlier.key.line}; expected it once"
            self._note(key.line, key.column, message)
            return
        mapping.entries[key.text] = KeyNode(key, value)

    # ---- limits and problems

    def _limit(self, nodes: int, depth: int, line: int, column: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise NotYaml(line, column, TOO_MANY)
        if depth > MAX_DEPTH:
            raise NotYaml(line, column, f"nested more than {MAX_DEPTH} deep by an alias; expected less than 10")

    def _refuse_tag(self, tag: str, line: int, column: int) -> None:
        name = tag.replace(_TAG, "!!")
        self._note(line, column, f"the tag {shown(name)} is not read in scenarios; expected the value without a tag")

    def _note(self, line: int, column: int, message: str) -> None:
        self.problems.append(Misread(line, column, message))


def _value(tag: str, text: str) -> Any:
    """Numbers that are not decimal stay text."""
    if tag == _TAG + "null":
        return None
    if tag == _TAG + "bool" and text.lower() in yaml.SafeLoader.bool_values:
        return yaml.SafeLoader.bool_values[text.lower()]
    if tag == _TAG + "int" and _DECIMAL.fullmatch(text):
        return int(text.replace("_", ""))
    if tag == _TAG + "float" and _FLOAT.fullmatch(text):
        return number if math.isfinite(number := float(text.replace("_", ""))) else text
    return text


_HINTS = (
    ("that cannot start any token", "expected text; what begins with one of @ ` % needs quotes"),
    ("mapping values are not allowed", "expected quotes around text with a colon in it, or different indentation"),
    ("expected ':'", "expected `key: value`"),
    ("expected <block end>", "expected the same indentation as the lines above"),
    (
        "did not find expected key",
        "expected `key: value`, indented as above, and quotes around text with special signs",
    ),
    ("did not find expected '-'", "expected a list item, indented as those above"),
    ("expected ',' or", "expected a comma between items, and a closing bracket"),
    ("unexpected end of stream", "expected a closing quote"),
    ("expected node content", "expected a value, or a closing bracket"),
    ("expected the node content", "expected a value, or a closing bracket"),
)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Misread:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    lines = text.split("\n")
    margin = re.match(r"\s*", lines[line - 1] if line <= len(lines) else "")
    if margin and "\t" in margin.group():
        return Misread(line, margin.group().index("\t") + 1, "a tab; expected spaces: tabs may not indent YAML")
    problem = " ".join((error.problem or error.context or "unreadable").split())
    error_text = f"{problem} {error.context or ''}"
    hint = next((hint for sign, hint in _HINTS if sign in error_text), "expected YAML: `key: value` lines")
    begun = error.context_mark.line + 1 if error.context_mark else line
    where = f" (begun in line {begun})" if begun < line else ""
    return Misread(line, column, f"not YAML: {problem}{where}; {hint}")
