"""Tests `dpsim museum`.

The table shows each variant that behaves otherwise than registered, and the exit code is then 1.

The tests use the variants of `mail_variants`. Their mistakes depend on the schedule, so strategies give different
results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpsim.campaign import museum as visit
from dpsim.campaign.museum import SEEDS
from dpsim.cli.app import app
from dpsim.contract import registry
from dpsim.explore import STRATEGIES


def museum(*words: str | Path) -> tuple[int, str, str]:
    """Returns exit code, stdout and stderr."""
    done = CliRunner().invoke(app, ["museum", *map(str, words)], prog_name="dpsim")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def mail_museum(mail: Path, *words: str) -> tuple[int, str, str]:
    return museum("--module", "tests.vllm.museum.mail_variants", "--exhibits", mail, *words)


def entries(answer: tuple[int, str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {entry["id"]: entry for entry in json.loads(answer[1])["entries"]}
    return found


@pytest.mark.slow
def test_museum_prints_a_table_of_variants() -> None:
    code, out, err = museum("--only", "m-dp-*")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch("entry +class +by +twin +schedules until found", lines[0])
    assert re.match(r"M-DP-1 +HANG:COLLECTIVE +ledger +proven, 1 schedule +1 by every strategy$", lines[1])
    assert re.search(r"^M-DP-4 +- +- +proven, 1 schedule +proven, 1 schedule, nothing to find$", out, re.MULTILINE)
    assert re.search(r"^M-DP-4: +performance only: ", out, re.MULTILINE)
    assert re.search(r"^random +\d+ +\d+ +1 +1$", out, re.MULTILINE)
    assert re.fullmatch(r"(\d+) of \1 variants are as registered", lines[-1])


def test_museum_prints_the_table_as_json(mail: Path) -> None:
    answer = mail_museum(mail, "--only", "mail-first", "--only", "mail-slow", "--only", "M-DP-10", "--json")
    assert (answer[0], answer[2]) == (0, "")
    found = json.loads(answer[1])
    assert list(found) == ["schema_version", "limit", "entries", "without_exhibit", "not_reached", "as_registered"]
    assert (found["limit"], found["without_exhibit"], found["as_registered"]) == (200, [], True)
    first = entries(answer)["MAIL-FIRST"]
    assert first["class"] == first["found"] == "DISAGREEMENT:LEADER"
    assert (first["by"], first["wrong"], first["instead"]) == ("agreement", [], [])
    assert first["twin"] == {"verdict": "proven", "schedules": 2, "class": None, "detail": None}
    assert list(first["schedules"]) == list(STRATEGIES)
    assert first["schedules"]["dpor"] == {"median": 2, "worst": 2, "searches": 1, "missed": 0}
    assert first["schedules"]["fifo"] == {"median": None, "worst": None, "searches": 1, "missed": 1}
    random = first["schedules"]["random"]
    assert (random["searches"], random["missed"]) == (SEEDS, 0)
    assert 1 <= random["median"] <= random["worst"] <= 10
    slow = entries(answer)["MAIL-SLOW"]
    assert (slow["class"], slow["found"], slow["by"], slow["reason"]) == (None, None, None, "slow only")


def test_a_budget_ends_the_museum_and_names_what_was_left(mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = mail_museum(mail, "--only", "mail-first", "--only", "mail-slow", "--budget", "0s")
    assert (code, err) == (0, "")
    assert "not reached in time: MAIL-FIRST, MAIL-SLOW" in out
    assert out.splitlines()[-1] == "0 of 0 variants are as registered"
    code, out, _ = mail_museum(mail, "--only", "mail-first", "--budget", "5m")
    assert (code, "not reached in time" in out) == (0, False)
    assert museum("--budget", "soon")[0] == 2


def test_an_interrupt_shows_the_variants_so_far(mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, row = list[str](), visit.row

    def interrupted(entry: registry.VariantEntry, *given: Any) -> visit.Row:
        if made:
            raise KeyboardInterrupt
        made.append(entry.name)
        return row(entry, *given)

    monkeypatch.setattr(visit, "row", interrupted)
    code, out, err = mail_museum(mail, "--only", "mail-first", "--only", "mail-slow")
    assert (code, made) == (130, ["MAIL-FIRST"])
    assert re.search("^MAIL-FIRST +DISAGREEMENT:LEADER ", out, re.MULTILINE)
    assert "not reached in time: MAIL-SLOW" in out
    assert err.startswith("dpsim: interrupted; 1 of 2 variants were shown")


def test_a_twin_and_a_harmless_variant_are_searched_by_dpor(mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To prove a healthy twin, the museum uses `dpor` instead of the portfolio.

    From its 65th run on, the portfolio runs three sampled schedules for each schedule of `dpor`, so a proof takes
    longer.
    """
    asked, seek = list[tuple[str, str]](), visit.seek

    def noted(subject: Any, by: Any, wanted: str, *given: Any, **more: Any) -> Any:
        asked.append((by.name, wanted))
        return seek(subject, by, wanted, *given, **more)

    monkeypatch.setattr(visit, "seek", noted)
    mail_museum(mail, "--only", "mail-first")
    assert asked[-1] == ("dpor", "*")


def test_misses_are_shown(mail: Path) -> None:
    code, out, _ = mail_museum(mail, "--only", "mail-first")
    assert code == 0
    assert re.search(r"^MAIL-FIRST .* portfolio:2 dpor:2 random:\S+ pct:\S+ pos:\S+ fifo:-$", out, re.MULTILINE)
    assert re.search(r"^fifo +1 +0 +- +-$", out, re.MULTILINE)


def test_a_limit_that_is_too_small_is_shown(mail: Path) -> None:
    code, out, _ = mail_museum(mail, "--only", "mail-down", "--schedules", "5")
    assert code == 0, "some strategy finds it"
    assert re.search(r"^MAIL-DOWN .* portfolio:>5 dpor:>5 random:4/>5 ", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MAIL-FOUR", "expected DISAGREEMENT:LEADER, nothing was found by any strategy"),
        ("MAIL-CLASS", "expected HANG:MAILBOX:NO_MESSAGE, got DISAGREEMENT:LEADER"),
        ("MAIL-TWIN", "its twin, the same world without it, does not hold: DISAGREEMENT:LEADER: ranks of dp_cpu "),
        ("MAIL-HARM", "nothing was expected (slow only), got DISAGREEMENT:LEADER: ranks of dp_cpu disagree on "),
    ],
)
def test_museum_names_variants_that_are_not_as_registered(name: str, said: str, mail: Path) -> None:
    code, out, err = mail_museum(mail, "--only", name, "--only", "mail-first", "--schedules", "20")
    assert (code, err) == (1, "")
    *_, problem, last = out.splitlines()
    assert problem.startswith(f"{name} is not as registered: {said}")
    assert out.count("not as registered") == 1
    assert last == "1 of 2 variants are as registered"
    answer = mail_museum(mail, "--only", name, "--schedules", "20", "--json")
    assert answer[0] == 1
    (wrong,) = entries(answer)[name]["wrong"]
    assert wrong.startswith(said)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("mail-first", 0, "expected: violated, DISAGREEMENT:LEADER; met"),
        (
            "mail-class",
            1,
            "expected: violated, HANG:MAILBOX:NO_MESSAGE; NOT met: "
            "expected a finding of class HANG:MAILBOX:NO_MESSAGE, got DISAGREEMENT:LEADER",
        ),
        ("mail-harm", 0, "expected: violated; met"),
    ],
)
def test_exploring_an_exhibit_expects_the_registered_class(name: str, code: int, said: str, mail: Path) -> None:
    """`dpsim explore` of an exhibit expects the class that its variant is registered with, because the exhibit names
    none.

    An exhibit whose variant has the wrong class fails. If the registered class is None, the exhibit expects any
    finding.
    """
    words = ["explore", str(mail / f"{name}.yaml"), "--module", "tests.vllm.museum.mail_variants"]
    done = CliRunner().invoke(app, words, prog_name="dpsim")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (code, said)


def test_museum_shows_the_classes_that_were_found_instead(mail: Path) -> None:
    answer = mail_museum(mail, "--only", "mail-class", "--schedules", "20", "--json")
    assert entries(answer)["MAIL-CLASS"]["instead"] == ["DISAGREEMENT:LEADER"]
    assert entries(answer)["MAIL-CLASS"]["found"] is None


def test_variants_without_an_exhibit_are_listed(mail: Path) -> None:
    code, out, _ = mail_museum(mail, "--only", "mail-b*", "--only", "mail-slow")
    assert code == 0
    assert "\nwithout an exhibit: MAIL-BARE\n" in out


# ---- bad input


def one_line(answer: tuple[int, str, str], said: str) -> None:
    code, out, err = answer
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"dpsim: {said}"), err


def test_museum_refuses_unknown_names() -> None:
    one_line(museum("--only", "M-DP-99"), "no variant is registered as 'M-DP-99'; did you mean 'M-DP-9'? if a module ")
    one_line(museum("--module", "no_such_module"), "cannot import the module no_such_module: ModuleNotFoundError: ")
    one_line(museum("--exhibits", "nowhere"), "nowhere: no such folder; expected one with exhibits in it")


def test_museum_refuses_a_variant_without_an_exhibit(mail: Path) -> None:
    """The error says how to write the exhibit."""
    how = "write this scenario, with protocol.variant: MAIL-BARE, and give its folder by --exhibits"
    said = f"nothing to show: none of the exhibits is named mail-bare.yaml; {how}"
    one_line(mail_museum(mail, "--only", "mail-bare"), said)


def test_museum_refuses_an_exhibit_of_another_variant(mail: Path) -> None:
    (mail / "mail-bare.yaml").write_text((mail / "mail-slow.yaml").read_text())
    said = (
        f"{mail / 'mail-bare.yaml'}: protocol.variant: expected MAIL-BARE, after which the file is named; got MAIL-SLOW"
    )
    one_line(mail_museum(mail, "--only", "mail-bare"), said)


def test_museum_refuses_an_exhibit_that_it_cannot_read(mail: Path) -> None:
    (mail / "mail-slow.yaml").write_text("name: mail-slow\nprotocol: mial\nworkload: {requests: []}\n")
    code, out, err = mail_museum(mail, "--only", "mail-slow")
    assert (code, out) == (2, "")
    assert "mail-slow.yaml:2:11: protocol" in err
    assert "Traceback" not in err


# ---- the card of one variant


def test_a_name_alone_says_what_it_is_and_how_to_run_it() -> None:
    code, out, err = museum("m-dp-1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "M-DP-1"
    assert [line.split("  ")[0] for line in lines[1:]] == [
        *("mistake", "shown by", "made from", "caught as", "source", "run it", "explore"),
    ]
    assert lines[3].split("  ")[-1].strip() == "dp_batch, form source-000"
    assert [line.split("  ")[-1].strip() for line in lines[-2:]] == [
        "dpsim run museum/m-dp-1",
        "dpsim museum --only M-DP-1",
    ]


@pytest.mark.parametrize("name", ["m-dp-4", "museum/engine-updated-0.24"])
def test_the_commands_of_a_card_show_its_finding(name: str) -> None:
    (card,) = json.loads(museum(name, "--json")[1])["cards"]
    done = CliRunner().invoke(app, [*card["run"].split()[1:], "--json"], prog_name="dpsim")
    assert done.exit_code == 0
    assert (json.loads(done.stdout)["class"] is None) == (card["class"] is None)
    assert visit.chosen([card["explore"].split()[-1]])[0].name == card["id"]
    assert (card["class"] is None) == bool(card["reason"])


def test_a_pattern_shows_a_card_of_each_and_every_variant_says_what_it_does_wrong() -> None:
    shown = json.loads(museum("m-es-9*", "--json")[1])["cards"]
    assert [card["id"] for card in shown] == ["M-ES-9", "M-ES-9-interval", "M-ES-9-loads", "M-ES-9-own"]
    assert [entry.name for entry in registry.variants() if not entry.make.__dict__.get("__doc__")] == []


def test_a_card_of_ones_own_names_module_and_file(mail: Path) -> None:
    code, out, _ = mail_museum(mail, "MAIL-FIRST", "MAIL-BARE")
    assert code == 0
    assert f"dpsim run {mail / 'mail-first.yaml'} --module tests.vllm.museum.mail_variants" in out
    assert f"--only MAIL-FIRST --exhibits {mail} --module tests.vllm.museum.mail_variants" in out


def test_a_wrong_name_gets_a_hint_and_two_ways_at_once_are_refused() -> None:
    code, out, err = museum("M-EZ-1")
    assert (code, out) == (2, "")
    assert err.startswith("dpsim: no variant is registered as 'M-EZ-1'; did you mean 'M-ES-1'?")
    code, _, err = museum("M-ES-1", "--only", "M-ES-2")
    assert (code, "give one of them" in err) == (2, True)


@pytest.mark.parametrize(("name", "row"), [("m-dp-4", "not caught"), ("m-dp-1", "caught as")])
def test_a_card_of_a_change_that_no_check_reports_says_so(name: str, row: str) -> None:
    """The twin is a mistake with a class."""
    said = [line for line in museum(name)[1].splitlines() if line.startswith(row)]
    assert len(said) == 1
    assert ("no check reports this change, as registered: " in said[0]) == (row == "not caught")
    assert "nothing:" not in said[0]
