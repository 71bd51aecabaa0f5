"""Finds the sentences that a user or a maintainer reads, in each kind of file of this repository.

    sentences("README.md", text)    # yields the sentences, each with the number of its first line

* In a Python file these are docstrings, comments and messages. A message is a string with at least four words, or the
  message of an `assert`. The name of a test is a sentence too.
* A placeholder of an f-string counts as one word. This module skips a string that is itself Python.
* In a Markdown file these are paragraphs, headings, list items and the cells of tables.
* In a scenario these are the comments and the `description`. In TOML and in a Makefile, comments and messages.

The module skips code: fenced blocks, indented blocks and doctests. Inline code counts as one word. A gap of two spaces
separates two texts. So in a table of file names and their purposes, each cell is a separate sentence. A comment within
an indented block is a sentence too.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from itertools import accumulate, count
from typing import NamedTuple

MESSAGE_WORDS = 4
"""A string with fewer words is a name or a value, and no message, except in an `assert`."""

CODE_IN_TEXT = 4
CODE_IN_COMMENT = 2
"""A line after a blank line or a colon is code if it has at least this indentation. The first number is for text, the
second for comments.
"""

TEST = ast.FunctionDef | ast.AsyncFunctionDef

QUOTED_OR_COMMENT = re.compile(
    r"""(?P<quote>\"{3}|'{3})(?:\\.|(?!(?P=quote)).)*?(?P=quote)"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?<!\S)\#[^\n]*""",
    re.DOTALL,
)
"""This matches a string or a comment. `tokenize` finds the same comments, but takes ten times as long."""

WORD = re.compile(r"\S*\w\S*")
GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
LIST_ITEM = re.compile(r"^(?:[*+-]|\d{1,2}\.) +")
HEADING = re.compile(r"#{1,6} |[-=]{3,}")
PROMPT = re.compile(r">>> |\$ ")
INLINE_CODE = re.compile(r"(`+)[^`]+\1")
LINK = re.compile(r"\]\([^)\s]*\)")
SENTENCE_END = re.compile(r"(?<!\.\.)(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\betc)[.!?][\"')\]*_]*(?: |$)")
DESCRIPTION = re.compile(r"^description:(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
BLOCK_SCALAR = re.compile(r"[>|][-+]?$")


class Line(NamedTuple):
    """A line of a file, or the part of it that belongs to one text."""

    number: int
    text: str


class Sentence(NamedTuple):
    line: int
    text: str

    def words(self) -> int:
        return len(WORD.findall(self.text))


def sentences(file: str, source: str) -> Iterator[Sentence]:
    """Yields the sentences of a file. `file`: its name, whose suffix selects the kind of file."""
    for paragraph in _paragraphs_of(file, source):
        yield from _cut(paragraph)


def _cut(paragraph: list[Line]) -> Iterator[Sentence]:
    """Cuts a paragraph into sentences. A word of the same length replaces inline code, so the offsets stay valid."""
    joined = " ".join(line.text for line in paragraph)
    masked = INLINE_CODE.sub(lambda found: "_" * len(found[0]), joined)
    masked = LINK.sub(lambda found: "_" * len(found[0]), masked)
    begins = list(accumulate((len(line.text) + 1 for line in paragraph), initial=0))
    start = 0
    for end in [*(found.end() for found in SENTENCE_END.finditer(masked)), len(masked)]:
        text = masked[start:end].strip()
        if WORD.search(text):
            yield Sentence(paragraph[bisect_right(begins, start) - 1].number, text)
        start = end


# ---- kinds of files


def _paragraphs_of(file: str, source: str) -> Iterator[list[Line]]:
    if file.endswith(".md"):
        yield from _paragraphs(_numbered(source), CODE_IN_TEXT)
        return
    for comment in _comments(source):
        yield from _paragraphs(comment, CODE_IN_COMMENT)
    if file.endswith(".py"):
        yield from _python_strings(source)
    elif file.endswith(".yaml"):
        yield from _descriptions(source)
    else:
        for found in QUOTED_OR_COMMENT.finditer(source):
            if not found[0].startswith("#"):
                first = source.count("\n", 0, found.start()) + 1
                yield from _message(found[0].strip("\"'"), first, first + found[0].count("\n"))


def _numbered(text: str, first: int = 1) -> list[Line]:
    return [Line(number, line.rstrip()) for number, line in enumerate(text.expandtabs().splitlines(), first)]


def _comments(source: str) -> Iterator[list[Line]]:
    """Yields the comments. A comment alone on its line continues the comment above it in the same column."""
    block: list[Line] = []
    column = 0
    for found in QUOTED_OR_COMMENT.finditer(source):
        if not found[0].startswith("#") or found[0].startswith("#!"):
            continue
        begin = source.rfind("\n", 0, found.start()) + 1
        number = source.count("\n", 0, begin) + 1
        alone = not source[begin : found.start()].strip()
        if not (block and alone and number == block[-1].number + 1 and found.start() - begin == column):
            yield block
            block = []
        column = found.start() - begin
        block.append(Line(number, found[0][1:].removeprefix(" ").rstrip()))
    yield block


def _descriptions(source: str) -> Iterator[list[Line]]:
    for found in DESCRIPTION.finditer(source):
        lines = _numbered(found[1], source.count("\n", 0, found.start()) + 1)
        texts = [Line(line.number, line.text.strip().strip("\"'")) for line in lines]
        yield [line for line in texts if line.text and not BLOCK_SCALAR.match(line.text)]


def _python_strings(source: str) -> Iterator[list[Line]]:
    """Yields the docstrings of modules, classes, functions and attributes, and the messages."""
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        match node := nodes.pop():
            case ast.Expr(value=ast.Constant(value=str(text), lineno=first, col_offset=margin)):
                lines = (Line(number, line.removeprefix(" " * margin)) for number, line in _numbered(text, first))
                yield from _paragraphs(lines, CODE_IN_TEXT)
            case ast.Assert(test=test, msg=ast.Constant(value=str(text), lineno=first)):
                yield [Line(first, text)]
                nodes.append(test)
            case ast.Constant(value=str(text), lineno=first, end_lineno=last):
                yield from _message(text, first, last or first)
            case ast.JoinedStr(values=values, lineno=first, end_lineno=last):
                parts = (str(part.value) if isinstance(part, ast.Constant) else "_" for part in values)
                yield from _message("".join(parts), first, last or first)
                nodes.extend(part for part in values if not isinstance(part, ast.Constant))
            case _:
                if isinstance(node, TEST) and node.name.startswith("test_"):
                    yield [Line(node.lineno, node.name.removeprefix("test_").replace("_", " "))]
                for value in vars(node).values():  # `ast.iter_child_nodes` takes three times as long
                    if isinstance(value, list):
                        nodes.extend(child for child in value if isinstance(child, ast.AST))
                    elif isinstance(value, ast.AST):
                        nodes.append(value)


def _message(text: str, first: int, last: int) -> Iterator[list[Line]]:
    """Yields each line of a message as a paragraph; yields nothing if the text is too short, or Python."""
    if len(WORD.findall(text)) < MESSAGE_WORDS or _is_python(text):
        return
    for number, line in zip(count(first), text.splitlines(), strict=False):
        for cell in GAP.split(line):
            yield [Line(min(number, last), cell)]


def _is_python(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of escapes in strings
        try:
            ast.parse(cleandoc(text))
        except (SyntaxError, ValueError):
            return False
    return True


# ---- paragraphs


def _paragraphs(lines: Iterable[Line], code_from: int) -> Iterator[list[Line]]:
    """Yields the paragraphs of a text, without its code."""
    paragraph: list[Line] = []
    fenced = code = False
    may_be_code = True  # code begins after a blank line or a colon
    entry: int | None = None  # the text of the last entry of a map begins in this column
    prompt: int | None = None  # the last prompt is in this column, and its output follows
    for number, text in lines:
        bare = text.strip()
        indent = len(text) - len(text.lstrip())
        if fenced or bare.startswith("```"):
            fenced ^= bare.startswith("```")
            bare = ""
        if PROMPT.match(bare):
            prompt = indent
        elif not bare or (prompt is not None and indent < prompt):
            prompt = None
        if bare:
            code = indent >= code_from and (code or may_be_code)
        may_be_code = not bare or bare.endswith(":")
        continues = entry is not None and indent >= entry - 1
        cells = _cells(bare)
        if not bare or prompt is not None or (code and not continues and len(cells) == 1):
            yield paragraph
            paragraph, entry = [], None
        elif len(cells) > 1 or HEADING.match(bare) or LIST_ITEM.match(bare) or (entry is not None and not continues):
            yield paragraph
            yield from ([Line(number, cell)] for cell in cells[:-1])
            paragraph = [Line(number, LIST_ITEM.sub("", cells[-1], count=1))]
            entry = len(text) - len(cells[-1]) if len(cells) > 1 else None
            if HEADING.match(bare):
                yield paragraph
                paragraph = []
        else:
            paragraph.append(Line(number, bare))
    yield paragraph


def _cells(text: str) -> list[str]:
    """Splits a line into the cells of a table, or at its gaps."""
    if text.startswith("|"):
        return [*re.split(r"(?<!\\)\||<br>", text), ""]
    return GAP.split(text)
