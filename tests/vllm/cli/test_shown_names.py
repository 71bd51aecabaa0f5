"""`dpsim show` knows each name that its pages and the reports of findings print: types, sections, forms, variants."""

from __future__ import annotations

import builtins
import collections.abc
import contextlib
import enum
import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from dpsim.cli import show_text
from dpsim.cli.hooks import all_hooks, lines_of
from dpsim.cli.named_types import annotations_of, changed_copy, definition, meaning, types_of
from dpsim.contract import registry
from tests.cli.commands import dpsim_

PYTHON = {name for module in (builtins, typing, collections, collections.abc, contextlib, enum) for name in dir(module)}
OF_LIBRARIES = {"NDArray", "Field", "ConfigDict"}
KEY = re.compile(r"\b(?:[IM]-[A-Z]{2}-\d+|A-\d+)\b|(?<=specification )\d+\.\d+")
ANNOTATION = re.compile(r"(?:: |-> )([^=,)'#]+)|\|\s*(\w+)")
CLASS = re.compile(r"`([A-Z]\w*[a-z]\w*)`")
CAPITAL = re.compile(r"\b(?:\w+\.)*[A-Z]\w*[a-z]\w*")


def printed() -> list[str]:
    """The lines that pages of protocols, hooks and types print about types and methods."""
    hooks = [hook for _, hook in all_hooks()]
    lines = [line for hook in hooks for line in lines_of(hook)]
    return lines + [line for one in types_of(hooks).values() for line in meaning(one)["text"].split("\n")]


def unknown(lines: Iterable[str], known: set[str]) -> set[str]:
    """The types and keys that lines print, and `dpsim show` does not know."""
    found = set()
    for line in lines:
        found |= set(KEY.findall(line))
        code = line.partition(". ")[0]  # prose has sentences
        for annotation, other in ANNOTATION.findall(code):
            found |= {name.rpartition(".")[2] for name in CAPITAL.findall(annotation or other)}
        path = re.match(r"(dpsim\.[\w.]+)", line)
        found |= {path[1].rpartition(".")[2]} if path else set()
    return found - known - PYTHON - OF_LIBRARIES


def test_each_type_and_key_that_a_page_prints_is_known() -> None:
    lines = printed()
    known = set(show_text.names())
    assert len(lines) > 1000
    assert unknown(lines, known) == set()
    without = {name for name in known if name not in ("LocalBatch", "1.6", "Source000")}
    assert unknown(lines, without) == {"LocalBatch", "1.6", "Source000"}  # the twin


@pytest.mark.parametrize("protocol", ["dp_batch", "pp_tokens", "dbo", "engine", "whole_engine", "whole_engine_dp"])
def test_each_class_that_the_text_of_a_protocol_names_is_known(protocol: str) -> None:
    """The text of dp_batch names `BatchFlow`, the base of the classes of a hook, and not only these classes."""
    page = show_text.as_text(show_text.meanings(protocol))
    named = set(CLASS.findall(page))
    assert named <= set(show_text.names())
    assert all(show_text.meanings(name) for name in named)
    assert "BatchFlow" in named or protocol != "dp_batch"


@pytest.mark.parametrize("name", ["StepPlan", "HostArray", "rows.Piece", "2.12", "10.0", "0.33", "M-UB-2"])
def test_a_name_of_a_page_has_a_meaning(name: str) -> None:
    answer = dpsim_("show", name)
    assert answer.code == 0, answer.err
    assert name.rpartition(".")[2] in answer.out


def test_a_record_is_shown_with_fields_and_docstrings() -> None:
    shown = dpsim_("show", "LocalBatch").out
    assert shown.startswith("type  dpsim.vllm.data_parallel.batch.LocalBatch\nfile  ")
    assert "\ncopy  x._replace(num_tokens=...) returns a copy with another value of a field\n" in shown
    assert "\nWhat one rank sends. `num_tokens`: its real tokens." in shown
    assert shown.endswith("\nwants_padding: bool\nmode: RuntimeMode\n")
    assert "\nNONE = 0\nPIECEWISE = 1\nFULL = 2\n" in dpsim_("show", "RuntimeMode").out
    field = "dp_sync_interval: Positive = 16\n    The number of steps from one finish sync"
    assert field in dpsim_("show", "EngineConfig").out


@dataclass
class Pair:
    left: int
    right: int = 0


class Params(BaseModel):
    ranks: int = 2


def test_a_type_is_shown_with_the_way_to_change_a_copy() -> None:
    assert changed_copy(Pair) == "dataclasses.replace(x, left=...)"
    assert changed_copy(Params) == 'x.model_copy(update={"ranks": ...})'
    assert [changed_copy(kind) for kind in (int, tuple, tuple[int, ...], enum.Enum)] == [""] * 4


def test_each_variant_is_known_by_its_class() -> None:
    """A finding prints "variant M-DP-3 is LargestMode"."""
    report = dpsim_("run", "museum/m-dp-3", "--no-results").out
    found = re.search(r"variant +(\S+) is (\w+),", report)
    assert found
    assert [one["name"] for one in show_text.meanings(found[2])] == [found[1]] == ["M-DP-3"]


def test_classes_of_a_report_are_known() -> None:
    report = dpsim_("run", "museum/m-dp-3", "--no-results").out
    names = set(re.findall(r"\b[A-Z]+(?::[A-Z_]+)+\b", report))
    assert names == {"CRASH:ASSERTIONERROR"}
    assert all(show_text.meanings(name) for name in names)


def test_forms_of_each_protocol_are_known() -> None:
    forms = {form for entry in registry.protocols() for form in entry.forms} - {"default"}
    assert forms <= set(show_text.names())
    assert [one["kind"] for one in show_text.meanings("source-000")] == ["form", "key"]


def test_a_type_is_found_through_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t_first.py").write_text("class Here:\n    '''A record.'''\nNUMBER = 3\nAlias = dict[str, int]\n")
    more = "from collections.abc import Set\nfrom t_first import Alias, Here as There\nimport t_first\n"
    (tmp_path / "t_second.py").write_text(more)
    monkeypatch.syspath_prepend(tmp_path)
    here, alias = definition("t_second", "There"), definition("t_second", "Alias")
    assert here is not None
    assert alias is not None
    assert (here.path, here.doc, alias.path) == ("t_first.Here", "A record.", "t_first.Alias")
    assert [definition("t_second", name) for name in ("Set", "Nothing")] == [None, None]
    assert definition("t_first", "NUMBER") is None


def test_the_types_of_a_class_have_an_order_that_no_hash_seed_changes() -> None:
    """`dpsim show` prints the types in the order in which it finds them."""
    names = annotations_of("dpsim.contract.interface.Rank")
    assert len(names) > 5
    assert names == sorted({*names})
