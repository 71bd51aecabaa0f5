"""Makes a row of the snapshot from the JSON object of a command: a few values in the open, and digests of the rest.

    found = Found({"verdict": "violated", "class": "RACE:BUFFER", ...}, run="5be0...")
    row("m-dp-1", found)      # {"name": "m-dp-1", "verdict": "violated", "class": "RACE:BUFFER", "json": "a3...", ...}

A row has these fields. A field without a value is missing.

    name      of the row: a file, or the number of a drawn world or of a job
    verdict   the verdict of the command, or the outcome of an explanation
    class     the class of the primary finding
    others    the classes of the other findings, each once
    culprit   rank, step, site and file of the primary finding's culprit
    run       a digest of the journals of the run, without places and addresses
    json      a digest of the object without its sentences
    words     a digest of its sentences

**Full names.** An object has a class, and its detail in another key. A row joins them, as the objects of version 1 did.

**No line numbers.** A row names the file of a place and not its line. An edit above a call moves its line, and changes
nothing that dpsim finds. The objects lose their line numbers before their digest, for the same reason.

**No sentences in `json`.** A change may reword a sentence and find the same. So sentences have a separate digest, which
the comparison reads only with `--words`. `SENTENCES` lists the keys whose texts are sentences.

**No new keys.** A digest covers only the keys that the objects of its part had when the rows were made (`known`). An
object that gains a key is equal; one that loses a key is not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

Row: TypeAlias = dict[str, str]

SENTENCES = {
    *("message", "details", "ground", "waits", "said", "no_return", "swap", "one_more", "shared", "variant", "next"),
    *("unmet", "unclaimed", "never_applied", "assumes", "no_other_effect", "unprotected", "limit", "lost", "repairs"),
    *("unfinished", "stood", "what"),
}
"""The keys of objects whose texts are sentences for a reader."""

TIMES = {"schedules_a_second", "results", "trace"}
"""The keys of objects that differ between two runs of one command: speed, and names of files that it wrote."""

LINE = re.compile(r"(\.py):\d+")
DIGITS = 12


class Found(NamedTuple):
    """What a command found. `culprit`: overrides the object's own. `run`: the digest of the journals, or empty."""

    json: Mapping[str, Any]
    run: str = ""
    culprit: Mapping[str, Any] | None = None


def row(name: str, found: Found, known: Collection[str] | None = None) -> Row:
    """Returns the row of an object. `known`: the paths of keys that its digests cover; None for all of them."""
    stated = plain(found.json)
    covered = stated if known is None else _only(stated, known)
    culprit = found.culprit if found.culprit is not None else found.json.get("culprit")
    fields = {
        "name": name,
        "verdict": str(stated.get("verdict") or stated.get("outcome") or ""),
        "class": str(stated.get("class") or ""),
        "others": " ".join(_others(stated)),
        "culprit": "" if culprit is None else _who(plain(culprit)),
        "run": found.run[:DIGITS],
        "json": digest(without_sentences(covered)),
        "words": digest([*sentences(covered)]),
    }
    return {field: value for field, value in fields.items() if value}


def plain(value: Any) -> Any:
    """Returns a JSON value with full names, without line numbers and what differs between two runs of one command."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in _version_1(value).items() if key not in TIMES}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return LINE.sub(r"\1", value) if isinstance(value, str) else value


def without_sentences(value: Any) -> Any:
    """Returns a JSON value in which each sentence is the word true. A missing sentence stays null."""
    if isinstance(value, dict):
        return {key: bool(inner) if key in SENTENCES else without_sentences(inner) for key, inner in value.items()}
    return [without_sentences(inner) for inner in value] if isinstance(value, list) else value


def sentences(value: Any, within: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each sentence of a JSON value, or its list of sentences, with the path of its key."""
    if isinstance(value, dict):
        for key, inner in sorted(value.items()):
            if key in SENTENCES:
                yield f"{within}{key}", inner
            else:
                yield from sentences(inner, f"{within}{key}.")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from sentences(inner, f"{within}{number}.")


def keys(value: Any, within: str = "") -> Iterator[str]:
    """Yields the path of each key of a JSON value. A list adds nothing to a path: `findings.culprit.rank`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{within}{key}"
            yield from keys(inner, f"{within}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, within)


def digest(value: Any) -> str:
    """Returns some digits that two different JSON values hardly share."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _only(value: Any, known: Collection[str], within: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: _only(inner, known, f"{within}{key}.") for key, inner in value.items() if f"{within}{key}" in known
        }
    return [_only(inner, known, within) for inner in value] if isinstance(value, list) else value


def _version_1(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an object as version 1 of the JSON had it: the class is the full name, and there is no detail."""
    if "schema_version" in value:
        value = {**value, "schema_version": 1}
    if "class" not in value or "detail" not in value:
        return value
    full = ":".join(filter(None, (value["class"], value["detail"])))
    return {key: full or None if key == "class" else inner for key, inner in value.items() if key != "detail"}


def _others(stated: Mapping[str, Any]) -> list[str]:
    """Returns the classes of the findings or failures behind the first one."""
    classes = [one["class"] for key in ("findings", "failures") for one in stated.get(key) or ()]
    return [klass for klass in dict.fromkeys(classes) if klass != stated.get("class")]


def _who(culprit: Any) -> str:
    """Returns a culprit in a few words: rank, step, site and file, as far as the object names them."""
    if not isinstance(culprit, Mapping):
        return str(culprit)
    ranks = culprit.get("ranks") or [culprit.get("rank")]
    place = [
        str(culprit[key]) for key in ("group", "seq", "op", "step", "site", "where") if culprit.get(key) is not None
    ]
    return " ".join([f"rank {','.join(map(str, ranks))}", *place])
