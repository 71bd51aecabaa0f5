"""Checks the rules of the tree (`tests.house.tree`), and that each broken rule causes a complaint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ROOT
from tests.house.tree import LONG, MODULES, MOST_LINES, MOST_OF_A_FUNCTION, NAMESAKES, OF_SEVERAL, ROOMS, complaints


def test_the_tree_keeps_its_rules() -> None:
    found = complaints(ROOT)
    assert not found, "\n".join([f"{len(found)} things are not in their place:", *found])


# ---- trees that break a rule


def write(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree that follows all rules."""
    lines = [f"    {name}.py    it" for name in MODULES] + [f"    {name}/    it" for name in ROOMS]
    write(tmp_path / "dpsim" / "__init__.py", "\n".join(['"""All of it.', "", *lines, '"""']))
    for name in MODULES:
        write(tmp_path / "dpsim" / f"{name}.py", "x = 1\n" * MOST_LINES)
    for name in LONG:
        write(tmp_path / name, "x = 1\n" * (MOST_LINES + 1))
    for name in ROOMS:
        write(tmp_path / "dpsim" / name / "__init__.py", '"""A room."""\n')
    write(tmp_path / "dpsim" / "sim" / "__init__.py", '"""A room.\n\n    op.py  other.py  two\n    deep/  more\n"""\n')
    write(tmp_path / "dpsim" / "contract" / "__init__.py", '"""A room.\n\n    interface.py  ops.py  two\n"""\n')
    for name in ("op.py", "other.py"):
        write(tmp_path / "dpsim" / "sim" / name)
    write(tmp_path / "dpsim" / "sim" / "deep" / "__init__.py", '"""Nothing yet."""\n')
    write(tmp_path / "real" / "__init__.py", '"""A package."""\n')
    write(
        tmp_path / "tools/engine/dpsim_engine/__init__.py",
        '"""A tool.\n\n    check.py  it\n"""\nclass Group:\n    pass\n',
    )
    write(tmp_path / "tools/engine/dpsim_engine/check.py", "x = 1\n" * MOST_LINES)
    for name, number in NAMESAKES.items():
        for package in ("sim", "explore", "checks")[:number]:
            with (tmp_path / "dpsim" / package / "__init__.py").open("a") as file:
                file.write(f"class {name}:\n    pass\n")
    for name in ("sim", "sim/deep", "runner", *OF_SEVERAL):
        write(tmp_path / "tests" / name / "__init__.py")
    return tmp_path


def test_a_tree_in_which_all_is_in_its_place(tree: Path) -> None:
    assert complaints(tree) == []


def a_module_in_the_hall(tree: Path) -> None:
    write(tree / "dpsim" / "words_of_findings.py")


def an_unplanned_package(tree: Path) -> None:
    write(tree / "dpsim" / "utils" / "__init__.py")


def a_missing_room(tree: Path) -> None:
    (tree / "dpsim" / "trace" / "__init__.py").unlink()


def a_missing_module(tree: Path) -> None:
    (tree / "dpsim" / "runner.py").unlink()


def a_module_that_the_map_lacks(tree: Path) -> None:
    write(tree / "dpsim" / "sim" / "deep" / "hole.py")


def a_package_without_a_docstring(tree: Path) -> None:
    write(tree / "real" / "__init__.py", "import os\n")
    write(tree / "real" / "pool.py")


def a_missing_name_in_the_map(tree: Path) -> None:
    (tree / "dpsim" / "sim" / "other.py").unlink()


def a_name_that_another_name_ends_with(tree: Path) -> None:
    write(tree / "dpsim" / "sim" / "her.py")


def a_folder_of_tests_of_nothing(tree: Path) -> None:
    write(tree / "tests" / "sim" / "memory" / "__init__.py")


def a_folder_of_tests_that_is_no_package(tree: Path) -> None:
    write(tree / "tests" / "trace" / "test_it.py")


def a_file_that_is_too_long(tree: Path) -> None:
    write(tree / "dpsim" / "sim" / "op.py", "x = 1\n" * (MOST_LINES + 1))


def a_long_file_that_became_short(tree: Path) -> None:
    write(tree / "dpsim" / "contract" / "ops.py", "x = 1\n")


def a_class_of_a_name_that_is_taken(tree: Path) -> None:
    for name in ("op", "other"):
        write(tree / "dpsim" / "sim" / f"{name}.py", "class Order:\n    pass\n")


def a_private_class_of_a_name_that_is_taken(tree: Path) -> None:
    for name in ("op", "other"):
        write(tree / "dpsim" / "sim" / f"{name}.py", "class _Order:\n    pass\n")


def a_class_name_that_became_free(tree: Path) -> None:
    write(tree / "dpsim" / "explore" / "__init__.py", '"""A room."""\n')


def a_function_that_is_too_long(tree: Path) -> None:
    body = "    x = 1\n" * (MOST_OF_A_FUNCTION - 1)
    write(tree / "dpsim" / "sim" / "op.py", f"class A:\n  def long(self):\n{body}    x = 2\n\n\ndef short():\n{body}")


def a_file_of_a_tool_that_is_too_long(tree: Path) -> None:
    write(tree / "tools/engine/dpsim_engine/check.py", "x = 1\n" * (MOST_LINES + 1))


def a_function_of_a_tool_that_is_too_long(tree: Path) -> None:
    write(tree / "tools/engine/dpsim_engine/check.py", "def long():\n" + "    x = 1\n" * MOST_OF_A_FUNCTION)


def a_module_of_a_tool_that_its_map_lacks(tree: Path) -> None:
    write(tree / "tools/engine/dpsim_engine/hole.py")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (a_module_in_the_hall, "dpsim/words_of_findings.py: belongs into one of the packages"),
        (an_unplanned_package, "dpsim/utils/: is no room of the list"),
        (a_missing_room, "dpsim/trace: is in the list and not there"),
        (a_missing_module, "dpsim/runner: is in the list and not there"),
        (a_module_that_the_map_lacks, "dpsim/sim/deep/__init__.py: its docstring does not name hole.py"),
        (a_package_without_a_docstring, "real/__init__.py: its docstring does not name pool.py"),
        (a_missing_name_in_the_map, "dpsim/sim/__init__.py: its docstring names other.py, which is not there"),
        (a_name_that_another_name_ends_with, "dpsim/sim/__init__.py: its docstring does not name her.py"),
        (a_folder_of_tests_of_nothing, "tests/sim/memory: has no namesake in dpsim/ and is none of "),
        (a_folder_of_tests_that_is_no_package, "tests/trace: is no package, it has no __init__.py"),
        (a_file_that_is_too_long, "dpsim/sim/op.py: has 301 lines, more than 300"),
        (a_class_of_a_name_that_is_taken, "dpsim/sim/other.py: Order is a class of dpsim/sim/op.py already"),
        (a_class_name_that_became_free, "Group: stands for fewer classes than NAMESAKES allows"),
        (a_function_that_is_too_long, "dpsim/sim/op.py: long has 70 lines, more than 69"),
        (a_file_of_a_tool_that_is_too_long, "tools/engine/dpsim_engine/check.py: has 301 lines, more than 300"),
        (a_function_of_a_tool_that_is_too_long, "tools/engine/dpsim_engine/check.py: long has 70 lines, more than 69"),
        (a_module_of_a_tool_that_its_map_lacks, "tools/engine/dpsim_engine/__init__.py: its docstring does not name "),
        (a_long_file_that_became_short, "dpsim/contract/ops.py: is no longer long; take it out of LONG"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_rule_is_reported(tree: Path, wrong: Callable[[Path], None], says: str) -> None:
    wrong(tree)
    assert any(complaint.startswith(says) for complaint in complaints(tree)), complaints(tree)


def test_private_classes_may_share_a_name(tree: Path) -> None:
    a_private_class_of_a_name_that_is_taken(tree)
    assert complaints(tree) == []
