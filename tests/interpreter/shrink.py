"""Shrinks a script: drops instructions one by one as long as the script still shows the difference.

shrunk(script, lambda small: compare(small).difference == "missed")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.interpreter.language import Instruction, Script, tidy, unwrapped


def shrunk(script: Script, shows: Callable[[Script], bool]) -> Script:
    going = True
    while going:
        going = False
        for smaller in _smaller(script):
            if smaller != script and sound(smaller) and shows(smaller):
                script, going = smaller, True
                break
    return tidy(script)


def _smaller(script: Script) -> Iterator[Script]:
    for place in range(len(script.delays)):
        yield replace(script, delays=script.delays[:place] + script.delays[place + 1 :])
    if script.mortal:
        yield replace(script, mortal=())
    if script.residency is not None:
        yield replace(script, residency=None)
    for rank, instructions in enumerate(script.ranks):
        yield _with(_moved(script, rank, 0, len(instructions)), rank, ())
        for place in range(len(instructions)):
            for length in (8, 4, 2, 1):
                moved = _moved(script, rank, place, min(place + length, len(instructions)))
                yield _with(moved, rank, instructions[:place] + instructions[place + length :])
        for place, instruction in enumerate(instructions):
            for simpler in _simpler(instruction):
                yield _with(script, rank, (*instructions[:place], simpler, *instructions[place + 1 :]))
            if instruction[0] == "start":
                rest = tuple(how for how in instructions if how[:2] != ("await", instruction[1]) and how != instruction)
                yield _with(script, rank, rest)
    for kind in {how[1] for rank in script.ranks for how in rank if how[0] == "device"}:
        yield _without_first(script, kind)


def _moved(script: Script, rank: int, first: int, end: int) -> Script:
    """Returns the script with its delays moved, after the instructions from `first` to `end` of a rank were removed."""
    delays = [
        (one, place - (end - first) * (one == rank and place >= end), ms)
        for one, place, ms in script.delays
        if one != rank or not first <= place < end
    ]
    return replace(script, delays=tuple(delays))


def _without_first(script: Script, kind: str) -> Script:
    """Returns the script in which all members omit their first call on a device communicator."""
    for rank, instructions in enumerate(script.ranks):
        for place, how in enumerate(instructions):
            if how[:2] == ("device", kind):
                script = _with(script, rank, instructions[:place] + instructions[place + 1 :])
                break
    return tidy(script)


def _simpler(instruction: Instruction) -> Iterator[Instruction]:
    if instruction[0] == "odd":
        yield instruction[1]
    elif instruction[0] == "group":
        what, kind, stream, transfers = instruction
        for place in range(len(transfers)):
            yield (what, kind, stream, transfers[:place] + transfers[place + 1 :])
        if len(transfers) == 1:
            yield ("transfer", kind, stream, transfers[0])
    elif instruction[0] in ("copy", "mix"):
        yield ("fill", instruction[1], instruction[3])


def _with(script: Script, rank: int, instructions: tuple[Instruction, ...]) -> Script:
    return replace(script, ranks=(*script.ranks[:rank], instructions, *script.ranks[rank + 1 :]))


def sound(script: Script) -> bool:
    """Returns whether a script is valid. It uses each name only after its definition, uses no buffer after its free,
    and awaits each call. The members of a communicator make the same calls, up to the end of the shorter list.
    """
    calls: dict[str, list[tuple[object, ...]]] = {}
    for instructions in script.ranks:
        known: set[str] = set()
        mine: dict[str, list[tuple[object, ...]]] = {}
        for instruction in instructions:
            what, *how = unwrapped(instruction)
            if not _uses(what, how) <= known:
                return False
            if what == "spawn" and ("thread", how[0]) not in instructions:
                return False
            if what in ("alloc", "record", "start", "spawn", "capture"):
                known.add(how[0])
            elif what in ("free", "await"):
                known.remove(how[0])
            if what == "device":
                mine.setdefault(how[0], []).append((how[2], how[3]))
            elif what == "start" and how[2] not in ("send", "recv"):
                mine.setdefault(how[1], []).append((how[2], how[3]))
        if any(how[1] in known for how in instructions if how[0] == "start"):
            return False
        for kind, made in mine.items():
            longest = calls.setdefault(kind, made)
            if any(one != other for one, other in zip(made, longest, strict=False)):
                return False
            calls[kind] = max(made, longest, key=len)
    return True


def _uses(what: str, how: list[object]) -> set[str]:
    match what, how:
        case (("free" | "mark" | "await" | "query" | "sync" | "ended" | "replay"), [name, *_]):
            return {str(name)}
        case "capture", [_, _, tuple(kept)]:
            return set().union(*(_uses(inner, rest) for inner, *rest in kept))
        case "kernel", [_, _, (str(buffer), _, _)]:
            return {buffer}
        case "wait", [_, event]:
            return {str(event)}
        case "read", [(str(buffer), _, _), _]:
            return {buffer}
        case "fill", [_, (str(buffer), _, _)]:
            return {buffer}
        case (("copy" | "mix"), [_, (str(source), _, _), (str(target), _, _)]):
            return {source, target}
        case "device", [*_, tuple(views)]:
            return {view[0] for view in views}
        case "transfer", [_, _, (_, (str(buffer), _, _), _)]:
            return {buffer}
        case "group", [_, _, tuple(transfers)]:
            return {view[0] for _, view, _ in transfers}
    return set()
