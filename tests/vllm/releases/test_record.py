"""Tests that the record of a release has each piece or a reason for its absence, and that no other file names a
release.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpsim.vllm.releases import PAGES, PLACES, RELEASES, REPAIRED, V0_33, Absent, Release, named, names
from tests import ROOT

VLLM = ROOT / "dpsim" / "vllm"

# ---- every piece is there


def test_a_record_without_a_piece_is_no_record() -> None:
    pieces = V0_33._asdict()
    assert Release(**pieces) == V0_33
    for piece in pieces:
        with pytest.raises(TypeError, match=piece):
            Release(**{name: value for name, value in pieces.items() if name != piece})


SNIPPET = """from dpsim.vllm.releases import V0_33, Release
from dpsim.vllm.data_parallel.flow import Flow017, Flow033
found: Release = V0_33._replace({change})
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('name="0.34", flow=Flow017', ""),
        ('name="0.34", flow=None', 'Argument "flow" to "_replace" of "Release" has incompatible type "None"'),
        ('name="0.34", transfer=Flow033', 'Argument "transfer" to "_replace" of "Release" has incompatible type'),
        ('name="0.34", flows=Flow033', 'Unexpected keyword argument "flows" for "_replace" of "Release"'),
    ],
)
@pytest.mark.slow
def test_mypy_knows_the_pieces(change: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET.format(change=change))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        str(tmp_path / "snippet.py"),
    ]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.returncode == 0, said in answer.stdout) == (not said, True), answer.stdout + answer.stderr


def test_each_name_means_a_record_with_the_pieces_of_its_place() -> None:
    seen = set()
    for key, place in PLACES.items():
        for name in () if key == "stack" else names(key):
            release, runner = named(key, name)
            seen.add(release.name)
            pieces, record = (place.pieces, release) if runner == "v1" else (place.of_v2, release.v2)
            assert not [piece for piece in pieces if isinstance(getattr(record, piece), Absent)], (key, name)
    assert seen == {one.name for one in (*PAGES, *RELEASES, REPAIRED)}, "each record belongs to a release"


def test_each_absent_piece_has_a_reason() -> None:
    for release in (*PAGES, *RELEASES):
        absent = [piece for piece in release if isinstance(piece, Absent)]
        assert all(len(one.why.split()) > 4 for one in absent), release.name
        assert len(set(map(type, release))) > 1


# ---- there is one table

NAME = re.compile(r"(v[12]-)?0\.\d\d(\.0)?|source-00\d|page-00\d")
ALLOWED = {
    "config/forms.py": "rules have their names here, as no module below releases/ knows a release",
    "config/engine.py": "the same names, as the JSON Schema lists them",
    "config/parallel.py": "the version in which the text of a refusal names the engine",
    "config/parallel_033.py": "the same",
    "keys.py": "the names of the source pages, with the file of vLLM behind each",
}
"""Files that may name a release, and why. Each variant of the museum also names its form."""


def names_of_releases(source: str) -> list[str]:
    """Returns the string constants of a module that are names of releases, except in docstrings."""
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return [node.value for node in texts if isinstance(node.value, str) and NAME.fullmatch(node.value)]


def other_places(tree: Path) -> set[str]:
    files = {file.relative_to(tree).as_posix(): file.read_text() for file in sorted(tree.rglob("*.py"))}
    apart = "releases/", "museum/"
    return {name for name, source in files.items() if not name.startswith(apart) and names_of_releases(source)}


def test_no_other_file_names_a_release() -> None:
    assert other_places(VLLM) == set(ALLOWED)


def test_a_second_table_is_found(tmp_path: Path) -> None:
    (tmp_path / "releases").mkdir()
    (tmp_path / "releases" / "v0_34.py").write_text('NAME = "0.34"\n')
    (tmp_path / "texts.py").write_text('"""Release 0.34."""\nTEXT = "of 0.34"\nCOST = 0.34\n')
    assert other_places(tmp_path) == set()
    (tmp_path / "pipeline.py").write_text('TRANSFERS = {"0.14": 1, "v1-0.33": 2}\n')
    (tmp_path / "flow.py").write_text('def old(release):\n    return release == "source-000"\n')
    assert other_places(tmp_path) == {"pipeline.py", "flow.py"}
