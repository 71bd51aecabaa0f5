"""Tests of the strict JSON reader, which rejects content that Python's reader accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.world import Run
from dpsim.trace import TraceError, read_trace, write_trace
from dpsim.trace.strict_json import DEEPEST, DIGITS, ends_early, loads, loads_once, refuse_deep

REFUSED = {
    "deep lists": (b"[" * 900 + b"]" * 900, "nested more than 60 deep"),
    "deeper than the stack": (b"[" * 200_000, "nested more than 60 deep"),
    "deep objects": (b'{"a":' * 100 + b"1" + b"}" * 100, "nested more than 60 deep"),
    "a long number": (b'{"a":' + b"9" * 4_300 + b"}", "a number of more than 300 digits"),
    "a longer one": (b"[1,-" + b"9" * 5_000 + b"]", "a number of more than 300 digits"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_json_that_a_writer_never_writes_is_refused(what: str) -> None:
    text, said = REFUSED[what]
    for read in (loads, loads_once):
        with pytest.raises(ValueError, match=said):
            read(text)


def test_a_key_that_occurs_twice() -> None:
    text = b'{"a":{"b":1,"c":2,"b":1}}'
    assert loads(text) == {"a": {"b": 1, "c": 2}}, "records are compared with what a writer writes"
    with pytest.raises(ValueError, match="the key 'b' occurs twice"):
        loads_once(text)
    with pytest.raises(ValueError, match="more than 250,000 values"):
        loads_once(b"[" + b"1," * 300_000 + b"1]")


def test_json_at_the_limits_is_read() -> None:
    deep = json.dumps(eval("[" * DEEPEST + "]" * DEEPEST)).encode()
    assert loads(deep) == loads_once(deep)
    assert loads(b"[" + b"9" * DIGITS + b"]") == [10**DIGITS - 1]
    assert loads(b'"' + b"9" * 5_000 + b'"') == "9" * 5_000, "a text of digits is no number"
    assert loads(b'"a: ' + b"9" * 5_000 + b'"') == "a: " + "9" * 5_000, "also behind another word"
    many = json.dumps({'"a': "," * 300_000}).encode()
    assert loads_once(many) == json.loads(many), "commas of a text separate no values"
    refuse_deep([[[()]]] * 100)


WHOLE = '{"a\\u00e9\\n": [1, -2.5e+10, true, false, null, "é\\"x", {}, [], NaN, -Infinity]}'.encode()


@pytest.mark.parametrize("size", range(1, len(WHOLE)))
def test_each_beginning_of_a_json_text_ends_early(size: int) -> None:
    with pytest.raises(ValueError, match=r"^(?!nested)") as caught:
        loads(WHOLE[:size])
    assert ends_early(caught.value)


@pytest.mark.parametrize("text", [b"no dump", b"{} tr", b"{}{", b"[1,]]", b'{"a":1}"', b'["\\x"]', b"[1 5", b"[tr]"])
def test_a_wrong_json_text_does_not_end_early(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        loads(text)
    assert not ends_early(caught.value)


def test_a_header_with_a_wrong_value_or_a_repeated_key_is_refused(healthy: Run, tmp_path: Path) -> None:
    write_trace(tmp_path / "x.jsonl", healthy, scenario={"name": "x"}, verdict="held", klass=None)
    head, _, rest = (tmp_path / "x.jsonl").read_text().partition("\n")
    changes = {
        '"verdict":"held"': ('"verdict":"held","verdict":"lost"', "the key 'verdict' occurs twice"),
        '"scenario":{"name":"x"}': ('"scenario":' + "[" * 900 + "]" * 900, "nested more than 60 deep"),
        f'"elapsed_ns":{healthy.elapsed_ns}': (f'"elapsed_ns":{10**300 - 1}', "elapsed_ns: expected a number"),
    }
    for old, (new, said) in changes.items():
        assert old in head
        (tmp_path / "x.jsonl").write_text(head.replace(old, new) + "\n" + rest)
        with pytest.raises(TraceError, match=said):
            read_trace(tmp_path / "x.jsonl")


def test_a_writer_refuses_what_no_reader_takes(healthy: Run, tmp_path: Path) -> None:
    decisions = [at for at, raw in enumerate(healthy.journals[0]) if raw[KIND] == "decision"]
    deep: tuple[object, ...] = ()
    for _ in range(DEEPEST):
        deep = (deep,)
    for value, said in ((deep, "nested more than 60 deep"), (10**DIGITS, "more than 300 digits")):
        journal = [*healthy.journals[0]]
        raw = [*journal[decisions[0]]]
        raw[DECISION_VALUE] = value
        journal[decisions[0]] = tuple(raw)
        run = replace(healthy, journals=[journal, *healthy.journals[1:]])
        with pytest.raises(TraceError, match=said):
            write_trace(tmp_path / "x.jsonl", run, scenario={}, verdict="held", klass=None)
        assert not (tmp_path / "x.jsonl").exists()
