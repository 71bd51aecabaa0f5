"""Tests of ports that the operating system chose. The comparison of runs replaces them by names, and compares all other
values as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.contract.ops import RawRecord
from dpsim.contract.world import Run
from dpsim.trace import Trace, compare
from dpsim.trace.given_ports import given_ports, named
from tests.records import raw


def store(how: str, port: int, site: str = "", key: str = "", value: object = None) -> RawRecord:
    return raw("store", site or how, node=0, port=port, how=how, key=key, value=value)


def journals(port: int, other: int = 7) -> list[list[RawRecord]]:
    """Returns journals: rank 1 opens a store on any port, and sends the port by message and by key. Rank 0 joins it,
    and opens port 80.
    """
    return [
        [
            raw("take", "where", mailbox="where", how="get"),
            raw("learned", "where", outcome=(0, port)),
            store("join", port, value=9),
            raw("learned", "join", outcome=port),
            store("get", port, key="port"),
            raw("learned", "get", outcome=(("at", port), True)),
            store("open", 80, "fixed"),
            raw("learned", "fixed", outcome=80),
        ],
        [
            store("open", 0),
            raw("learned", "open", outcome=port),
            store("set", port, key="port", value=(("at", port), True)),
            store("set", port, "more", key="more", value=other),
            raw("post", "tell", to=0, mailbox="where", content=(0, port)),
            store("close", port),
        ],
    ]


def run(of: list[list[RawRecord]]) -> Run:
    return Run("any", of, ["finished"] * len(of), [0] * len(of), 0)


def test_names_are_given_in_the_order_of_the_ranks() -> None:
    twice = [*journals(40_001)[1], store("open", 0, "again"), raw("learned", "again", outcome=40_000)]
    assert given_ports([[], twice, journals(40_002)[1]]) == {40_001: -1, 40_000: -2, 40_002: -3}
    assert given_ports([[store("open", 0), raw("learned", "open", outcome=None)]]) == {}


def test_a_port_that_was_asked_for_has_no_name() -> None:
    assert given_ports([[store("open", 80), raw("learned", "open", outcome=80)]]) == {}


def test_given_ports_are_named_wherever_a_record_has_a_port() -> None:
    assert journals(40_001) != journals(49_152)
    one, other = ([named(own, given_ports(of)) for own in of] for of in (journals(40_001), journals(49_152)))
    assert one == other
    assert compare(Trace.of(run(journals(40_001))), Trace.of(run(journals(49_152)))) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda of: of[1].__setitem__(3, store("set", 49_152, "more", key="more", value=8)),
        lambda of: of[1].__setitem__(3, store("set", 49_152, "more", key="less", value=7)),
        lambda of: of[0].__setitem__(6, store("open", 81, "fixed")),
        lambda of: of[0].__setitem__(1, raw("learned", "where", outcome=(1, 49_152))),
        lambda of: of[0].__setitem__(1, raw("learned", "where", outcome=(0, 49_153))),
    ],
    ids=["value", "key", "asked for", "node", "another port"],
)
def test_another_port_that_was_not_given_is_a_difference(change: Callable[[list[list[RawRecord]]], object]) -> None:
    changed = journals(49_152)
    change(changed)
    assert compare(Trace.of(run(journals(40_001))), Trace.of(run(changed))) is not None


def test_a_decision_for_a_port_is_a_difference() -> None:
    """Checks that a decision on the port is a difference, because it depends on what the system chose."""
    runs = [
        run([*journals(port), [raw("decision", "port", communicator="dp", value=port)]]) for port in (40_001, 49_152)
    ]
    difference = compare(*map(Trace.of, runs))
    assert difference is not None
    assert (difference.rank, difference.actor) == (2, "decisions port")
