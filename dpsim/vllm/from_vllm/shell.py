r"""Splits a script into commands and words, as a shell does: quotes, escapes, continued lines, comments.

    >>> commands("export A=1\nB=2 vllm serve m \\\n  -cc '{\"level\": 3}' &  # served")
    [['export', 'A=1'], ['B=2', 'vllm', 'serve', 'm', '-cc', '{"level": 3}']]

Users paste commands from documents. So the module deviates from a shell in three cases. A comment may follow
a backslash. `<host>` is a placeholder and no redirection. A line that begins with a flag continues the previous
command. `$VARIABLE` stays unchanged, because the module cannot know its value.
"""

from __future__ import annotations

import re

from dpsim.scenario.errors import ScenarioError

_CONTINUED = re.compile(r"\\[ \t]*(#[^\n]*)?\n")
_PLACEHOLDER = re.compile(r"<[\w.-]+>")
_REDIRECTION = re.compile(r"[<>]+&?[ \t]*[^\s;|&<>]*")
_PLAIN = re.compile(r"[^\s\\'\";|&<>]+")


def commands(text: str) -> list[list[str]]:
    """The commands of a script as words, without redirections. ScenarioError for a quote that never closes."""
    found: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        here = text[at]
        if continued := _CONTINUED.match(text, at):
            at = continued.end()
        elif here in "\n;|&":
            found.append([])
            at += 1
        elif here.isspace():
            at += 1
        elif here == "#":
            at = (text.find("\n", at) + len(text) + 1) % (len(text) + 1)
        elif here in "<>" and not _PLACEHOLDER.match(text, at):
            at = _REDIRECTION.match(text, at).end()  # type: ignore[union-attr]
        else:
            word, at = _word(text, at)
            if not (word.isdigit() and at < len(text) and text[at] in "<>"):  # 2> is a redirection
                found[-1].append(word)
    return _joined(found)


def _joined(found: list[list[str]]) -> list[list[str]]:
    """A paste of lines may lack the backslashes, so words that begin with a flag belong to the previous command."""
    every: list[list[str]] = []
    for words in filter(None, found):
        if words[0].startswith("-") and every:
            every[-1] += words
        else:
            every.append(words)
    return every


def _word(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    while at < len(text) and not text[at].isspace() and text[at] not in ";|&":
        if plain := (_PLAIN.match(text, at) or _PLACEHOLDER.match(text, at)):
            parts.append(plain.group())
            at = plain.end()
        elif text[at] in "<>":
            break
        elif text[at] == "\\":
            if _CONTINUED.match(text, at):
                break
            parts.append(text[at + 1 : at + 2])
            at += 2
        else:
            part, at = _quoted(text, at)
            parts.append(part)
    return "".join(parts), at


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote, start = text[at], at
    parts: list[str] = []
    at += 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and at + 1 < len(text):
            escaped = text[at + 1]
            parts.append(escaped if escaped in '"\\$`' else "" if escaped == "\n" else f"\\{escaped}")
            at += 2
        else:
            parts.append(text[at])
            at += 1
    if at >= len(text):
        raise ScenarioError(
            f"the quote {quote} at {text[start : start + 30]!r} is never closed; expected another {quote}"
        )
    return "".join(parts), at + 1
