"""A user's test and a program's figures read the records of a run by the public names of their fields."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import dpsim
from dpsim.contract.ops import RECORDS


@dpsim.register_protocol("t_tells")
class Tells(dpsim.Program[Any]):
    """Both ranks decide the step. `figures` names what rank 0 decided."""

    class Params(BaseModel):
        """No parameter."""

    @staticmethod
    def ranks(params: Any) -> int:
        return 2

    async def run(self, rank: dpsim.Rank, prepared: Any) -> None:
        for rank.step in range(2):
            await rank.host("world").barrier(site="meet")
            rank.decide("number", rank.step, "world")

    def figures(self, prepared: Any, journals: Any) -> dict[str, Any]:
        records: list[Any] = [dpsim.as_record(raw) for raw in journals[0]]
        return {"decided": " ".join(str(one.value) for one in records if one.kind == "decision")}


def test_records_have_public_names() -> None:
    result = dpsim.run_scenario(dpsim.scenario_from({"name": "two", "protocol": {"name": "t_tells"}}))
    assert result.figures == {"decided": "0 1"}
    for journal in result.run.journals:
        records: list[Any] = [dpsim.as_record(raw) for raw in journal]
        met = [(one.step, one.site, one.communicator, one.op) for one in records if one.kind == "collective"]
        assert met == [(step, "meet", "world_cpu", "barrier") for step in range(2)]
        assert not hasattr(records[-1], "op"), "the end is no collective"


@pytest.mark.parametrize("kind", RECORDS)
def test_each_kind_of_record_has_names(kind: str) -> None:
    fields = RECORDS[kind]._fields
    record: Any = dpsim.as_record((kind, *range(1, len(fields))))
    assert [getattr(record, name) for name in fields] == [kind, *range(1, len(fields))]
    with pytest.raises(TypeError):
        dpsim.as_record((kind,))
