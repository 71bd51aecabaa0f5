"""Selects the adapter that puts one kind of question to a release of vLLM.

    ask(DECIDE, row, "0.33.0")    # the row with vLLM's answer

An adapter calls vLLM's function with the arguments of its release. It names the first and the last release for which it
was written. The check refuses a later release with a message that names these releases, because functions may have
moved, or have other arguments. `dpsim check-engine --as RELEASE` puts the questions all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dpsim.vllm.releases import V0_14, V0_17, V0_24, V0_33, Release
from dpsim_engine.comparison import Comparison, Row, numbers, series
from dpsim_engine.live import batches, candidates, clients, configurations, coordinators, graphs, groups, loops
from dpsim_engine.live.installed import NotAsked


class Adapter(NamedTuple):
    """A function that puts a question to some releases of vLLM.

    `ask` takes a question, and returns the fields of its row that contain the answer. It returns None if this machine
    cannot answer.
    """

    first: Release
    last: Release
    ask: Callable[[Row], Row | None]

    def knows(self, release: str) -> bool:
        return series(self.first.name) <= series(release) <= series(self.last.name)

    def __str__(self) -> str:
        return self.first.name if self.first is self.last else f"{self.first.name} to {self.last.name}"


ADAPTERS: dict[str, tuple[Adapter, ...]] = {
    "balance": (Adapter(V0_14, V0_33, clients.balance),),
    "decide": (Adapter(V0_14, V0_33, groups.decide),),
    "dispatch_v1": (Adapter(V0_14, V0_14, graphs.dispatch_014), Adapter(V0_17, V0_33, graphs.dispatch)),
    "ladder": (
        Adapter(V0_17, V0_17, graphs.ladder_017),
        Adapter(V0_24, V0_24, graphs.ladder_024),
        Adapter(V0_33, V0_33, graphs.ladder_033),
    ),
    "sizes_004": (Adapter(V0_17, V0_17, graphs.sizes_004),),
    "choices_004": (Adapter(V0_17, V0_17, graphs.choices_004),),
    "need_mask": (Adapter(V0_24, V0_33, batches.need_mask),),
    "slices": (Adapter(V0_14, V0_33, batches.slices),),
    "slices_v2": (Adapter(V0_33, V0_33, batches.slices_v2),),
    "last_ubatch_empty": (Adapter(V0_14, V0_33, batches.last_empty),),
    "metadata": (Adapter(V0_14, V0_14, batches.metadata_014), Adapter(V0_17, V0_33, batches.metadata)),
    "config": (Adapter(V0_14, V0_14, configurations.config), Adapter(V0_33, V0_33, configurations.config)),
    "v2_dispatch": (Adapter(V0_33, V0_33, candidates.v2_dispatch),),
    "v2_sync": (Adapter(V0_33, V0_33, candidates.v2_sync),),
    "waves": (Adapter(V0_14, V0_14, loops.waves), Adapter(V0_24, V0_33, loops.waves)),
    "coordination": (
        Adapter(V0_14, V0_14, coordinators.coordination),
        Adapter(V0_24, V0_33, coordinators.coordination),
    ),
    "config_hash": (
        Adapter(V0_14, V0_14, configurations.config_hash),
        Adapter(V0_33, V0_33, configurations.config_hash),
    ),
}

STORED_ONLY = {
    "flow": "asks a runner, which wants a model and a device",
    "captures_004": "captures want a device",
}
"""Kinds that the check compares only with stored answers, and the reasons."""


def adapter(kind: Comparison[Any], release: str) -> Adapter:
    """Returns the adapter of this kind and release.

    Raises NotAsked if there is none. This is trouble if the release is newer than all known ones.
    """
    if not numbers(release):
        raise NotAsked(f"the installed release is not known: {release}; name it with --as RELEASE")
    if kind.name in STORED_ONLY:
        raise NotAsked(f"{STORED_ONLY[kind.name]}; --stored compares its stored answers", by_design=True)
    if not kind.of_release(release):
        raise NotAsked(f"{release} does not contain this function; {kind.known} does", by_design=True)
    known = ADAPTERS[kind.name]
    found = [one for one in known if one.knows(release)]
    if not found:
        between = series(known[0].first.name) <= series(release) <= series(known[-1].last.name)
        why = f"release {release} is not known; dpsim knows {', '.join(map(str, known))}"
        raise NotAsked(f"{why}; --as RELEASE treats it as one of them", by_design=between)
    return found[0]


def ask(kind: Comparison[Any], row: Row, by: Adapter) -> Row | None:
    """Returns a row with vLLM's answer, or None if this machine cannot answer.

    Raises NotAsked if the installed code is not what the adapter expects.
    """
    question = kind.question(row)
    try:
        answered = by.ask(question)
    except Exception as error:
        raise NotAsked(f"{type(error).__name__}: {error}") from error
    return None if answered is None else {**question, **answered}
