"""Random scripts from a seed, in rows. Each row aims at one way in which dpsim could claim a proof that does not hold.

script = ROWS["time-outs"](random.Random(7))

events      queries of events after all kinds of waits; later instructions depend on the result
time-outs   gets with a time-out, of messages that ranks send after sleeps and delays, through other ranks
kernels     kernels that use objects of their module, and kernels that do not
modules     numbers that a rank writes into a module, and that it or another rank reads there
floats      a NaN under max, min and sum, and sums that depend on the order of their terms
promise     threads that append to one list, in an order that flags define or that is undefined
groups      groups that the ranks make themselves, and use
looks       queries of calls that a rank has started
any source  receives from any source
replays     replays that read a buffer, with and without a write between them
nothing     ranks that sleep, wait in `idle` or make almost no call
threads     threads with messages, flags, collectives and kernels
mixed       a script of `generator`, with time-outs and sleeps
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

from tests.interpreter.generator import Drawn, random_script, rested
from tests.interpreter.language import Instruction, Script, tidy
from tests.interpreter.sharing import CLEAN, DIRTY, MODULES, OWN

Said = list[Instruction]

SUMS: tuple[list[object], ...] = ([1, 1e8, -1e8], [-1e8, 1e8, 3], [1e30, 1e30, 1e-30])
"""Terms whose sum depends on their direction, and terms whose product depends on their order."""


def _script(lists: list[Said], **more: object) -> Script:
    everybody = tuple(range(len(lists)))
    whole = Script(tuple(map(tuple, lists)), (("h", everybody),), (("d", everybody),))
    return tidy(replace(whole, **more))  # type: ignore[arg-type]


def _size(rng: random.Random) -> int:
    return rng.choice((2, 2, 2, 3))


def events(rng: random.Random) -> Script:
    world = Drawn(rng, "events", rng.choice((1, 2, 2)))
    for _ in range(rng.randint(3, 7)):
        one = world.one()
        rng.choice((one.record, one.ask, one.ask, one.wait, one.read, one.kernel, world.device, world.mail))()
        if one.said and one.said[-1][0] == "query" and world.size > 1 and rng.random() < 0.7:
            one.said.append(("odd", ("post", rng.randrange(world.size), "p")))
    return world.script()


def timeouts(rng: random.Random) -> Script:
    lists: list[Said] = [[] for _ in range(_size(rng))]
    times = iter(rng.sample(range(5, 400), 20))
    for number in range(rng.randint(1, 3)):
        if rng.random() < 0.25:
            _chain(rng, lists, f"c{number}", next(times), next(times))
            continue
        sender, receiver = rng.sample(range(len(lists)), 2)
        box = rng.choice(("p", f"b{number}"))
        if rng.random() < 0.6:
            lists[sender].append(("sleep", next(times)))
        lists[sender].append(("post", receiver, box))
        take = rng.choice(("within", "within", "within", "get", "poll"))
        lists[receiver].append((take, box, next(times)) if take == "within" else (take, box))
    if rng.random() < 0.3:
        lists[rng.randrange(len(lists))].append(("odd", ("raise",)))
    delays = []
    for rank, said in enumerate(lists):
        for place, how in enumerate(said):
            if how[0] in ("get", "within") and rng.random() < 0.25:
                delays.append((rank, place, next(times)))
    mortal = (rng.randrange(len(lists)),) if not delays and rng.random() < 0.2 else ()
    for rank in mortal:
        lists[rank] = [*rested(lists[rank])]
    return _script(lists, delays=tuple(delays), mortal=mortal)


def _chain(rng: random.Random, lists: list[Said], box: str, asleep: int, until: int) -> None:
    """Adds a message that all ranks pass on. The first rank sleeps before it sends, and the last one waits with a
    time-out.
    """
    order = rng.sample(range(len(lists)), len(lists))
    lists[order[0]] += [("sleep", asleep), ("post", order[1], box)]
    for rank, following in pairwise(order[1:]):
        lists[rank] += [("get", box), ("post", following, box)]
    lists[order[-1]].append(("within", box, until))


def kernels(rng: random.Random) -> Script:
    lists: list[Said] = [[] for _ in range(rng.choice((1, 2)))]
    for said in lists:
        said.append(("alloc", "b", "s", 1))
        for _ in range(rng.randint(1, 3)):
            kernel = ("kernel", rng.choice(CLEAN if rng.random() < 0.75 else DIRTY), "s", ("b", 0, 1))
            said.append(("odd", kernel) if len(said) > 1 and rng.random() < 0.3 else kernel)
            _chat(rng, said, len(lists))
        if said[1][0] != "odd" and rng.random() < 0.7:
            said.append(("read", ("b", 0, 1), None))
    return _script(lists)


def modules(rng: random.Random) -> Script:
    lists: list[Said] = [[] for _ in range(_size(rng))]
    ways = rng.sample(MODULES, 2) if rng.random() < 0.9 else [*OWN]
    for number in range(rng.randint(2, 5)):
        rank = rng.randrange(len(lists))
        what = rng.random()
        if what < 0.3:
            _meet(rng, lists, f"w{number}")
        elif what < 0.5:
            _chat(rng, lists[rank], len(lists))
        else:
            way = rng.choice(ways)
            if way not in OWN and rng.random() < 0.7:
                lists[rank].append(("put", way))
            reader = rank if rng.random() < 0.7 else rng.randrange(len(lists))
            if rng.random() < 0.4:
                _meet(rng, lists, f"v{number}")
            lists[reader].append(("look", way))
    return _script(lists)


def floats(rng: random.Random) -> Script:
    lists: list[Said] = [[] for _ in range(_size(rng))]
    for number in range(rng.randint(1, 3)):
        values: list[object] = [rng.randint(0, 9) for _ in lists]
        chance = rng.random()
        if chance < 0.4:
            values[rng.randrange(len(values))] = "nan"
        elif chance < 0.7 and len(values) == 3:
            values = rng.choice(SUMS)
        shape = (rng.choice(("max", "min", "sum", "prod", "avg")), tuple(values))
        order = ("start", f"w{number}", "h", "float", shape), ("await", f"w{number}")
        for said in lists:
            said += order
            if rng.random() < 0.3:
                _chat(rng, said, len(lists))
    return _script(lists)


def promise(rng: random.Random) -> Script:
    flags, said = ("f", "g"), list[Instruction]()
    names = ["one", "two"][: rng.choice((1, 2, 2))]
    programs: list[Said] = [[] for _ in names]
    for program in programs:
        for _ in range(rng.randint(1, 3)):
            program.append(rng.choice((("flag", "f"), ("flag", "g"), ("set", "f"), ("set", "g"), ("append",))))
    said += [("spawn", name) for name in names]
    for name in rng.sample(names, len(names)):
        said += _some(rng, [], [("append",)], [("show",)], [("set", rng.choice(flags))])
        said += _some(rng, [("ended", name)], [("ended", name)], [])
    said += _some(rng, [], [("show",)], [("set", "f"), ("set", "g"), ("show",)])
    for name, program in zip(names, programs, strict=True):
        said += [("thread", name), *program]
    return _script([said], promise=True)


def replays(rng: random.Random) -> Script:
    x, y = ("x", 0, 1), ("y", 0, 1)
    marked = ("each",) if rng.random() < 0.8 else ()
    other = rng.choice(("s", "t"))
    said: Said = [("alloc", "x", "s", 1, *marked), ("alloc", "y", "s", 1), ("fill", "s", x), ("fill", "s", y)]
    kept: Said = [rng.choice((("copy", "s", x, y), ("mix", "s", x, y))) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.3:
        kept.insert(rng.choice((0, 0, 1)), ("fill", "s", x))
    said.append(("capture", "g", "s", tuple(kept)))
    for number in range(rng.randint(1, 3)):
        chance = rng.random()
        if chance < 0.4:
            said.append(("fill", "s", x))
        elif chance < 0.55:
            said += [("join", other, "s"), ("fill", other, x), *([("join", "s", other)] * (other != "s"))]
        said.append(("replay", "g", "s"))
        if rng.random() < 0.4:
            said.append(("read", rng.choice((x, y)), None))
        if rng.random() < 0.2:
            said += [("record", f"e{number}", "s"), (rng.choice(("query", "sync")), f"e{number}")]
    return _script([said])


def groups(rng: random.Random) -> Script:
    """Returns a script whose ranks make one or two groups, mostly in the same order, and use them."""
    lists: list[Said] = [[] for _ in range(_size(rng))]
    everybody = range(len(lists))
    members = {f"g{number}": tuple(sorted(rng.sample(everybody, 2))) for number in range(rng.randint(1, 2))}
    for rank, said in enumerate(lists):
        kinds = [kind for kind, own in members.items() if rank in own]
        if rng.random() < 0.2:
            kinds.reverse()
        for kind in kinds[: None if rng.random() < 0.9 else 1]:
            _some_chat(rng, said, len(lists))
            said += [("start", f"m{kind}", kind, "make", ()), ("await", f"m{kind}")]
        root = min(members["g0"])
        for kind in kinds:
            if kind == "g0" and ("start", "mg0", kind, "make", ()) in said:
                said += [("start", "b", kind, "broadcast", (1, root)), ("await", "b")]
        _some_chat(rng, said, len(lists))
    mortal = _mortal_ranks(rng, lists)
    return _script(lists, hosts=(("h", tuple(everybody)), *members.items()), mortal=mortal)


def looks(rng: random.Random) -> Script:
    """Returns a script whose ranks query whether their calls are over, and send messages about the results."""
    lists: list[Said] = [[] for _ in range(_size(rng))]
    for number in range(rng.randint(1, 2)):
        handle, op = f"w{number}", rng.choice(("barrier", "broadcast", "send", "send", "any"))
        sides: dict[int, Instruction] = {}
        first, second = rng.sample(range(len(lists)), 2)
        if op in ("barrier", "broadcast"):
            shape = () if op == "barrier" else (1, first)
            sides = dict.fromkeys(range(len(lists)), ("start", handle, "h", op, shape))
        else:
            receive = ("any", (1,)) if op == "any" else ("recv", (1, first))
            sides = {first: ("start", handle, "h", "send", (1, second)), second: ("start", handle, "h", *receive)}
        for rank, side in sides.items():
            said = lists[rank]
            said.append(side)
            for _ in range(rng.choice((0, 1, 1, 2))):
                said.append(("asks", handle))
            if said[-1][0] == "asks" and rng.random() < 0.4:
                said.append(("odd", ("post", rng.randrange(len(lists)), "p")))
            _some_chat(rng, said, len(lists))
            said.append(("await", handle))
            if rng.random() < 0.15:
                said.append(("asks", handle))
    return _script(lists)


def any_source(rng: random.Random) -> Script:
    """Returns a script in which one or two ranks receive the others' messages from any source."""
    lists: list[Said] = [[] for _ in range(rng.choice((2, 3, 3)))]
    for number in range(rng.randint(1, 2)):
        receiver, *others = rng.sample(range(len(lists)), len(lists))
        senders = [rng.choice(others) for _ in range(rng.randint(1, 3))]
        for place, sender in enumerate(senders):
            handle, said = f"s{number}.{place}", lists[sender]
            said.append(("start", handle, "h", "send", (1, receiver)))
            later = rng.random() < 0.4
            said += [("await", handle)] * (not later)
            _some_chat(rng, said, len(lists))
            said += [("await", handle)] * later
        handles = [f"r{number}.{place}" for place in range(len(senders) + (rng.random() < 0.1))]
        if rng.random() < 0.5:
            lists[receiver] += [("start", handle, "h", "any", (1,)) for handle in handles]
            lists[receiver] += [("await", handle) for handle in rng.sample(handles, len(handles))]
            continue
        for handle in handles:
            lists[receiver] += [("start", handle, "h", "any", (1,)), ("await", handle)]
            _some_chat(rng, lists[receiver], len(lists))
    return _script(lists, mortal=_mortal_ranks(rng, lists))


def _mortal_ranks(rng: random.Random, lists: list[Said]) -> tuple[int, ...]:
    """Returns one mortal rank in some scripts, and makes it await each of its calls at once."""
    mortal = (rng.randrange(len(lists)),) if rng.random() < 0.2 else ()
    for rank in mortal:
        lists[rank] = [*rested(lists[rank])]
    return mortal


def _some_chat(rng: random.Random, said: Said, size: int) -> None:
    if rng.random() < 0.25:
        _chat(rng, said, size)


def nothing(rng: random.Random) -> Script:
    lists: list[Said] = [[] for _ in range(_size(rng))]
    for number, said in enumerate(lists):
        for _ in range(rng.randint(0, 3)):
            said.append(rng.choice((("sleep", 10), ("append",), ("sleep", 25))))
        if rng.random() < 0.3:
            said.append(("idle", "p"))
        if rng.random() < 0.15:
            said.append(("post", (number + 1) % len(lists), "q"))
    return _script(lists)


def threads(rng: random.Random) -> Script:
    lists: list[Said] = [[] for _ in range(rng.choice((1, 1, 2)))]
    names = ["one", "two"][: rng.choice((1, 1, 2))]
    device = rng.random() < 0.3
    lists[0] += [("alloc", "b", "s", 1), ("fill", "s", ("b", 0, 1)), ("record", "e", "s")] * device
    lists[0] += [("spawn", name) for name in names]
    programs: list[Said] = [[] for _ in names]
    for program in (*lists, *programs):
        for _ in range(1 if names[1:] else rng.randint(1, 2)):
            chance = rng.random()
            if device and chance < 0.5 and program is not lists[-1]:
                program.append(rng.choice((("query", "e"), ("sync", "e"), ("read", ("b", 0, 1), None))))
            elif chance < 0.6:
                program.append(rng.choice((("flag", "f"), ("set", "f"), ("append",), ("append",), ("show",))))
            elif chance < 0.7:
                program.append(("within", "p", rng.randint(5, 400)))
            else:
                _chat(rng, program, len(lists))
    lists[0] += [("ended", name) for name in names if rng.random() < 0.7]
    lists[0] += _some(rng, [("show",)], [])
    for name, program in zip(names, programs, strict=True):
        lists[0] += [("thread", name), *program]
    mortal = (0,) if len(lists) > 1 and not device and rng.random() < 0.15 else ()
    for rank in mortal:
        lists[rank] = [*rested(lists[rank])]
    return _script(lists, mortal=mortal)


def mixed(rng: random.Random) -> Script:
    script = random_script(rng.randrange(1_000_000))
    times = iter(rng.sample(range(5, 900), 60))
    ranks = []
    for rank, said in enumerate(script.ranks):
        new: Said = []
        for how in said:
            if rank not in script.mortal and rng.random() < 0.1:
                new.append(("sleep", next(times)))
            takes = how[0] in ("get", "poll") and how[1] != "rest" and rng.random() < 0.5
            new.append(("within", how[1], next(times)) if takes else how)
        ranks.append(tuple(new))
    return replace(script, ranks=tuple(ranks))


def _some(rng: random.Random, *all_of_them: Said) -> Said:
    return rng.choice(all_of_them)


def _chat(rng: random.Random, said: Said, size: int) -> None:
    said.append(rng.choice((("post", rng.randrange(size), "p"), ("poll", "p"))))


def _meet(rng: random.Random, lists: list[Said], handle: str) -> None:
    """Adds a barrier, or a broadcast of the number, on all ranks."""
    op, shape = rng.choice((("barrier", ()), ("broadcast", (1, rng.randrange(len(lists))))))
    for said in lists:
        said += [("start", handle, "h", op, shape), ("await", handle)]


ROWS: Mapping[str, Callable[[random.Random], Script]] = {
    "events": events,
    "time-outs": timeouts,
    "kernels": kernels,
    "modules": modules,
    "floats": floats,
    "promise": promise,
    "groups": groups,
    "looks": looks,
    "any source": any_source,
    "replays": replays,
    "nothing": nothing,
    "threads": threads,
    "mixed": mixed,
}


def drawn(row: str, seed: int) -> Script:
    return ROWS[row](random.Random(f"{row} {seed}"))
