"""Plain pickle: reads a pickle from an unknown source safely. It accepts plain data only.

    plain(pickle.dumps({"version": "2.10"}))    # {"version": "2.10"}
    plain(pickle.dumps(print))                  # NotPlain: the opcode at byte 33 is 0x93; a dump has plain data alone

A pickle is a program, and `pickle.load` executes it. So a regular expression first scans all opcodes. It accepts only
those of None, booleans, numbers, texts, lists, dictionaries and pairs. It rejects any other opcode before the first one
runs. So no opcode imports a name, calls a function or builds an object.

Two further attacks are possible. A value with a large memo index takes gigabytes of memory, so the index has a limit. A
deeply nested pair used as a key takes years to hash. So the reader replaces the opcode of a pair by the opcode that
looks up a global by two texts. `find_class` then returns the two texts as a list, which Python cannot hash.

Python's own reader in C does the rest. Format: `pickletools` of Python, protocols 2 to 5.
"""

from __future__ import annotations

import io
import pickle
import re
import sys
from typing import Any

from dpsim.contract.words import counted

LONGEST_TEXT = 1 << 16
"""The largest number of bytes of a text. A dump has names, source lines, and the ranks of a group as a text."""

_SIZES = range(256)
_SHORT_TEXTS = b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in _SIZES)
_TEXTS = b"|".join(re.escape(n.to_bytes(4, "little")) + b".{%d}" % n for n in _SIZES)
_LONGS = b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in range(17))

_REPEATED = b"*+" if sys.version_info >= (3, 11, 5) else b"*"
"""Before 3.11.5, a possessive repetition continues at a wrong place after a failed branch (Debian 12 has 3.11.2)."""

_PLAIN = re.compile(
    rb"(?:"
    rb"[(\]}aesuN\x88\x89\x94]"  # mark, empty list and dictionary, what fills them, None, booleans, memoize
    rb"|[hqK]."  # get, put, a number of one byte
    rb"|\x8c(?:" + _SHORT_TEXTS + rb")|X(?:" + _TEXTS + rb")"
    rb"|\x8a(?:" + _LONGS + rb")|[J].{4}|M..|G.{8}"  # whole numbers of up to 16 bytes, floats
    rb"|[jr]..[\x00-\x3f]\x00"  # get and put with an index below 4 Mi
    rb")" + _REPEATED,
    re.DOTALL,
)
"""Matches as many opcodes of plain data as follow one another."""

_PROTO, _PAIR, _GLOBAL, _TEXT, _SHORT, _FRAME, _STOP = 0x80, 0x86, 0x93, 0x58, 0x8C, 0x95, 0x2E
_LONGER = frozenset(b"hqK\x8cX\x8aJMGjr\x95")
"""Opcodes of plain data that consist of several bytes."""

_PROTOCOLS = range(2, 6)


class NotPlain(ValueError):
    """These bytes are no pickle of plain data."""


class EndsEarly(NotPlain):
    """These bytes are the beginning of a pickle of plain data."""


def plain(data: bytes) -> Any:
    """Returns the value. A pair in it becomes a list of two texts. Raises NotPlain."""
    if data[:1] != bytes([_PROTO]) or len(data) < 2 or data[1] not in _PROTOCOLS:
        raise NotPlain("no pickle of protocol 2 to 5")
    safe = bytearray(data)
    for at in _pairs(data):
        safe[at] = _GLOBAL
    try:
        return _Plain(io.BufferedReader(io.BytesIO(safe), 1 << 20)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise NotPlain(f"a pickle that is damaged: {type(error).__name__}: {error}") from None


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns the value of a pair."""
        return [module, name]


def _pairs(data: bytes) -> list[int]:
    """Returns the positions of the opcodes of pairs. Raises NotPlain for an opcode that is not one of plain data."""
    pairs, at, match = [], 2, _PLAIN.match
    while True:
        found = match(data, at)
        assert found is not None, "the empty text matches"
        at = found.end()
        code = data[at] if at < len(data) else None
        if code == _PAIR:
            pairs.append(at)
            at += 1
        elif code == _TEXT and at + 5 <= len(data):
            size = int.from_bytes(data[at + 1 : at + 5], "little")
            if size > LONGEST_TEXT:
                raise NotPlain(f"the text at byte {at} has {size:,} bytes; expected at most {LONGEST_TEXT:,}")
            at += 5 + size
        elif code == _FRAME and at + 9 <= len(data):
            if int.from_bytes(data[at + 1 : at + 9], "little") > len(data) - at - 9:
                raise EndsEarly(cut_off(data))  # Python reads a whole frame at once, so the size must fit
            at += 9
        elif code == _STOP and at + 1 < len(data):
            more = counted(len(data) - at - 1, "more byte")
            raise NotPlain(f"the pickle ends at byte {at + 1:,}, and the file has {more}")
        elif code == _STOP:
            return pairs
        elif code is None or (code in _LONGER and at + 9 > len(data)) or (code == _SHORT and _is_cut(data, at)):
            raise EndsEarly(cut_off(data))
        else:
            raise NotPlain(f"the opcode at byte {at} is {code:#04x}; a dump has plain data alone, and this is more")


def _is_cut(data: bytes, at: int) -> bool:
    """Returns whether the text of the opcode at this position ends behind the data."""
    return at + 2 + data[at + 1] > len(data)


def cut_off(data: bytes) -> str:
    """Returns where a file of these bytes ends, in words."""
    return f"the file ends early, at byte {len(data):,}"
