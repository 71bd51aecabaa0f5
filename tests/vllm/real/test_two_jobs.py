"""Tests two groups of engines that start on one host at the same time, with the same ports and with other ports."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from real.ports import listen
from tests.cli.commands import write
from tests.real.test_two_jobs import JOBS, at_once

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.slow]

START = """
name: start
protocol: {{name: t_hurried, form: "{form}"}}
topology: {{data_parallel_size: 2}}
config: {{max_num_batched_tokens: 3, max_num_seqs: 1, cudagraph_capture_sizes: [1], cudagraph_mode: FULL{ports}}}
limits: {{stall: 30s}}
workload: {{requests: [{{prompt_tokens: 1, output_tokens: 1}}]}}
"""


def free_ports() -> list[int]:
    """Returns ten ports that no process of this machine uses now."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(listener) for _ in range(10) if (listener := listen(0, 0)) is not None]
        return [listener.getsockname()[1] for listener in listeners]


@pytest.mark.parametrize(
    ("form", "lists", "up"),
    [("0.33", 1, True), ("0.14", 1, False), ("0.14", 2, True)],
    ids=["published", "one list", "other lists"],
)
def test_two_groups_on_one_host(tmp_path: Path, form: str, lists: int, up: bool) -> None:
    """In form 0.14 two jobs with the same port list collide: members of one job find a port that the other job uses.

    They fail within the time-out, and the error names the other program. Other lists, and form 0.33, let both jobs
    start.
    """
    free = free_ports()
    own = [f", _data_parallel_master_port_list: {ports}" for ports in (free[:5], free[5:] if lists == 2 else free[:5])]
    texts = [START.format(form=form, ports=ports) for ports in own]
    files = [write(tmp_path / f"start{number}.yaml", text) for number, text in enumerate(texts)]
    folder = tmp_path / "told"
    done = at_once(tmp_path, "tests.vllm.real.hurried", files, HURRIED_FOLDER=str(folder), HURRIED_JOBS=str(JOBS))
    codes, said = [code for code, _ in done], "\n".join(text for _, text in done)
    assert "HANG" not in said
    if up:
        assert codes == [0, 0], said
    else:
        assert set(codes) <= {0, 1}, said
        assert 1 in codes, said
        assert "another program listens" in said
