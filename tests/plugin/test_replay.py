"""Tests of failures of `holds` in users' projects: the length of the report, and replays in this and other folders."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

VARIANT = """
from pydantic import BaseModel, Field
from dpsim import Program
from dpsim.contract.registry import register_protocol, register_variant
from dpsim.scenario import scenario_from
from dpsim.testing import holds


class Sizes(BaseModel):
    ranks: int = Field(default=2, ge=1, le=8)
    steps: int = Field(default=1, ge=1, le=8)


@register_protocol("replayed")
class Agrees(Program):
    Params = Sizes

    @staticmethod
    def ranks(params):
        return params.ranks

    async def run(self, rank, args):
        for rank.step in range(args.params.steps):
            await rank.host("world").barrier(site="meet")
            agreed = self.agreed([0, 1])
            assert agreed == 0

    def agreed(self, modes):
        return 0


@register_variant("REPLAYED", protocol="replayed", expected="CRASH:ASSERTIONERROR")
class Largest(Agrees):
    def agreed(self, modes):
        return MODE(modes)


WORLD = {"name": "drawn", "protocol": {"name": "replayed", "variant": "REPLAYED", "params": {"ranks": 2}}}
"""
PROPERTY = """

def test_ranks_agree():
    holds(scenario_from(WORLD))
"""
DRAWN = """

from hypothesis import given, settings, strategies as st


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 4))
def test_ranks_agree(tokens):
    params = {"ranks": 2, "steps": tokens}
    holds(scenario_from({**WORLD, "protocol": {**WORLD["protocol"], "params": params}}))
"""
BROKEN, MENDED = VARIANT.replace("MODE", "max"), VARIANT.replace("MODE", "min") + "# mended\n"
"""The two texts differ in length, because Python reuses bytecode of a file with equal size and second of change."""
TEST = "tests/test_agreement.py"
SAVED = "dpsim: failures that were saved and are tried first: 1"


@pytest.fixture(autouse=True)
def _variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers variants in an inner session only, and removes them afterwards."""
    from dpsim.contract import registry

    registry.variants()
    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    monkeypatch.setattr(registry, "_variants", dict(registry._variants))
    monkeypatch.setenv("CI", "true")  # pytest does not shorten summaries then


def write(pytester: pytest.Pytester, text: str) -> None:
    file = pytester.path / TEST
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    (pytester.path / "pytest.ini").write_text("[pytest]\n")


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    from dpsim.contract import registry

    registry._variants.pop("REPLAYED", None)
    registry._protocols.pop("replayed", None)
    return pytester.runpytest("-p", "no:cacheprovider", *words)


def replay_line(result: pytest.RunResult) -> list[str]:
    """Returns the words of the one line with the replay command."""
    [line] = [line for line in result.outlines if line.startswith("replay: ")]
    assert re.fullmatch(rf"replay: pytest {TEST}::test_ranks_agree --dpsim-replay=dpsim1\.[\w-]+", line)
    return line.split()[2:]


# ---- the report


@pytest.mark.parametrize("test", [PROPERTY, DRAWN], ids=["written", "drawn"])
def test_a_failure_is_reported_once_and_briefly(pytester: pytest.Pytester, test: str) -> None:
    """Checks that the report of a failure has at most 46 lines and names the finding once. It once had 133 lines."""
    write(pytester, BROKEN + test)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    assert len(result.outlines) <= 46
    lines = [line for line in result.outlines if "VIOLATED" in line]
    assert lines == [
        "VIOLATED  CRASH:ASSERTIONERROR  ASSERTION ERROR: the program raised AssertionError",
        f"FAILED {TEST}::test_ranks_agree - VIOLATED  CRASH:ASSERTIONERROR  ASSERTION ERROR: the program raised "
        "AssertionError",
    ]
    result.stdout.fnmatch_lines(
        [
            f"{TEST}:*: holds(*",
            "scenario, saved as .dpsim/drawn-*.yaml:",
            "  name: drawn",
            "  protocol:",
            "    variant: REPLAYED",
            "    params: {ranks: 2*",
            f"replay: pytest {TEST}::test_ranks_agree --dpsim-replay=dpsim1.*",
        ]
    )
    result.stdout.no_fnmatch_line("*properties.py*")


@pytest.mark.slow
def test_the_option_tb_long_prints_the_whole_report(pytester: pytest.Pytester) -> None:
    write(pytester, BROKEN + DRAWN)
    result = run(pytester, "--tb=long")
    result.stdout.fnmatch_lines(["E *VIOLATED*", "E *test_ranks_agree(*"])
    assert len([line for line in result.outlines if "VIOLATED" in line]) == 2


def test_a_failure_without_a_token_keeps_the_text_of_hypothesis(pytester: pytest.Pytester) -> None:
    write(pytester, BROKEN + DRAWN.replace("holds(scenario", "holds(Subject.of(scenario").replace("}))", "})))"))
    file = pytester.path / TEST
    file.write_text("from dpsim.campaign.subject import Subject\n" + file.read_text())
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *VIOLATED*", "E * test_ranks_agree(*", "E *tokens=1*"])
    result.stdout.no_fnmatch_line("*--dpsim-replay*")


def test_a_user_who_quits_the_debugger_ends_the_session(pytester: pytest.Pytester) -> None:
    """Checks that `q` in a program ends pytest, as in any test. dpsim reports no failure, and Hypothesis shrinks none,
    so pdb stops only once.
    """
    typed = 'import io, sys\nsys.stdin = io.StringIO("q\\n" * 9)\n'
    write(pytester, typed + BROKEN.replace("agreed = ", "breakpoint()\n            agreed = ") + DRAWN)
    result = run(pytester, "-s")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*Exit: Quitting debugger*"])
    assert str(result.stdout).count("PDB set_trace") == 1
    result.stdout.no_fnmatch_line("*VIOLATED*")
    result.stdout.no_fnmatch_line("*--dpsim-replay*")
    assert not (pytester.path / ".dpsim").exists()


# ---- replays


def test_the_line_alone_shows_it_in_another_folder(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester, BROKEN + DRAWN)
    words = replay_line(run(pytester))
    (tmp_path / "tests").mkdir()
    (tmp_path / TEST).write_text(BROKEN + DRAWN)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    again = run(pytester, *words)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["VIOLATED  CRASH:ASSERTIONERROR*", "replayed along 0 choices: the same run again"])
    again.stdout.no_fnmatch_line("*did not occur again*")  # the faulty twin: the program still has its mistake
    assert replay_line(again) == words
    assert not (tmp_path / ".dpsim").exists(), "the replay needs no folder and leaves none"
    (tmp_path / TEST).write_text(MENDED + DRAWN)
    mended = run(pytester, *words, "-rP")
    mended.assert_outcomes(passed=1)
    mended.stdout.fnmatch_lines(["*proven: holds in every schedule of this world; 1 schedule*"])
    mended.stdout.fnmatch_lines(["dpsim: CRASH:ASSERTIONERROR of this token did not occur again; *holds"])


def test_a_saved_failure_is_tried_first(pytester: pytest.Pytester) -> None:
    """Checks that a later session first replays the saved failure, before the rest of the test, until the user has
    fixed the mistake.
    """
    write(pytester, BROKEN + DRAWN)
    run(pytester)
    [file] = (pytester.path / ".dpsim").iterdir()
    write(pytester, BROKEN + DRAWN.replace("    params =", "    raise SystemExit\n    params ="))
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            SAVED,
            "replayed along 0 choices: the same run again",
            f"scenario of .dpsim/{file.name}, to be deleted if it is none of this test:",
        ]
    )
    assert replay_line(result)
    write(pytester, MENDED + DRAWN)
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([SAVED])


def test_another_test_is_not_touched(pytester: pytest.Pytester) -> None:
    write(pytester, BROKEN + PROPERTY)
    run(pytester)
    write(pytester, BROKEN + PROPERTY.replace("test_ranks_agree", "test_other").replace("holds(", "print("))
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line(SAVED)


def test_a_failure_that_a_test_wants_is_not_tried(pytester: pytest.Pytester) -> None:
    """Runs a test that expects its failure. Later sessions do not replay the saved failure, because the replay would
    fail the test.
    """
    wanted = PROPERTY.replace("    holds", "    import pytest\n    with pytest.raises(AssertionError):\n        holds")
    write(pytester, BROKEN + wanted)
    for _ in range(2):
        result = run(pytester)
        result.assert_outcomes(passed=1)
        result.stdout.no_fnmatch_line(SAVED)
    assert len(list((pytester.path / ".dpsim").iterdir())) == 1


def test_saved_files_that_cannot_be_used(pytester: pytest.Pytester) -> None:
    """Checks that unreadable saved files do not affect tests. If a saved file names a protocol that no longer exists,
    the output names the file.
    """
    write(pytester, BROKEN + PROPERTY)
    run(pytester)
    folder = pytester.path / ".dpsim"
    [file] = folder.iterdir()
    text = file.read_text()
    write(pytester, PROPERTY.replace("holds(scenario_from(WORLD))", "pass"))
    (folder / "nothing.yaml").write_text("")
    (folder / "bytes.yaml").write_bytes(b"# replay: \xff\n")
    (folder / "quote.yaml").write_text("# replay: pytest 'x\n")
    (folder / "long.yaml").write_text("# replay: " + "x" * 1_000_000)
    (folder / "cut.yaml").write_text(text.splitlines()[0][:-9])
    (folder / "folder.yaml").mkdir()
    os.mkfifo(folder / "fifo.yaml")
    result = run(pytester, "-rP")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [".dpsim/cut.yaml cannot be tried: the token*is damaged*", f".dpsim/{file.name} cannot be tried: *'replayed'*"]
    )


# ---- tokens that cannot be replayed


@pytest.mark.parametrize("word", ["", "nonsense", "dpsim1.", "dpsim1.AAAA", "dpsim9.AAAA", "dpsim1." + "A" * 20_000])
def test_a_bad_token_is_a_usage_error(pytester: pytest.Pytester, word: str) -> None:
    pytester.makepyfile("def test_it(): pass\n")
    result = pytester.runpytest(f"--dpsim-replay={word}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in result.errlines if line]
    assert line.startswith("ERROR: --dpsim-replay: the token ")


def test_a_token_is_for_one_test(pytester: pytest.Pytester) -> None:
    write(pytester, BROKEN + PROPERTY + "\n\ndef test_two(): pass\n")
    words = replay_line(run(pytester))
    for more, got in ([TEST, *words[1:]], "2"), ([*words, "-k", "nothing"], "0"):
        result = run(pytester, *more)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --dpsim-replay: expected one test, as in the line *; selected: {got}"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(BROKEN + PROPERTY + "\n\ndef test_two(): pass\n", id="several"),
        pytest.param("def test_ranks_agree(): pass\n", id="unregistered"),
    ],
)
def test_workers_fail_each_test_for_a_token_that_cannot_be_replayed(pytester: pytest.Pytester, file: str) -> None:
    """Checks tokens that select two tests, or name an unknown variant. With workers, each test fails with the line that
    is a usage error without workers.
    """
    pytest.importorskip("xdist")
    write(pytester, BROKEN + PROPERTY)
    [_, option] = replay_line(run(pytester))
    (pytester.path / ".dpsim").rename(pytester.path / "kept")
    write(pytester, file)
    alone = run(pytester, TEST, option)
    assert alone.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in alone.errlines if line]
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", TEST, option)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=file.count("def test_"))
    # This process knows further names.
    said = re.split(r"; did you mean|; there are| \(there are", line.removeprefix("ERROR: "))[0]
    result.stdout.fnmatch_lines([f"*{said.replace('[', '[[]')}*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.slow
def test_workers_replay_a_token(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    write(pytester, BROKEN + PROPERTY)
    words = replay_line(run(pytester))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", *words)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["replayed along 0 choices: the same run again"])


def test_collection_errors_are_reported_first(pytester: pytest.Pytester) -> None:
    """Checks that pytest's errors about missing files, tests and modules come first, because they explain the rest."""
    write(pytester, BROKEN + PROPERTY)
    [_, option] = replay_line(run(pytester))
    missing = run(pytester, "tests/test_agreemnt.py", option)
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in missing.errlines if line] == ["ERROR: file or directory not found: tests/test_agreemnt.py"]
    unknown = run(pytester, f"{TEST}::test_rank_agrees", option)
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    unknown.stderr.fnmatch_lines(["ERROR: not found: *test_rank_agrees"])
    unknown.stderr.no_fnmatch_line("*--dpsim-replay*")
    write(pytester, "import nothing_like_that\n")
    broken = run(pytester, TEST, option)
    assert broken.ret == pytest.ExitCode.INTERRUPTED
    broken.stdout.fnmatch_lines(["E   ModuleNotFoundError: *nothing_like_that*"])


LONG_VALUES = """
from pydantic import BaseModel
from dpsim import Program
from dpsim.contract.registry import register_protocol
from dpsim.scenario import scenario_from
from dpsim.testing import holds

TABLE = tuple(range(100, 160))
OTHER = (*TABLE[:30], 7, *TABLE[31:])


class Ranks(BaseModel):
    ranks: int = 2


@register_protocol("long_values")
class Compares(Program):
    Params = Ranks

    @staticmethod
    def ranks(params):
        return params.ranks

    async def run(self, rank, args):
        assert TABLE == OTHER


def test_of_a_program():
    holds(scenario_from({"name": "long", "protocol": "long_values"}))


def test_of_its_own():
    assert TABLE == OTHER
"""


def test_an_assertion_shows_the_element_that_differs(pytester: pytest.Pytester) -> None:
    """Checks that an assertion of a program names the element that differs. In a test, pytest's own text of an
    assertion stays unchanged.
    """
    pytester.makepyfile(LONG_VALUES)
    lines = pytester.runpytest_inprocess("-p", "no:xdist").stdout.str()
    assert "AssertionError: assert left == right, where left[30] = 130 and right[30] = 7\n" in lines
    assert "At index 30 diff: 130 != 7" in lines
    assert "E       assert left == right" not in lines
