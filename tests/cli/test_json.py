"""Tests `--json`: each command prints one object with a `schema_version`, also if it fails."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.cli.app import app
from dpsim.cli.json_alone import OUTPUT, object_text
from tests.cli.commands import MODULE, dpsim_
from tests.every_value import ANY_TEXTS, JSON


@pytest.mark.parametrize(
    "words",
    [("run", "healthy.yaml"), ("explore", "healthy.yaml"), ("list", "backends"), ("show", "sim")],
    ids=lambda words: words[0],
)
def test_each_command_prints_its_answer_as_one_json_object(words: tuple[str, ...], healthy: Path) -> None:
    more = MODULE if "healthy.yaml" in words else ()
    answer = dpsim_(*[healthy if word == "healthy.yaml" else word for word in words], *more, "--json")
    assert answer.code == 0
    assert answer.out.startswith('{"schema_version": 2, ')
    assert "error" not in json.loads(answer.out)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("run", "no-such-scenario"), 2, "no scenario 'no-such-scenario': "),
        (("run", "--ranks", "x"), 2, "Invalid value for '--ranks': "),
        (("run", "--no-such-option"), 2, "No such option: --no-such-option"),
        (("run", "conformance", "-", "-"), 2, "Invalid value: -: one scenario is run"),
        (("list", "--only", "nothing-like-it"), 2, "--only nothing-like-it: no name has this text"),
        (("compare", "a.jsonl", "b.jsonl"), 2, "a.jsonl: No such file or directory"),
        (("replay", "a.jsonl"), 2, "a.jsonl: No such file or directory"),
        (("explain", "no-such-folder"), 2, "no-such-folder: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("first", [False, True])
def test_each_command_prints_its_error_as_one_json_object(
    words: tuple[str, ...], code: int, says: str, first: bool
) -> None:
    """An error is an object with the message and the exit code. `first`: the option comes before the wrong word."""
    given = (words[0], "--json", *words[1:]) if first else (*words, "--json")
    answer = dpsim_(*given)
    assert answer.code == code
    [line] = answer.out.splitlines()
    found = json.loads(line)
    assert (found["schema_version"], found["error"]["exit_code"]) == (2, code)
    assert found["error"]["message"].startswith(says)
    assert found["error"]["message"].partition("\n")[0] in answer.err


@pytest.mark.parametrize("words", [("--json",), ("--json", "list"), ("--no-such-option", "--json")])
def test_an_error_before_the_command_is_one_json_object(words: tuple[str, ...]) -> None:
    answer = dpsim_(*words)
    assert answer.code == 2
    assert json.loads(answer.out)["error"]["message"].startswith(f"No such option: {words[0]}")
    assert dpsim_("--no-such-option").out == ""


@given(st.dictionaries(ANY_TEXTS, JSON, max_size=3))
def test_an_object_is_read_as_it_was_written(found: dict[str, Any]) -> None:
    assert json.loads(object_text(found)) == {"schema_version": 2, **found}


FIGURES = [math.nan, math.inf, np.int64(3), np.float32(0.5), {(1, 2): np.bool_(True)}, [{1}], b"x"]


@pytest.mark.parametrize("figure", FIGURES, ids=repr)
def test_a_figure_that_json_lacks_is_a_text(figure: Any) -> None:
    """Prints figures of programs as JSON in which no constant of Python occurs. The faulty twin prints NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(object_text({"figures": {"own": figure}}), parse_constant=refuse)["figures"].keys() == {"own"}
    with pytest.raises(AssertionError, match="is no JSON"):
        json.loads(json.dumps({"figures": {"own": math.nan}}), parse_constant=refuse)


def test_without_the_option_stdout_is_empty() -> None:
    """Without `--json`, a command that fails prints nothing to stdout, even after a command with `--json` in the same
    process.
    """
    assert dpsim_("run", "no-such-scenario", "--json").out != ""
    answer = dpsim_("run", "no-such-scenario")
    assert (answer.code, answer.out) == (2, "")
    assert not OUTPUT.asked


def test_every_command_that_prints_json_reads_the_option_first() -> None:
    """Commands parse `--json` eagerly; otherwise an error before the option would print no object."""
    from typer.main import get_command

    commands = get_command(app).commands  # type: ignore[attr-defined]
    options = [one for name in commands for one in commands[name].params if "--json" in one.opts]
    assert len(options) >= 9
    late = [one for one in options if not one.is_eager]
    assert len(late) <= 1, "check-engine comes from another package and reads the option itself"


@pytest.mark.parametrize(
    ("figure", "read"),
    [
        (np.float32(0.5), 0.5),
        (np.zeros(2), [0.0, 0.0]),
        (np.zeros(0), []),
        (np.array(7), 7),
        (float("nan"), "nan"),
        ({1: {2}}, {"1": "{2}"}),
    ],
)
def test_a_figure_that_json_lacks_is_read(figure: Any, read: Any) -> None:
    assert json.loads(object_text({"figures": {"one": figure}}))["figures"]["one"] == read
