"""stealing: each rank has tasks. A rank without tasks asks the others for one, until no task is left anywhere.

    steal.post  asks another rank for a task           task.post, none.post  answer it
    done.post   tells rank 0 that a task is over       stop.post             rank 0 ends all ranks

The step of a rank is the number of tasks that it has done. Ranks look for requests before each task.
"""

from __future__ import annotations

from random import Random
from typing import Any

from dpsim.contract.interface import Rank
from tests.blame.drawn import Drawn, drawn, sized


def draw(random: Random) -> Drawn:
    size, _ = sized(random)
    tasks = tuple(random.choice((0, 0, 1, 2, 4, 6)) for _ in range(size - 1))
    tasks = (*tasks, 6) if random.random() < 0.5 else (3, *tasks)
    lengths = tuple(random.choice((10**3, 10**5)) for _ in range(size))

    def answer(rank: Rank, thief: int, left: int) -> int:
        if left > 1:
            rank.send(thief, "work", ("task", rank.rank), "task.post")
            return left - 1
        rank.send(thief, "work", ("none", rank.rank), "none.post")
        return left

    async def run(rank: Rank) -> None:
        box, left, finished, asked = rank.mailbox("work"), tasks[rank.rank], 0, 0
        while True:
            while left:
                while (word := await box.poll("work.poll")) is not None:
                    told: Any = word
                    if told[0] == "steal":
                        left = answer(rank, told[1], left)
                    else:
                        finished += 1
                await rank.sleep(lengths[rank.rank], "task.run")
                left -= 1
                rank.send(0, "work", ("done", rank.rank), "done.post")
                rank.step += 1
            if asked < size - 1:
                asked += 1
                rank.send((rank.rank + asked) % size, "work", ("steal", rank.rank), "steal.post")
            waits = True
            while waits:
                if rank.rank == 0 and finished == sum(tasks):
                    for to in range(1, size):
                        rank.send(to, "work", ("stop", 0), "stop.post")
                    return
                mail: Any = await box.get("work.get")
                if mail[0] == "stop":
                    return
                if mail[0] == "steal":
                    answer(rank, mail[1], 0)
                finished += mail[0] == "done"
                left += mail[0] == "task"
                waits = not (mail[0] == "task" or (mail[0] == "none" and asked < size - 1))

    return drawn(size, run)
