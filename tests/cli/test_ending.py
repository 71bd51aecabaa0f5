"""No protocol and no library ends a command with a code that passes for a verdict, and `--json` is alone on stdout."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.commands import dpsim_, process, write
from tests.cli.protocols import scenario

HOLDS = ("run", "x.yaml", "--module", "tests.agreeing")

ENDS = {
    "python": ("import os\nos._exit(0)\n", "dpsim: the process was ended by os._exit(0) in ends.py:2: no verdict\n"),
    "C": (
        "import ctypes\nctypes.CDLL(None).exit(1)\n",
        "dpsim: a library ended the process, perhaps without memory; its output says why: no verdict\n",
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_module_that_ends_the_process(what: str, healthy: Path) -> None:
    code, said = ENDS[what]
    write(Path("ends.py"), code)
    done = process("run", str(healthy), "--module", "ends.py")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


def test_processes_of_its_own_end_as_they_like(healthy: Path) -> None:
    write(
        Path("forks.py"),
        "import os\n"
        "for leave in (os._exit, __import__('ctypes').CDLL(None).exit):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        leave(7)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n",
    )
    done = process("run", str(healthy), "--module", "forks.py", "--module", "tests.agreeing")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_python_does_at_its_end_is_done(healthy: Path) -> None:
    write(
        Path("later.py"),
        "import atexit, sys, threading\n"
        "atexit.register(lambda: print('at exit', file=sys.stderr))\n"
        "threading.Thread(target=lambda: sys.stderr.write('thread ')).start()\n",
    )
    done = process("run", str(healthy), "--module", "later.py", "--module", "tests.agreeing")
    assert (done.returncode, done.stderr) == (0, "thread at exit\n")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
@pytest.mark.parametrize(
    "megabytes", [24, 100, *[pytest.param(one, marks=pytest.mark.slow) for one in range(30, 200, 15)]]
)
def test_without_memory(megabytes: int, healthy: Path) -> None:
    """The interpreter, a library at its start, a run: wherever memory ends, it is no verdict."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)

    command = [sys.executable, "-m", "dpsim.cli", "run", str(healthy), "--module", "tests.agreeing"]
    told = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert done.returncode in ((3,) if megabytes < 60 else (0, 3)), done.stderr
    assert "bug" not in done.stderr


def test_a_file_size_limit(healthy: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))

    done = process("run", str(healthy), "--trace", "x.jsonl", "--module", "tests.agreeing", preexec_fn=limited)
    assert (done.returncode, done.stderr) == (3, "dpsim: File too large\n")
    assert done.stdout.splitlines()[-1] == "expected: held; met"
    assert not Path("x.jsonl").exists()


PRINTS = """
import os
print("from the module", flush=True)
os.system("echo from a process")
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run",), ("explore",), ("explore", "--jobs", "2")], ids=" ".join)
def test_prints_of_a_protocol_are_not_on_stdout(words: tuple[str, ...], healthy: Path) -> None:
    write(Path("prints.py"), PRINTS)
    done = process(*words, str(healthy), "--json", "--module", "prints.py", "--module", "tests.agreeing")
    assert json.loads(done.stdout)
    assert done.stderr.startswith("from the module\nfrom a process\n")
    plain = process(*words, str(healthy), "--module", "prints.py", "--module", "tests.agreeing")
    assert plain.stdout.startswith("from the module\nfrom a process\n"), "the twin"


def test_control_characters_of_a_stranger() -> None:
    """In an exception of the Python API, and in a report on stdout."""
    from dpsim.contract.words import BadInput

    assert str(BadInput("a\x1b[31m\nb\x07")) == "a\\x1b[31m\nb\\x07"
    said = "name: x\nprotocol: t_look\ndescription: {}\n"
    answer = dpsim_("run", write(Path("x.yaml"), said.format('"\\e[31m"')), "--module", "tests.cli.protocols")
    assert "\x1b" not in answer.out + answer.err
    assert scenario("t_look")


def test_what_a_report_quotes_is_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    from dpsim.cli.console import say

    say("a\x1b[2Jb\x07\n\x1b[32m\x1b[1mHELD\x1b[0m  c")
    assert capsys.readouterr().out == "a\\x1b[2Jb\\x07\n\x1b[32m\x1b[1mHELD\x1b[0m  c\n"


def test_an_old_file_stays_where_a_disk_is_full(tmp_path: Path) -> None:
    from dpsim.cli.console import write as write_file

    file = write(tmp_path / "x.yaml", "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*x\.yaml'"):
            write_file(file, "new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["x.yaml"]
    write_file(file, "new")
    assert file.read_text() == "new"
