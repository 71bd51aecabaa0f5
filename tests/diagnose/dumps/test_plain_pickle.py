"""Tests of the reader of pickles: it reads plain data, and raises an error before it runs code of any other pickle."""

from __future__ import annotations

import copyreg
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.diagnose.dumps.plain_pickle import EndsEarly, NotPlain, plain

RAN: list[str] = []


def run(what: str) -> str:
    RAN.append(what)
    return what


class Hostile:
    """An object whose pickle calls a function when Python reads it, as a hostile pickle may."""

    def __reduce__(self) -> tuple[Any, ...]:
        return run, ("hostile",)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.just("x" * 5_000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("protocol", range(2, 6))
@settings(max_examples=25, deadline=None)
@given(value=VALUES)
def test_plain_data_is_what_it_was(protocol: int, value: Any) -> None:
    assert plain(pickle.dumps(value, protocol=protocol)) == value


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pair_of_texts_is_a_list(protocol: int) -> None:
    pair = ("0", "default_pg")
    assert plain(pickle.dumps([pair, pair, {"a": pair}], protocol=protocol)) == [[*pair], [*pair], {"a": [*pair]}]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_hostile_pickle_runs_nothing(protocol: int) -> None:
    data = pickle.dumps({"version": "2.10", "entries": [Hostile()]}, protocol=protocol)
    RAN.clear()
    with pytest.raises(NotPlain, match="plain data alone"):
        plain(data)
    assert RAN == []
    pickle.loads(data)  # the twin: Python's own reader runs it
    assert RAN == ["hostile"]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_each_beginning_of_a_pickle_ends_early(protocol: int) -> None:
    """A dump has short and long texts, numbers and pairs. The whole file is the twin: it is no error."""
    entry = {"pair": ("0", "default_pg"), "state": "x" * 200, "name": "y" * 300, "n": 1 << 40, "none": [None, True]}
    data = pickle.dumps({"version": "2.10", "entries": [entry]}, protocol=protocol)
    assert plain(data)["entries"][0]["n"] == 1 << 40
    for size in range(2, len(data)):
        with pytest.raises(EndsEarly, match=f"the file ends early, at byte {size}$"):
            plain(data[:size])


HOSTILE = {
    "a global": b"\x80\x02cos\nsystem\n.",
    "a stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "a call": b"\x80\x02}(U\x01aR.",
    "an object": b"\x80\x02)\x81.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"\x80\x02K\x01Q.",
    "an instance": b"\x80\x02(ios\nsystem\n.",
    "a state": b"\x80\x02}}b.",
    "a large memo": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "a large frame": b"\x80\x04\x95\x00\x00\x00\x00\xa5\x00\x00\x00N.",
    "a set": b"\x80\x04\x8f.",
    "a pair of numbers": b"\x80\x02K\x01K\x02\x86.",
    "pairs of pairs": b"\x80\x02X\x01\0\0\0aq\0h\0\x86q\1h\1h\1\x86q\2}h\2Ns.",
    "no end": b"\x80\x02}",
    "a text that is cut off": b"\x80\x02X\xff\0\0\0abc",
    "a text that is too long": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "protocol 0": b"I1\n.",
    "nothing on the stack": b"\x80\x02s.",
    "no text": b"\x80\x02X\x01\0\0\0\xff.",
    "nothing": b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_pickle_that_is_not_plain_ends_with_an_error(what: str) -> None:
    with pytest.raises(NotPlain):
        plain(HOSTILE[what])


def test_a_registered_extension_is_refused() -> None:
    copyreg.add_extension(__name__, "run", 199)
    try:
        with pytest.raises(NotPlain):
            plain(pickle.dumps(run, protocol=2))
    finally:
        copyreg.remove_extension(__name__, "run", 199)
