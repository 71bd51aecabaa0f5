"""No code reads a sentence back, and each fact has a sentence with its values."""

from __future__ import annotations

import pytest

from dpsim.diagnose.words import sentences
from dpsim.diagnose.words.sentences import SENTENCES, SHORT
from tests import ROOT
from tests.house.sentences import fields, made, read_back

SOURCES = {file.relative_to(ROOT).as_posix(): file.read_text() for file in sorted(ROOT.glob("dpsim/**/*.py"))}
FACTS = [(f"{file}:{line}", name, values) for file, text in SOURCES.items() for line, name, values in made(text)]


def test_no_code_reads_a_sentence_back() -> None:
    found = [f"{file}:{line}: {what}" for file, text in SOURCES.items() for line, what in read_back(text)]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "finding.message.replace(' left out ', ' did not reach ', 1)",
        "finding.details[0].startswith('to order them: ')",
        "re.findall(r'raised (\\w+)', finding.message)",
        "PLACE.search(finding.why)",
        "'left out' in finding.message",
        "[line for line in finding.details if line.startswith(' ')]",
        "text(finding.message).partition(': ')",
    ],
)
def test_a_planted_reader_is_found(planted: str) -> None:
    assert list(read_back(planted))


def test_each_fact_has_a_sentence_with_its_values() -> None:
    wrong = [f"{where}: {name}" for where, name, _ in FACTS if name not in SENTENCES]
    wrong += [
        f"{where}: {name}: the sentence lacks or has {sorted(values ^ fields(SENTENCES[name]))}"
        for where, name, values in FACTS
        if values is not None and name in SENTENCES and values != fields(SENTENCES[name])
    ]
    assert wrong == []


def test_each_sentence_is_that_of_a_fact() -> None:
    said = {name for _, name, _ in FACTS} | {"did_not_reach"}  # `not_reached` gives this name
    assert {*SENTENCES} - said == set()
    assert {*SHORT} <= {*SENTENCES}
    assert all(fields(row) <= fields(SENTENCES[name]) for name, row in SHORT.items())


@pytest.mark.parametrize("source", ['fact("died", rank=1)', 'fact("died", rank=1, step=2, when=3)', 'fact("no such")'])
def test_a_fact_without_its_values_is_found(source: str) -> None:
    [(_, name, values)] = made(source)
    assert name not in SENTENCES or values != fields(SENTENCES[name])


def test_no_name_stands_in_two_tables() -> None:
    assert sum(len(table.SENTENCES) for table in sentences._TABLES) + len(sentences.GENERAL) == len(SENTENCES)
