"""Which rows need their token: what the engine's own code answered, row by row, in two releases (6.4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.protocol.pipeline.batches import Row
from dpsim.protocol.pipeline.need_mask import needs_024, needs_033
from tests.engine import answers

Rule = Callable[[Row], bool]


def differing(version: str, rule: Rule) -> list[int]:
    """Batches in which a rule says otherwise. None is the engine's word for a batch of which no row needs a token."""
    wrong = []
    for batch in answers("need_mask", version):
        names = ("num_computed_tokens", "num_scheduled_tokens", "prefill_len", "max_seq_len")
        rows = zip(*[batch[name] for name in names], strict=True)
        mask = [rule(Row(0, computed, scheduled, prefill, limit, 0)) for computed, scheduled, prefill, limit in rows]
        if (mask if any(mask) else None) != batch["answer"]:
            wrong.append(batch["batch"])
    return wrong


@pytest.mark.parametrize(("version", "rule"), [("0.24.0", needs_024), ("0.33.0", needs_033)])
def test_as_the_engine_answers(version: str, rule: Rule) -> None:
    assert len(answers("need_mask", version)) == 500
    assert differing(version, rule) == []


def whoever_samples(row: Row) -> bool:
    return row.samples


def one_token_more(row: Row) -> bool:
    return needs_024(row._replace(limit=row.limit + 1))


def decodes_alone(row: Row) -> bool:
    return needs_033(row) and not row.prefilling


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("0.24.0", needs_033),
        ("0.24.0", one_token_more),
        ("0.24.0", whoever_samples),
        ("0.33.0", needs_024),
        ("0.33.0", decodes_alone),
        ("0.33.0", whoever_samples),
    ],
)
def test_another_rule_is_found(version: str, wrong: Rule) -> None:
    assert differing(version, wrong)
