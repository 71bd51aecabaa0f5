"""Tests suggestions for misspelt names: there is one if a known name is similar, and otherwise none, for each kind of
name.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from dpsim.contract.words import nearest
from tests.cli.commands import HEALTHY, MODULE, dpsim_, write


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("FUL", ["NONE", "FULL"], ["FULL"]),
        ("dpro", ["dpor", "pos", "pct"], ["dpor"]),
        ("data-parallel-size", ["data_parallel_size", "pipeline_parallel_size"], ["data_parallel_size"]),
        ("anohter_falg", ["another_flag", "any_flag"], ["another_flag"]),
        ("batch", ["my_batch", "batches_of_all_ranks"], ["my_batch"]),
        ("HANG", ["HANG"], ["HANG"]),
        ("explore", ["export", "explain"], []),
        ("report", ["export", "record", "replay"], []),
        ("pos", ["dpor"], []),
        ("kill", ["skip"], []),
        ("tp", ["dp", "pp"], []),
        ("x", ["a"], []),
        ("seqs", ["max_num_seqs"], []),
    ],
)
def test_a_close_word_is_suggested(word: str, known: list[str], meant: list[str]) -> None:
    assert nearest(word, known, 3) == meant


def test_the_rule_before_it_suggested_more() -> None:
    """The faulty twin: `difflib` with its default cutoff suggests too much."""
    assert difflib.get_close_matches("explore", ["export", "explain"]) == ["export"]


FAULTS = "faults: [{kind: KIND, rank: 1, at: {site: dp.agree, ordinal: 2}}]\n"
FILES = {
    "key.yaml": HEALTHY + "WORD: []\n",
    "params.yaml": HEALTHY.replace("steps: 6", "WORD: 6"),
    "kind.yaml": HEALTHY + FAULTS.replace("KIND", "WORD"),
    "protocol.yaml": HEALTHY.replace("t_agrees", "WORD"),
    "variant.yaml": "name: x\nprotocol: {name: dbo, variant: WORD}\n",
    "form.yaml": "name: x\nprotocol: {name: dbo, form: WORD}\n",
    "class.yaml": HEALTHY + "expect: {class: WORD}\n",
}
PLACES = [
    (("WORD", "x"), "explroe", "explore", "report"),
    (("scenario", "WORD"), "from-vlm", "from-vllm", "of-mine"),
    (("run", "x", "WORD"), "--bakend", "--backend", "--where"),
    (("WORD",), "--verison", "--version", "--value"),
    (("run", "WORD"), "anothr_flag", "another_flag", "other"),
    (("show", "WORD"), "anothr_flag", "another_flag", "other"),
    (("list", "WORD"), "variant", "variants", "commands"),
    (("museum", "WORD"), "M-DP-999", "M-DP-9", "m-xyz"),
    (("museum", "--only", "WORD"), "M-DP-999", "M-DP-9", "m-xyz"),
    (("explore", "x.yaml", "--strategy", "WORD"), "dpro", "dpor", "best"),
    (("explore", "x.yaml", "--swarm", "2:WORD"), "dellay", "delay", "late"),
    (("explore", "x.yaml", "--all-up-to", "WORD=2"), "step", "steps", "tokens"),
    (("run", "x.yaml", "--backend", "WORD"), "glooo", "gloo", "cuda"),
    (("run", "x.yaml", "--off", "WORD"), "HANGS", "HANG", "ERROR"),
    *((("run", "key.yaml"), "faulst", "faults", "nothing"),),
    *((("run", "params.yaml"), "stesp", "steps", "rounds"),),
    *((("run", "kind.yaml"), "skpi", "skip", "omit"),),
    *((("run", "protocol.yaml"), "t_agress", "t_agrees", "xylophone"),),
    *((("run", "variant.yaml"), "M-DP-999", "M-DP-9", "early"),),
    *((("run", "form.yaml"), "0.33-repaird", "0.33-repaired", "newest"),),
    *((("run", "class.yaml"), "HANGS", "HANG", "ERROR"),),
]


@pytest.mark.parametrize(
    ("words", "near", "meant", "far"), PLACES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_each_place_suggests_the_word_that_was_meant(
    words: tuple[str, ...], near: str, meant: str, far: str, tmp_path: Path
) -> None:
    write(tmp_path / "x.yaml", HEALTHY)
    for word, suggested in (near, True), (far, False):
        for name, text in FILES.items():
            write(tmp_path / name, text.replace("WORD", word))
        more = MODULE if "yaml" in words[1:2] or any(one.endswith(".yaml") for one in words) else ()
        answer = dpsim_(*(one.replace("WORD", word) for one in words), *more, columns=200)
        assert answer.code == 2
        said = " ".join(answer.err.split())
        assert ("did you mean" in said) == suggested, said
        assert not suggested or repr(meant) in said.partition("did you mean")[2], said
