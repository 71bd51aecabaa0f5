"""Tests a device that stops while it has work: its rank dies at an op, or one of its kernels raises. The schedule
chooses which of this work ends before, and the peers see the difference. The tests compare with brute force.
"""

from __future__ import annotations

import pytest

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.events import failing_word
from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.schedule import Footprint
from dpsim.contract.world import At, CommunicatorSpec, Fault, Kill, World
from dpsim.explore.order import Step
from dpsim.explore.strategies.base import Picker
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.graph.lives import Lives
from dpsim.sim.hosts.host import Host
from dpsim.sim.memory.device import Device
from tests.programs import Script, Scripted, run, set_to, world_of
from tests.soundness.worlds import all_ends, filled
from tests.worlds.explored import explored, missed
from tests.worlds.test_machine_gaps import case_of, fails

TOLERATED = ("DEATH:RANK", "HANG:COLLECTIVE:DEAD_RANK", "CRASH:KERNELERROR")
NONE_MISSED = (0, 0, 0)


async def sums(rank: Rank) -> Buffer:
    """Each rank polls a mailbox, so the ranks may arrive in either order, and adds on its device."""
    await rank.mailbox("nothing").poll("poll")
    main = rank.stream("main")
    x = filled(main, "x", size=1)
    rank.device("d").all_reduce(x, main, site="sum")
    return x


async def dies_after_the_sum(rank: Rank) -> None:
    """Rank 1 needs the sum, and then a message. Rank 0 may die before it sends the message."""
    x = await sums(rank)
    if rank.rank == 0:
        await rank.sleep(1, "last")
        rank.send(1, "told", True, "tell")
    else:
        await x.read("read")
        await rank.mailbox("told").get("wait")


async def fails_beside_the_sum(rank: Rank) -> None:
    """Both ranks add, and a kernel on another stream of rank 0 raises."""
    x = await sums(rank)
    if rank.rank == 0:
        other = rank.stream("other")
        z = other.alloc(1, "int32", "z")
        other.launch("bad", fails, writes=[z])
        await z.read("read.z")
    else:
        await x.read("read")


DIES = world_of(2, devices=["d"], faults=(Fault("die", 0, At("last", 0)),))
FAILS = world_of(2, devices=["d"])


def fails_on(stream: Stream) -> None:
    stream.launch("bad", fails, writes=[stream.alloc(1, "int32", "z")])


def tolerant(world: World, script: Script, strategy: str = "dpor") -> Explored:
    return explore_subject(Subject(world, Scripted(script), switched_off=TOLERATED), strategy, schedules=200)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize(("world", "script"), [(DIES, dies_after_the_sum), (FAILS, fails_beside_the_sum)])
def test_a_device_may_stop_before_or_after_a_collective(world: World, script: Script, memory: bool) -> None:
    assert missed(case_of(world, script, memory)) == NONE_MISSED


def test_exploring_finds_the_peer_that_waits_for_a_dead_rank() -> None:
    found = tolerant(DIES, dies_after_the_sum)
    assert found.failure is not None
    assert found.failure.problem.klass == "HANG:MAILBOX:DEAD_RANK"
    assert found.confirmed


def test_the_peers_of_a_rank_whose_kernel_raises_may_finish_or_block() -> None:
    assert all_ends(FAILS, fails_beside_the_sum) == {("raised", "finished"), ("raised", "blocked")}


def test_twins_without_a_separate_loss_of_the_device_miss_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twins: a device that stops at once, and a DPOR that does not restart when it learns that a kernel
    raises. Both miss outcomes.
    """
    with monkeypatch.context() as patch:
        patch.setattr(Device, "die", lambda self, host: self.lose())
        assert tolerant(DIES, dies_after_the_sum).verdict == "proven", "the broken machine proves a world that can fail"
    monkeypatch.setattr(Dpor, "raised", lambda self, rank: None)
    assert len(all_ends(FAILS, fails_beside_the_sum)) == 1


async def may_fail_too(rank: Rank) -> None:
    """A kernel of rank 0 always raises. A kernel of rank 1 raises unless its poll finds a message, so only some
    schedules show it.
    """
    if rank.rank == 0:
        rank.send(1, "told", True, "tell")
        fails_on(rank.stream("main"))
        return
    told = await rank.mailbox("told").poll("poll") if rank.rank == 1 else True
    x = filled(rank.stream("main"), "x", size=1)
    rank.device("d").all_reduce(x, rank.stream("main"))
    if not told:
        fails_on(rank.stream("other"))
    if rank.rank == 2:
        await x.read("read")


def test_the_search_knows_each_rank_with_a_kernel_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """DPOR learns of each rank whose kernel raises. The faulty twin records only the first, so it misses that rank 1's
    device stops before its sum ends.
    """
    world = World(3, (CommunicatorSpec("d", "d", "device", (1, 2)),))
    broken = ("raised", "raised", "blocked")
    ends = {("raised", "finished", "finished"), ("raised", "raised", "finished"), broken}
    assert all_ends(world, may_fail_too) == ends
    raised = Dpor.raised

    def of_the_first(self: Dpor, rank: int) -> None:
        if not self.known_to_fail:
            raised(self, rank)

    monkeypatch.setattr(Dpor, "raised", of_the_first)
    assert all_ends(world, may_fail_too) == ends - {broken}


async def fails_without_the_last(rank: Rank) -> None:
    """A kernel of rank 0 raises unless rank 0 finds the third message. Neither the first run nor the second
    shows this.
    """
    if rank.rank > 0:
        rank.send(0, f"box{rank.rank}", True, "send")
        return
    found = [await rank.mailbox(f"box{sender}").poll(f"poll{sender}") for sender in (1, 2, 3)]
    if not found[-1]:
        fails_on(rank.stream("main"))


def test_a_search_that_begins_anew_turns_all_races_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """DPOR restarts when it learns of a kernel that raises, and reverses all races of the new first run. The faulty
    twin takes the first steps of that run for repeated ones, and misses outcomes.
    """
    case = case_of(World(4, ()), fails_without_the_last)
    assert missed(case) == NONE_MISSED
    turn_round = Dpor._turn_round

    def of_the_rest(self: Dpor, label: str, races: list[Step], causes: int, end: int, footprint: Footprint) -> None:
        if not self.left_out or end >= 3:
            turn_round(self, label, races, causes, end, footprint)

    monkeypatch.setattr(Dpor, "_turn_round", of_the_rest)
    assert missed(case)[0]


@pytest.mark.parametrize("strategy", ["dpor", "portfolio"])
def test_a_world_without_kernel_errors_and_deaths_has_no_extra_choices(strategy: str) -> None:
    async def script(rank: Rank) -> None:
        await (await sums(rank)).read("read")

    found = tolerant(FAILS, script, strategy)
    assert (found.verdict, found.exploration.runs, found.exploration.steps) == ("proven", 1, 2)  # the polls


# ---- where a host gets the error of a kernel


async def hears(rank: Rank) -> object:
    """One stream fails while the host waits for another. The host may get the error at any of its later waits, even if
    that wait's own data are ready.
    """
    main, other = rank.stream("main"), rank.stream("other")
    x, z = filled(main, "x", size=1), other.alloc(1, "int32", "z")
    other.launch("bad", fails, writes=[z])
    copied = x.read("read")
    done = main.record()
    heard: list[object] = []
    try:
        heard.append(bool(await done.query("query")))
        await rank.mailbox("nothing").poll("poll")
        heard.append(int((await copied)[0]))
    except KernelError:
        heard.append("error")
    return tuple(heard)


def test_any_wait_of_a_host_raises_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missed(case_of(world_of(1), hears, memory=True)) == NONE_MISSED
    monkeypatch.setattr(Host, "_after_failure", lambda self, op: op)
    with pytest.raises(AssertionError):  # the assertion in missed fails: one class of schedules has two outcomes
        assert missed(case_of(world_of(1), hears, memory=True)) == NONE_MISSED


async def fails_twice(rank: Rank) -> None:
    """Two kernels raise on two streams; the host gets the error of the one that raises first."""
    for name in ("one", "other"):
        on = rank.stream(name)
        on.launch(f"bad.{name}", fails, writes=[on.alloc(1, "int32", name)])
    await rank.stream("one").record().synchronize("sync")


def test_of_two_kernels_that_raise_either_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missed(case_of(world_of(1), fails_twice)) == NONE_MISSED
    monkeypatch.setattr(Dpor, "lost", lambda self, candidates: None)
    assert missed(case_of(world_of(1), fails_twice))[0]


def test_a_kernel_that_raises_never_ends() -> None:
    """A kernel that raises never ends, and no later work on its stream ends. So an event after it never passes."""

    async def script(rank: Rank) -> object:
        main = rank.stream("main")
        z = main.alloc(1, "int32", "z")
        main.launch("bad", fails, writes=[z])
        done = main.record()
        main.launch("behind", set_to, writes=[z], args=(1,))
        try:
            return bool(await done.query("query"))
        except KernelError:
            return "error"

    assert missed(case_of(world_of(1), script)) == NONE_MISSED
    for choose in (None, lambda label, options: 0):
        learned = [raw for raw in run(world_of(1), script, choose=choose).journals[0] if raw[KIND] == "decision"]
        assert True not in [raw[DECISION_VALUE] for raw in learned]


# ---- schedules


def test_a_schedule_names_the_ranks_whose_kernels_raise() -> None:
    """A schedule names the ranks whose kernels raise, so another run can repeat it, strictly or not."""
    strategy = Dpor()
    strategy.begin()
    run(FAILS, fails_beside_the_sum, choose=strategy)
    assert failing_word(0) not in strategy.schedule, "no rank has observed the failed kernel yet"
    strategy.end(whole=True)
    assert strategy.begin()
    done = run(FAILS, fails_beside_the_sum, choose=strategy)
    assert strategy.schedule[0] == failing_word(0)
    for strict in (True, False):
        again: Picker = ScheduleReplay(strategy.schedule, strict)
        again.begin()
        assert run(FAILS, fails_beside_the_sum, choose=again).journals == done.journals
        again.end(whole=True)
        assert again.schedule == strategy.schedule


def test_another_process_resumes_dpor_with_the_ranks_whose_kernels_raise() -> None:
    """DPOR's state between two runs contains the ranks whose kernels raise, so another process can resume it."""
    whole, pieces = Dpor(), 0
    state = whole.state()
    while not whole.exhausted:
        whole = Dpor()
        whole.resume(state)
        whole.begin()
        run(FAILS, fails_beside_the_sum, choose=whole, memory=False)
        whole.end(whole=True)
        state, pieces = whole.state(), pieces + 1
    assert pieces == tolerant(FAILS, fails_beside_the_sum).exploration.runs


# ---- beside other deaths


async def joins_both(rank: Rank) -> None:
    main = rank.stream("main")
    rank.device("d").all_reduce(main.alloc(1, "int32", "x"), main)
    await rank.host("h").barrier()


TWO_KILLS = world_of(2, ["h"], ["d"], kills=(Kill(0), Kill(1)))


def test_of_two_that_may_be_killed_either_may_die_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks may be killed. If one dies and breaks a collective, the other may hang in it and need not die. In the
    faulty twin the two deaths do not conflict, and the explorer misses outcomes.
    """
    case = case_of(TWO_KILLS, joins_both)
    assert missed(case) == NONE_MISSED
    _, outcomes = explored(case)

    def alone(self: Lives, rank: int, sure: bool = True) -> Footprint:
        return ((("life", rank), "w"),)

    monkeypatch.setattr(Lives, "end_of", alone)
    assert explored(case)[1] < outcomes


async def sums_beside_a_failure(rank: Rank) -> None:
    main = rank.stream("main")
    rank.device("d").all_reduce(main.alloc(1, "int32", "x"), main)
    if rank.rank == 1:
        fails_on(rank.stream("other"))


def test_a_killable_rank_may_block_in_a_collective_that_a_failure_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 may be killed, and may also hang in the collective that rank 1's failure broke. In the faulty twin a kill
    and the loss of a device do not conflict.
    """
    world = world_of(2, devices=["d"], kills=(Kill(0),))
    ends = {("died", "raised"), ("finished", "raised"), ("blocked", "raised")}
    assert all_ends(world, sums_beside_a_failure) == ends
    assert missed(case_of(world, sums_beside_a_failure)) == NONE_MISSED
    end_of = Lives.end_of

    def losses_without_conflict(self: Lives, rank: int, sure: bool = True) -> Footprint:
        return ((("life", rank), "w"),) if sure else end_of(self, rank, sure)

    monkeypatch.setattr(Lives, "end_of", losses_without_conflict)
    assert all_ends(world, sums_beside_a_failure) == ends - {("blocked", "raised")}


async def sends(rank: Rank) -> None:
    x = filled(rank.stream("main"), "x", size=1)
    if rank.rank == 0:
        rank.device("d").send(x, 1, rank.stream("main"))
    else:
        rank.device("d").recv(x, 0, rank.stream("main"))
        await rank.sleep(1, "last")


def test_a_killable_rank_may_block_in_a_collective_that_a_death_broke() -> None:
    world = world_of(2, devices=["d"], faults=(Fault("die", 1, At("last", 0)),), kills=(Kill(0),))
    assert missed(case_of(world, sends)) == NONE_MISSED
    assert ("blocked", "died") in all_ends(world, sends)
