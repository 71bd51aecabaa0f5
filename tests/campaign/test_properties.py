"""Tests `holds` within Hypothesis, which draws worlds while dpsim explores their schedules. Healthy worlds are proven,
and planted bugs shrink to the smallest world.

Counts of examples include those from the first failure to the last example of Hypothesis's shrinking.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.properties import DoesNotHold, holds_again
from dpsim.campaign.subject import Subject
from dpsim.campaign.token import read_token
from dpsim.checks.expected import Expected
from dpsim.contract import registry
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import Lost
from dpsim.scenario import Scenario, dump_scenario, load_scenario
from dpsim.testing import holds, scenarios
from tests import ROOT
from tests.programs import Script, Scripted, touch, world_of
from tests.protocols import SizedProgram, agreed, sized

PHASES = (Phase.generate, Phase.shrink)  # without Phase.explain, which traces each line of dpsim
SHRINKS = settings(max_examples=1_000, derandomize=True, database=None, print_blob=False, phases=PHASES)


def smallest(variant: str | None = None, ranks: int = 2, **more: Any) -> Scenario:
    """Returns the smallest scenario: two ranks, one token."""
    return agreed({"ranks": ranks, "tokens": [0, 1]}, variant, **{"name": "drawn", **more})


# ---- drawn scenarios

SMALL: dict[str, Any] = {"ranks": st.integers(2, 4), "steps": st.integers(1, 3)}
SMALL["tokens"] = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@given(scenarios(protocol="t_agree", max_faults=0, params=SMALL))
@pytest.mark.slow
def test_drawn_scenarios_of_a_healthy_protocol_are_proven(scenario: Scenario) -> None:
    assert holds(scenario).verdict == "proven"


def shrunk(drawn: st.SearchStrategy[Scenario], folder: Path) -> tuple[Scenario, int, str]:
    """Runs a test that fails. Returns its last example, the number of examples since the first failure, and the text of
    the failure.
    """
    examples: list[tuple[Scenario, bool]] = []

    @SHRINKS
    @given(drawn)
    def test(scenario: Scenario) -> None:
        examples.append((scenario, False))
        try:
            holds(scenario, save=folder)
        except AssertionError:
            examples[-1] = scenario, True
            raise

    with pytest.raises(AssertionError) as raised:
        test()
    first = [failed for _, failed in examples].index(True)
    return examples[-1][0], len(examples) - first, str(raised.value)


def says_how_it_fails(scenario: Scenario, told: str, folder: Path) -> None:
    """Checks that the text of a failure names the saved file, and two commands with a token."""
    [file] = folder.iterdir()
    text = dump_scenario(scenario)
    assert f"scenario, saved as {file}:\n" + "".join(f"  {line}\n" for line in text.splitlines()[:3]) in told
    here = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    replay, step, others = told.splitlines()[-3:]
    assert others == "other drawn scenarios may fail for another cause: run the test again after the fix"
    command, _, word = replay.partition(" --dpsim-replay=")
    assert command == f"replay: pytest {shlex.quote(here)}"
    module = " --module tests/protocols.py" if scenario.protocol.name.startswith("t_") else ""  # no entry point
    assert step == f"step by step: dpsim replay {word}{module} --step"
    assert read_token(word).scenario == scenario
    assert file.read_text() == text
    again = explore_subject(Subject.of(load_scenario(file)))
    assert again.failure is not None
    assert file.name == f"drawn-{again.failure.fingerprint}.yaml"
    assert f"failure {again.failure.fingerprint}" in told


@pytest.mark.parametrize(
    ("variant", "tokens"), [("T-SKIPS", [0, 1]), pytest.param("T-STRICT", [0], marks=pytest.mark.slow)]
)
def test_a_planted_bug_shrinks_to_the_smallest_world(variant: str, tokens: list[int], tmp_path: Path) -> None:
    drawn = scenarios(protocol="t_agree", variant=variant, max_faults=0, params=SMALL)
    scenario, examples, told = shrunk(drawn, tmp_path)
    assert scenario == agreed({"tokens": tokens}, variant, name="drawn")
    assert examples <= 400
    says_how_it_fails(scenario, told, tmp_path)


@pytest.mark.parametrize(("asserts", "raises"), [(False, DoesNotHold), (True, ExceptionGroup)])
def test_two_findings_of_holds_count_as_one_failure(asserts: bool, raises: type[BaseException], tmp_path: Path) -> None:
    """Both findings leave `holds` at the same line. An assertion of the test itself is another failure (docs/ci.md)."""

    @settings(SHRINKS, max_examples=20)
    @given(st.sampled_from([smallest("T-SKIPS"), smallest("T-STRICT")]))
    def test(scenario: Scenario) -> None:
        assert not asserts or scenario == smallest("T-SKIPS")
        holds(scenario, save=tmp_path)

    with pytest.raises(raises):
        test()
    assert len(list(tmp_path.iterdir())) == 1


# ---- a user's protocol, on flat scenarios


class Wakes(Program[Any]):
    """Rank 0 wakes the others for a wave of steps, perhaps with several messages. A message that arrives after its wave
    is stale.
    """

    def is_stale(self, woken: int, wave: int) -> bool:
        return woken < wave

    probes = ("stale",)

    async def run(self, rank: Rank, prepared: Any) -> None:
        steps, duplicates = prepared
        group, wakes, wave = rank.host("h"), rank.mailbox("wakes"), 0
        while rank.rank != 0 or wave == 0:
            if rank.rank == 0:
                for peer, _ in itertools.product(group.ranks[1:], range(1 + duplicates)):
                    rank.send(peer, "wakes", wave, "wake")
            elif self.is_stale(await wakes.get("asleep", idle=True), wave):  # type: ignore[arg-type]
                rank.probe("stale")
                continue
            for _ in range(steps):
                rank.step += 1
                if rank.rank != 0:
                    await wakes.poll("awake")  # a rank that is awake ignores further messages
                await group.all_reduce(np.ones(1, np.int32), site="step")
            wave += 1


class WakesWhenever(Wakes):
    """The faulty twin: each message starts a wave."""

    def is_stale(self, woken: int, wave: int) -> bool:
        return False


def woken(kind: type[Wakes], ranks: int, steps: int, duplicates: int) -> Subject:
    return Subject(world_of(ranks, ["h"]), kind(), (steps, duplicates))


flat = {"ranks": st.integers(2, 3), "steps": st.integers(1, 3), "duplicates": st.integers(0, 2)}


def test_all_worlds_of_a_protocol_with_mailboxes_are_proven() -> None:
    """There are 18 worlds; Hypothesis draws until it has seen all."""
    found: dict[tuple[int, ...], Explored] = {}

    @settings(max_examples=200)
    @given(**flat)
    def test(**drawn: int) -> None:
        found[tuple(drawn.values())] = holds(woken(Wakes, **drawn), schedules=300)

    test()
    assert len(found) == 18
    assert {explored.verdict for explored in found.values()} == {"proven"}
    assert max(explored.exploration.runs for explored in found.values()) > 40, "a proof of few schedules shows little"


def test_a_stale_wake_shrinks_to_the_smallest_world() -> None:
    examples: list[tuple[dict[str, int], bool]] = []

    @SHRINKS
    @given(**flat)
    def test(**drawn: int) -> None:
        examples.append((drawn, False))
        try:
            holds(woken(WakesWhenever, **drawn))
        except AssertionError:
            examples[-1] = drawn, True
            raise

    with pytest.raises(AssertionError, match="HANG:COLLECTIVE"):
        test()
    assert examples[-1][0] == {"ranks": 2, "steps": 1, "duplicates": 1}
    assert len(examples) - [failed for _, failed in examples].index(True) <= 30  # measured: 15


# ---- the text of a failure, and the saved files


def test_holds_works_and_saves_without_hypothesis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(AssertionError) as raised:
        holds(smallest("T-SKIPS", name="a/b"), schedules=7, strategy="random")
    [file] = Path(".dpsim").iterdir()
    assert re.fullmatch(r"a-b-[0-9a-f]{8}\.yaml", file.name)
    assert str(raised.value).startswith("VIOLATED  HANG:COLLECTIVE")
    words = str(raised.value).splitlines()[-1].split(" ")
    word = words.pop(3)
    assert words == ["replay:", "dpsim", "replay", "--module", "tests.protocols"]
    assert read_token(word)[2:] == ("HANG:COLLECTIVE:MISSING_RANK", "random", 7)
    with pytest.raises(AssertionError) as raised:
        holds(woken(WakesWhenever, 2, 1, 1))
    assert "replay" not in str(raised.value)
    assert len(list(Path(".dpsim").iterdir())) == 1, "a subject has no scenario to save"


@pytest.mark.slow
def test_of_all_examples_that_fail_the_smallest_is_saved(tmp_path: Path) -> None:
    failed: list[int] = []

    @SHRINKS
    @given(st.integers(0, 1_000))
    def test(number: int) -> None:
        if number >= 3:
            failed.append(number)
            holds(smallest("T-SKIPS", name=f"world-{number}"), save=tmp_path)

    with pytest.raises(AssertionError):
        test()
    assert len(set(failed)) > 1
    [file] = tmp_path.iterdir()
    assert load_scenario(file).name == "world-3"


def test_a_program_that_does_nothing_is_not_proven() -> None:
    async def nothing(rank: Rank) -> None:
        rank.probe("here")

    async def decides(rank: Rank) -> None:
        rank.decide("plan", 1, "h")

    async def sleeps(rank: Rank) -> None:
        await rank.sleep(1, "nap")

    async def idles(rank: Rank) -> None:
        await rank.mailbox("box").get("asleep", idle=True)

    async def launches(rank: Rank) -> None:
        rank.stream("main").launch("kernel", touch)

    async def polls(rank: Rank) -> None:
        await rank.mailbox("box").poll("look")

    async def meets(rank: Rank) -> None:
        await rank.host("h").barrier()

    async def starts(rank: Rank) -> None:
        await rank.start("thread", sleeps).join("join")

    def subject(script: Script, **expected: Any) -> Subject:
        program = Scripted(script)
        program.threaded = script is starts
        return Subject(world_of(2, ["h"]), program, **expected)

    for script in (nothing, decides, sleeps, idles):
        with pytest.raises(DoesNotHold, match="expected held, got vacuous"):
            holds(subject(script))
        assert holds(subject(script, expected=Expected("vacuous"))).verdict == "vacuous"
    for script in (launches, polls, meets, starts):
        assert holds(subject(script)).verdict == "proven"
        with pytest.raises(DoesNotHold, match="expected vacuous, got proven"):
            holds(subject(script, expected=Expected("vacuous")))


def test_ranks_that_only_decide_may_disagree_all_the_same() -> None:
    async def script(rank: Rank) -> None:
        rank.decide("plan", rank.rank, "h")

    with pytest.raises(AssertionError, match="DISAGREEMENT"):
        holds(Subject(world_of(2, ["h"]), Scripted(script)))


def test_a_planted_fault_that_never_happens_is_no_success() -> None:
    nowhere = [{"kind": "skip", "rank": 1, "at": {"site": "dp.agre", "ordinal": 0}}]
    with pytest.raises(AssertionError) as raised:
        holds(smallest(faults=nowhere))
    assert str(raised.value) == "drawn: never applied: skip: rank 1 never reached dp.agre[0]; did you mean dp.agree?"


LATE = {"rank": 1, "by": "1ms", "at": {"site": "dp.agre"}}


def test_an_unmet_delay_of_a_scenario_fails() -> None:
    """`holds` fails if a delay in the scenario never applies. It does not fail for a delay that Hypothesis drew,
    because a small world may not reach it.
    """
    with pytest.raises(DoesNotHold, match=r"never applied: delay: rank 1 never reached dp\.agre; did you mean"):
        holds(smallest(delays=[LATE]))

    @settings(max_examples=1)
    @given(st.just([LATE]))
    def drawn(delays: list[Any]) -> None:
        assert holds(smallest(delays=delays)).verdict == "proven"

    drawn()


SKIP = [{"kind": "skip", "rank": 1, "at": {"site": "dp.agree", "ordinal": 0}}]


def test_holds_compares_the_verdict_with_what_the_scenario_expects(tmp_path: Path) -> None:
    for expect in ({"class": "HANG:*"}, {"explored": {"class": "HANG", "culprit": {"rank": 1}}}):
        assert holds(smallest(ranks=3, faults=SKIP, expect=expect), save=tmp_path).verdict == "violated"
    with pytest.raises(DoesNotHold) as raised:
        holds(smallest(ranks=3, faults=SKIP, expect={"class": "HANG", "culprit": {"rank": 0}}), save=tmp_path)
    line = "expected: violated, HANG, culprit rank 0; NOT met: expected rank 0 as culprit, got rank 1 in step 0"
    assert line in str(raised.value).splitlines()
    with pytest.raises(DoesNotHold, match="drawn: expected violated, got proven"):
        holds(smallest(expect={"verdict": "violated"}))
    assert holds(smallest(expect={"explored": "proven"})).verdict == "proven"


def test_a_folder_that_cannot_be_written_hides_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DoesNotHold, match=r"scenario, not saved: (Not a directory|File exists):") as raised:
        holds(smallest(faults=SKIP), save=tmp_path / "file")
    assert raised.value.replay.startswith("pytest ")


def test_saving_follows_no_link(tmp_path: Path) -> None:
    scenario = smallest("T-SKIPS")
    with pytest.raises(DoesNotHold):
        holds(scenario, save=tmp_path)
    [file] = tmp_path.iterdir()
    (tmp_path / "mine").write_text("mine")
    file.unlink()
    file.symlink_to(tmp_path / "mine")
    with pytest.raises(DoesNotHold):
        holds(scenario, save=tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not file.is_symlink()
    assert load_scenario(file) == scenario


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    """`holds_again` replays a failure along its schedule. After the program is repaired, it explores all schedules,
    with the drawn delays.
    """
    with pytest.raises(DoesNotHold) as raised:
        holds(smallest("T-SKIPS", delays=[{**LATE, "at": {"site": "dp.agree"}}]), save=tmp_path)
    token = read_token(raised.value.replay.partition("=")[2])
    with pytest.raises(DoesNotHold, match=r"replayed along .* the same run again") as again:
        holds_again(token, "as before")
    assert again.value.replay == "as before"
    mended = token.scenario.model_copy(update={"protocol": smallest().protocol})
    assert holds_again(token._replace(scenario=mended)).verdict == "proven"
    late = mended.model_copy(update={"delays": smallest(delays=[LATE]).delays})
    assert holds_again(token._replace(scenario=late)).verdict == "proven"


def test_a_schedule_too_long_for_a_token_is_searched_again(tmp_path: Path) -> None:
    with pytest.raises(DoesNotHold) as raised:
        holds(smallest("T-SKIPS"), save=tmp_path)
    token = read_token(raised.value.replay.partition("=")[2])._replace(steps=())
    with pytest.raises(DoesNotHold, match="HANG:COLLECTIVE"):
        holds_again(token)


class Fails(SizedProgram):
    async def run(self, rank: Rank, prepared: Any) -> None:
        raise ValueError("as the test asks")


@pytest.mark.parametrize(("ranks", "replayed"), [(2, True), (65, False)])
def test_a_world_for_which_there_is_no_token_is_saved_all_the_same(tmp_path: Path, ranks: int, replayed: bool) -> None:
    scenario = smallest("T-SKIPS", ranks)
    with pytest.raises(DoesNotHold) as raised:
        holds(scenario, schedules=1, save=tmp_path)
    *before, last = str(raised.value).splitlines()
    assert [file.suffix for file in tmp_path.iterdir()] == [".yaml"]
    assert before[-1].startswith("replay: pytest ") == bool(raised.value.replay) == replayed
    assert last.startswith("step by step: dpsim replay ") == replayed
    why = "too large for a token (65 ranks; expected at most 64)"
    said = f"not to be replayed by a command: {why}; the scenario is saved"
    assert (last == said) != replayed


def test_the_module_of_a_protocol_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command names the protocol's module by its path, which is the same on another machine. A module elsewhere has
    its name.
    """
    registry.protocols()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    registry.register_protocol("fails")(Fails)
    with pytest.raises(AssertionError) as raised:
        holds(sized("fails"), save=tmp_path)
    assert str(raised.value).endswith(f" --module {Path(__file__).relative_to(ROOT)}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError) as raised:
        holds(sized("fails"), save=tmp_path)
    assert str(raised.value).endswith(f" --module {__name__}")


def test_hypothesis_receives_events_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    events: set[str] = set()
    targets: list[float] = []
    monkeypatch.setattr(hypothesis, "event", events.add)
    monkeypatch.setattr(hypothesis, "target", lambda observed, label: targets.append(observed))

    @settings(max_examples=1)
    @given(st.just(2))
    def test(ranks: int) -> None:
        holds(woken(Wakes, ranks, 1, 1))

    test()
    races = {"race: awake before delivers wake", "race: delivers wake before awake"}
    assert events == {"verdict: proven", "probe: stale", *races}
    assert targets == [2]


@settings(max_examples=3)
@given(st.integers(1, 3))
def test_holds_may_be_called_twice_in_one_example(steps: int) -> None:
    holds(woken(Wakes, 2, steps, 1))
    holds(woken(Wakes, 2, steps, 0))


def test_the_profiles_ci_and_nightly_of_hypothesis_differ() -> None:
    """The profiles of Hypothesis in conftest.py."""
    ci, nightly = settings.get_profile("ci"), settings.get_profile("nightly")
    assert (ci.derandomize, ci.deadline) == (True, None)
    assert (nightly.derandomize, nightly.deadline) == (False, None)
    assert nightly.max_examples >= 10 * ci.max_examples


# ---- losses


class Exhausts(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        raise MemoryError


def test_a_loss_is_neither_a_pass_nor_a_violation() -> None:
    with pytest.raises(Lost, match="this world: no memory"):
        holds(Subject(world_of(2, ["dp_cpu"]), Exhausts()))
