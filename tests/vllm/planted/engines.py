"""Mistakes in the parts of an engine around its steps: waves, pauses, front ends, deaths, the start, whole engines."""

from __future__ import annotations

from tests.vllm.planted.mistake import Mistake

ENGINE = (
    Mistake(
        "awake-before-resume",
        "engine",
        "engine/pause.py",
        "                await self.resume()\n                self.asleep = False\n",
        "                self.asleep = False\n                await self.resume()\n",
        "An engine that refuses to wake up runs forwards all the same.",
        "quick",
    ),
    Mistake(
        "pause-does-not-run",
        "engine",
        "engine/waves.py",
        "        self.pending_pause = True\n        self.engines_running = True\n",
        "        self.pending_pause = True\n",
        "An idle engine that is to pause never meets the others to vote.",
        "shipped",
    ),
    Mistake(
        "later-wave-dropped",
        "engine",
        "engine/coordination.py",
        "        if event.wave < self.current_wave or (event.wave == self.current_wave and self.engines_running):\n",
        "        if event.wave < self.current_wave or self.engines_running:\n",
        "The coordinator drops the wake of a wave that is later than the one that it believes in.",
        "shipped",
    ),
    Mistake(
        "old-wave-completes",
        "engine",
        "engine/coordination.py",
        "        if event.wave < self.current_wave:\n            return None\n"
        "        self.current_wave, self.engines_running = event",
        "        self.current_wave, self.engines_running = event",
        "The end of an old wave ends the present one.",
        "quick",
    ),
    Mistake(
        "counts-by-step-alone",
        "engine",
        "engine/coordination.py",
        "        if (event.wave, event.step) > self._last_counted:\n",
        "        if event.step > self._last_counted[1]:\n",
        "Counts of the first steps of a wave are taken for old ones.",
        "quick",
    ),
    Mistake(
        "aborted-and-gone",
        "engine",
        "engine/frontend.py",
        '        for engine in sorted(self.aborted_on):\n            await self.ask([engine], "ECHO")\n',
        "",
        "A front end stops before its engines have seen what it aborted.",
        "shipped",
    ),
)

DEATHS = (
    Mistake(
        "idle-engine-not-told",
        "engine_watched",
        "engine/monitor.py",
        '            for box in self.boxes:\n                rank.send(rank.rank, box, ("GONE",), "monitor.gone")\n',
        "",
        "An engine that waits for messages does not hear that another one is gone.",
        "shipped",
    ),
    Mistake(
        "owed-not-failed",
        "engine_watched",
        "engine/watched.py",
        "        for request in sorted(self.owed):\n            self.failed(request)\n",
        "",
        "Clients of requests that were never sent get neither an answer nor an error.",
        "shipped",
    ),
    Mistake(
        "survivor-ahead",
        "dp_survivors",
        "engine/survivors.py",
        "                self.made = await self.least(self.made)\n",
        "                self.made = max(self.made, await self.least(self.made))\n",
        "A rank that has ended the broken step does not make it again with the others.",
        "quick",
    ),
    Mistake(
        "survivor-same-stream",
        "dp_survivors",
        "engine/survivors.py",
        '        self.stream = rank.stream(kind("main", dead))\n',
        '        self.stream = rank.stream("main")\n',
        "Work of the survivors stands behind work that was broken off.",
        "shipped",
    ),
)

STARTUP = (
    Mistake(
        "answers-heard-twice",
        "startup",
        "startup/conversation.py",
        "        self._received[child] = number + 1\n",
        "",
        "A parent takes the first answer of a child for all that follow.",
        "shipped",
    ),
    Mistake(
        "hash-not-compared",
        "startup",
        "startup/frontend.py",
        "            if self.compared.coordinated(self.parallel):\n                self.compared.refuse(own, others)\n",
        "",
        "Engines with another parallel configuration serve.",
        "shipped",
    ),
    Mistake(
        "stores-left-open",
        "startup",
        "startup/participant.py",
        '            self.stores.pop().close("leave")\n',
        "            self.stores.pop()\n",
        "Who waits at the store of a parent that has failed does not hear that it has left.",
        "shipped",
    ),
    Mistake(
        "death-pipe-frees-one",
        "startup_watched",
        "startup/watched.py",
        "                for kind, domain, _ in self.kinds.communicators():\n",
        "                for kind, domain, _ in self.kinds.communicators()[:1]:\n",
        "A worker whose engine is gone is freed from one of its communicators only.",
        "shipped",
    ),
)

WHOLE = (
    Mistake(
        "aborts-after-result",
        "whole_engine",
        "whole/batch_queue.py",
        "        await self.take_aborts()\n        self.answers.finished(self.live.taken(oldest))\n",
        "        self.answers.finished(self.live.taken(oldest))\n        await self.take_aborts()\n",
        "A client receives the result of a request that was aborted while its batch ran (I-EL-12).",
        "quick",
    ),
    Mistake(
        "last-free-not-told",
        "whole_engine",
        "whole/pipeline_engine.py",
        "        return self.has_unfinished(pause) or (pause is not",
        "        return self.has_unfinished(pause) or (pause is",
        "Workers do not hear that the slot of the last request is free.",
        "shipped",
    ),
    Mistake(
        "workers-not-told",
        "whole_engine_watched",
        "whole/watched.py",
        "        for worker in self.layout.others(self.index):\n"
        '            self.rank.send(worker, DEATHS, word, "engine.left_worker")\n',
        "",
        "Workers take it for a death that their core leaves.",
        "shipped",
    ),
    Mistake(
        "count-of-rank-0",
        "whole_engine",
        "whole/stage_agreement.py",
        "        agreed = plan.num_tokens[index]\n",
        "        agreed = plan.num_tokens[0]\n",
        "A rank pads to the count of the first, where each runs its own.",
        "shipped",
    ),
    Mistake(
        "admits-while-paused",
        "whole_engine_dp",
        "whole/rank_engine.py",
        "        self.of_rank.admits = pause is PauseState.UNPAUSED\n",
        "",
        "An engine that is to pause lets requests in that have come since.",
        "quick",
    ),
    Mistake(
        "core-deaf-to-answers",
        "whole_engine_watched",
        "whole/watched.py",
        '    boxes: ClassVar[tuple[str, ...]] = ("input", ANSWERS)\n',
        '    boxes: ClassVar[tuple[str, ...]] = ("input",)\n',
        "A core that waits for an answer of its workers does not hear that another core is gone.",
        "shipped",
    ),
)

ENGINES = (*ENGINE, *DEATHS, *STARTUP, *WHOLE)
