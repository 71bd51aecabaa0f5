"""Tests the enumeration of small scenarios: each once, smaller ones first, with faults of existing ranks only."""

from __future__ import annotations

from itertools import product

import pytest

from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.vllm.params import small
from dpsim.vllm.params.small import LARGEST, Scope, Small, count, scope, small_scenarios
from dpsim.vllm.params.workload.model import RequestSpec

REQUEST = {"prompt_tokens": 5, "output_tokens": 6}
BASE = {"name": "base", "topology": {"data_parallel_size": 2}, "workload": {"requests": [REQUEST]}}


def base(**more: object) -> Scenario:
    return scenario_from({**BASE, **more})


SCOPES = [
    Scope(ranks, requests, steps, prompt, output, abort)
    for ranks, requests, steps, prompt, output, abort in product((1, 2), (1, 2), (1, 3), (1, 2), (1,), (0, 1))
]


@pytest.mark.parametrize("sizes", SCOPES, ids=str)
def test_as_many_as_are_counted_and_no_two_alike(sizes: Scope) -> None:
    texts = [one.model_dump_json() for one in small_scenarios(base(), sizes)]
    assert len(texts) == len({*texts}) == count(sizes)


def test_small_worlds_are_as_many_as_counted_by_hand() -> None:
    assert count(Scope(ranks=1, requests=1, steps=1, prompt=1, output=1)) == 1
    assert count(Scope(ranks=2, requests=1, steps=2, prompt=2, output=2)) == 16
    assert count(Scope(ranks=1, requests=2, steps=2, prompt=1, output=1)) == 2 + 3  # arrivals: 00, 01, 11
    assert count(Scope(ranks=1, requests=1, steps=2, prompt=1, output=1, abort=1)) == 3 + 2


def requests_of(one: Scenario) -> tuple[RequestSpec, ...]:
    written: tuple[RequestSpec, ...] = one.workload.requests
    return written


def test_smaller_worlds_come_first() -> None:
    sizes = [
        (len(requests_of(one)), one.topology.data_parallel_size)
        for one in small_scenarios(base(), Scope(ranks=3, requests=3, steps=2, prompt=1, output=1))
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == (1, 1)


def test_small_worlds_vary_requests_and_keep_the_configuration() -> None:
    given = base(config={"enable_dbo": True}, protocol={"name": "dp_batch", "form": "0.14"})
    step = given.workload.step_duration
    seen = set()
    for one in small_scenarios(given, Scope(1, 1, 2, 2, 2, 1)):
        assert (one.config, one.protocol) == (given.config, given.protocol)
        (request,) = requests_of(one)
        abort = None if request.abort is None else request.abort // step
        seen.add((request.arrival // step, request.prompt_tokens, request.output_tokens, abort))
    assert seen == {
        (arrival, prompt, output, abort)
        for arrival, prompt, output in product((0, 1), (1, 2), (1, 2))
        for abort in (None, *range(arrival + 1, 3))
    }


def test_the_step_is_that_of_base() -> None:
    given = base(workload={"requests": [REQUEST], "step_duration": "7ms"})
    last = [*small_scenarios(given, Scope(ranks=1, steps=3))][-1]
    assert last.workload.step_duration == 7_000_000
    assert requests_of(last)[0].arrival == 14_000_000


def test_faults_of_ranks_that_are_not_there_are_left_out() -> None:
    faults = [{"kind": "skip", "rank": rank, "at": {"site": "dp.agree", "ordinal": 0}} for rank in (0, 1)]
    given = base(faults=faults, expect={"class": "HANG:*", "culprit": {"rank": 0}})
    worlds = list(small_scenarios(given, Scope(ranks=2, steps=1)))
    assert {one.topology.data_parallel_size for one in worlds} == {1, 2}
    for one in worlds:
        assert [fault.rank for fault in one.faults] == [*range(one.topology.data_parallel_size)]
        assert (one.expect.verdict, one.expect.klass, one.expect.culprit) == ("violated", "HANG:*", None)


def test_faults_count_the_ranks_of_other_dimensions() -> None:
    """With tensor parallelism of two, a world of two ranks has one data-parallel rank. It keeps no fault of a missing
    rank.
    """
    faults = [{"kind": "skip", "rank": rank, "at": {"site": "dp.agree", "ordinal": 0}} for rank in (1, 2)]
    given = base(topology={"data_parallel_size": 2, "tensor_parallel_size": 2}, faults=faults)
    kept = [[fault.rank for fault in one.faults] for one in small_scenarios(given, Scope(2, 1, 1, 1, 1))]
    assert kept == [[1], [1, 2]]


def test_faults_of_services_are_kept() -> None:
    given = base(protocol="startup", faults=[{"kind": "kill", "rank": "engine.0"}])
    kept = [[fault.rank for fault in one.faults] for one in small_scenarios(given, Scope(2, 1, 1, 1, 1))]
    assert kept == [["engine.0"], ["engine.0"]]


def test_ranks_and_stages_are_those_of_base_unless_they_are_named() -> None:
    given = base(topology={"data_parallel_size": 2, "pipeline_parallel_size": 3})

    def topologies(text: str) -> list[tuple[int, int]]:
        told = [one.topology for one in small_scenarios(given, scope(f"{text}steps=1,prompt=1,output=1"))]
        assert len(told) == count(scope(f"{text}steps=1,prompt=1,output=1"))
        return [(one.data_parallel_size, one.pipeline_parallel_size) for one in told]

    assert topologies("") == [(2, 3)]
    assert topologies("ranks=1,") == [(1, 3)]
    assert topologies("stages=2,") == [(2, 1), (2, 2)]
    assert topologies("ranks=2,stages=2,") == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_long_name_is_cut() -> None:
    (one,) = small_scenarios(base(name="x" * 100), Scope(1, 1, 1, 1, 1))
    assert one.name == "x" * 94 + "-small"


def test_too_many_small_worlds_are_refused() -> None:
    sizes = Scope(ranks=2, requests=6, steps=4, prompt=4, output=4)
    assert count(sizes) > LARGEST
    with pytest.raises(
        ScenarioError, match=r"these are [\d,]+ scenarios; expected at most 1,000,000: take smaller sizes"
    ):
        next(small_scenarios(base(), sizes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranks=3", Scope(ranks=3)),
        (" ranks = 3 , abort=1", Scope(ranks=3, abort=1)),
        ("ranks=1,requests=2,steps=3,prompt=4,output=5,abort=0", Scope(1, 2, 3, 4, 5, 0)),
    ],
)
def test_the_sizes_of_small_worlds_are_read(text: str, expected: Scope) -> None:
    assert scope(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no size"),
        ("ranks", "ranks: expected a number from 1 to 1000, as in ranks=1, got ''"),
        ("ranks=two", "got 'two'"),
        ("ranks=-1", "got '-1'"),
        ("ranks=1001", "got '1001'"),
        ("step=2", "'step' is no size; did you mean 'steps'?"),
        ("ranks=1,ranks=2", "ranks is given twice"),
        ("ranks=²", "got '²'"),
    ],
)
def test_wrong_sizes_of_small_worlds_are_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        scope(text)
    assert said in str(raised.value)


def test_small_worlds_have_the_messages_of_those_they_have() -> None:
    messages = [{"to": rank, "mailbox": "in", "content": 1} for rank in range(3)]
    messages.append({"to": 0, "mailbox": "in", "content": 2, "after": {"rank": 2, "site": "a", "ordinal": 0}})
    found = list(
        small_scenarios(
            base(messages=messages, topology={"data_parallel_size": 3}), scope("ranks=3,steps=1,prompt=1,output=1")
        )
    )
    assert [len(one.messages) for one in found] == [1, 2, 4]


def unnamed(worlds: Small) -> set[str]:
    """Returns the fields of requests that are equal in all worlds, but are missing in `not_varied`."""
    dumped = [one.model_dump()["workload"]["requests"][0] for one in worlds.worlds()]
    fixed = {name for name in RequestSpec.model_fields if len({repr(one[name]) for one in dumped}) == 1}
    return fixed - {*worlds.not_varied}


def test_fields_that_no_world_varies_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = {"lora", "force_eager", "prefix", "encoder_inputs", "stop_after", "drafts"}
    for abort in (0, 1):
        worlds = Small(base(), Scope(ranks=2, abort=abort))
        assert not unnamed(worlds) & read
        assert ("abort" in worlds.not_varied) == (not abort)
        assert "topology.data_parallel_size" not in worlds.not_varied
    monkeypatch.setattr(small, "VARIED", (*small.VARIED, "lora"))
    assert unnamed(Small(base(), Scope(ranks=2))) & read == {"lora"}  # the faulty twin claims to vary lora


def test_fields_that_the_program_does_not_read_are_left_out() -> None:
    worlds = Small(base(protocol="startup"), Scope(ranks=2))
    assert not {"lora", "drafts", "structured_output"} & {*worlds.not_varied}


WORKLOAD = "the scenario's own workload"
STEP = 20


@pytest.mark.parametrize(
    ("workload", "sizes", "lacks"),
    [
        ({"requests": [REQUEST]}, "ranks=2,prompt=5,output=6", ""),
        ({"requests": [REQUEST]}, "prompt=5,output=6", ""),
        ({"requests": [REQUEST]}, "ranks=1,output=6", f"{WORKLOAD} (ranks=2, prompt=5)"),
        ({"requests": [REQUEST] * 3, "limit": 2}, "prompt=5,output=6", f"{WORKLOAD} (requests=2)"),
        ({"requests": [{**REQUEST, "arrival": f"{2 * STEP}ms"}]}, "prompt=5,output=6", f"{WORKLOAD} (steps=3)"),
        ({"requests": [{**REQUEST, "abort": f"{3 * STEP}ms"}]}, "prompt=5,output=6", f"{WORKLOAD} (steps=3, abort=1)"),
        ({"requests": [{**REQUEST, "arrival": "1ms"}]}, "prompt=5,output=6", f"{WORKLOAD} (times between two steps)"),
        ({"requests": [{**REQUEST, "force_eager": True}]}, "prompt=5,output=6", f"{WORKLOAD} (force_eager)"),
        ({"azure_csv": {"file": "x.csv"}}, "prompt=5,output=6", f"{WORKLOAD} (requests from a file)"),
        (
            {
                "synthetic": {
                    "requests": 9,
                    "prompt_tokens": {"min": 1, "max": 7},
                    "output_tokens": {"min": 1, "max": 2},
                }
            },
            "prompt=6",
            f"{WORKLOAD} (requests=9, prompt=7)",
        ),
    ],
)
def test_a_set_names_what_it_lacks_of_the_scenario_itself(workload: object, sizes: str, lacks: str) -> None:
    """A scenario that fails and a proof of a set without its workload do not contradict each other."""
    assert Small(base(workload=workload), scope(sizes)).outside == lacks


@pytest.mark.parametrize("abort", [None, "40ms"])
def test_the_sizes_that_a_set_lacks_contain_the_workload(abort: str | None) -> None:
    """With exactly the sizes of `outside`, one of the worlds has the requests of the scenario."""
    request = {"arrival": "20ms", "prompt_tokens": 2, "output_tokens": 3, **({"abort": abort} if abort else {})}
    given = base(workload={"requests": [request]})
    lacks = Small(given, scope("prompt=1,output=1,steps=1")).outside
    worlds = Small(given, scope(lacks.partition("(")[2].rstrip(")").replace(" ", "")))
    assert worlds.outside == ""
    assert requests_of(given) in [requests_of(one) for one in worlds.worlds()]
