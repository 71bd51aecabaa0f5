"""Plants faults into a pipeline: a finding names the rank, the step and the call of the fault."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.diagnose.words import text
from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from

SENT, RECEIVED = "tokens.send", "tokens.receive"


def with_fault(kind: str, rank: int, site: str, **more: Any) -> Result:
    """Runs two stages, with a fault at the second call of a site (the name of a call)."""
    return run_scenario(
        scenario_from(
            {
                "name": "planted",
                "protocol": {"name": "pp_tokens"},
                "topology": {"pipeline_parallel_size": 2},
                "config": {"max_num_seqs": 2, "max_num_batched_tokens": 8, "num_speculative_tokens": 1},
                "workload": {
                    "requests": [
                        {"prompt_tokens": 5, "output_tokens": 4},
                        {"arrival": "20ms", "prompt_tokens": 3, "output_tokens": 4},
                    ]
                },
                "faults": [{"kind": kind, "rank": rank, "at": {"site": site, "ordinal": 1}, **more}],
            }
        )
    )


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (("skip", 1, SENT), f"rank 1 left out {SENT} (broadcast on pp_broadcast) in step 1; rank 0 made {RECEIVED}"),
        (
            ("skip", 0, RECEIVED),
            f"rank 0 left out {RECEIVED} (broadcast on pp_broadcast) in step 1; rank 1 made {SENT}",
        ),
        (("repeat", 0, RECEIVED), "rank 0 made 4 calls on pp_broadcast in step 1, rank 1 3; they differ from"),
        (("skip", 0, "hidden.send"), "In step 1 rank 0 made 1 of these; its peer made 2, as in every step before"),
        (("skip", 1, "residual.receive"), "In step 1 rank 1 made 1 of these; its peer made 2, as in every step before"),
        (("repeat", 0, "hidden.send"), "In step 1 rank 0 made 3 of these; its peer made 2, as in every step before"),
        (("die", 0, "hidden.send"), "for rank 0, which never sends (died)"),
    ],
)
def test_the_culprit_is_the_rank_of_the_mistake(fault: tuple[str, int, str], says: str) -> None:
    """The finding names the rank and step of the fault, and describes the call."""
    found = with_fault(*fault).primary
    assert found is not None
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step) == (fault[1], 1)
    assert says in text(found.message)


def test_a_transfer_has_neither_op_nor_root() -> None:
    """A fault that changes the op or the root of a transfer has no effect, and the report says so."""
    for change in ({"op": "broadcast"}, {"root": 1}):
        result = with_fault("alter", 0, "hidden.send", change=change)
        assert result.verdict == "held"
        assert "rank 0 reached hidden.send[1], but there it changes nothing" in str(result.unmet)
