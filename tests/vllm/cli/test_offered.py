"""Tests a command line that combines the options of a user's installed package with those of the vLLM model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_offered import dpsim, offered_by

HELLO = """
name: hello
topology: {data_parallel_size: 2}
workload:
  requests:
    - {prompt_tokens: 1, output_tokens: 1}
    - {prompt_tokens: 1, output_tokens: 1}
faults: [{kind: die, rank: 0, at: {site: dp.agree, ordinal: 0}}]
"""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = offered_by(tmp_path_factory.mktemp("site"))
    (folder / "hello.yaml").write_text(HELLO)
    return folder


@pytest.mark.slow
def test_a_package_adds_an_option_of_run_beside_those_of_vllm(stranger: Path) -> None:
    """An option that a package adds to `dpsim run` changes the run, and the suggested repeat command contains it.

    In the help text, the option is before `--trace`.
    """
    _, out, _ = dpsim(stranger, "run", "--help")
    assert out.index("--longer") < out.index("--trace")
    code, out, _ = dpsim(stranger, "run", "hello.yaml", "--longer", "--requests", "1", "--json")
    assert code == 1
    _, out, _ = dpsim(stranger, "run", "hello.yaml", "--longer", "--requests", "1")
    assert "dpsim run hello.yaml --longer --requests 1 --full\n" in out, out
