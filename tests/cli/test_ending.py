"""Tests that no protocol and no library ends a command with an exit code that looks like a verdict.

With `--json`, a command prints one object to stdout and nothing else, however it ends.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from dpsim.cli.exit_codes import BUG
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from tests import ROOT
from tests.cli.commands import dpsim_, process, write
from tests.cli.protocols import scenario

HOLDS = ("run", "x.yaml", "--module", "tests.agreeing")

ENDS = {
    "python": ("import os\nos._exit(0)\n", "dpsim: the process was ended by os._exit(0) in ends.py:2: no verdict\n"),
    "another program": (
        "import os\nos.execvp('true', ['true'])\n",
        "dpsim: the process was given up by os.execv in ends.py:2: no verdict\n",
    ),
    "C": (
        "import ctypes\nctypes.CDLL(None).exit(1)\n",
        "dpsim: a library ended the process, perhaps without memory; its output says why: no verdict\n",
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_module_that_ends_the_process_gives_exit_code_3(what: str, healthy: Path) -> None:
    code, said = ENDS[what]
    write(Path("ends.py"), code)
    done = process("run", str(healthy), "--module", "ends.py")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


class Odd(BaseException):
    """An exception that is no subclass of Exception."""


class How(BaseModel):
    method: str = ""
    odd: bool = False

    def ends(self, method: str) -> None:
        if method == self.method:
            raise Odd("a\x1b[31m") if self.odd else SystemExit(0)


@register_protocol("t_ends")
class Ends(Program[Any]):
    """One of its methods raises an exception that is no subclass of Exception."""

    Params = How

    @staticmethod
    def ranks(params: Any) -> int:
        return 2

    def prepare(self, args: Any) -> Any:
        args.params.ends("prepare")
        return args

    def estimate(self, args: Any) -> None:
        args.params.ends("estimate")

    def figures(self, prepared: Any, journals: Any) -> dict[str, Any]:
        prepared.params.ends("figures")
        return {}

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await rank.host("world").barrier(site="meet")


@pytest.mark.parametrize("method", ["prepare", "estimate", "figures"])
@pytest.mark.parametrize(("odd", "said"), [("false", "SystemExit: 0"), ("true", "Odd: a\\x1b[31m")])
def test_no_exception_of_a_protocol_ends_as_expected(method: str, odd: str, said: str) -> None:
    """In the past, SystemExit(0) ended the command with 0 and no output, and other exceptions ended it by SIGSEGV."""
    text = f"name: x\nprotocol: {{name: t_ends, params: {{method: {method}, odd: {odd}}}}}\n"
    answer = dpsim_("run", write(Path("x.yaml"), text))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: the protocol raised {said}, at "), answer.err
    assert dpsim_("run", write(Path("y.yaml"), text.replace(method, "none"))).code == 0, "the twin"


def test_no_exception_of_a_module_ends_as_expected(healthy: Path) -> None:
    write(Path("large.py"), "raise MemoryError\n")
    assert dpsim_("run", healthy, "--module", "large.py").code == 3, "no memory is no fault of the module"
    write(Path("odd.py"), "class Odd(BaseException): pass\nraise Odd\n")
    answer = dpsim_("run", healthy, "--module", "odd.py")
    assert (answer.code, answer.err) == (2, "dpsim: cannot import the module odd.py: Odd: , at odd.py:2\n")


def test_a_bug_has_no_control_characters_and_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsim.cli import app

    def fails() -> None:
        raise BaseException("a\x1b[31m")

    monkeypatch.setattr(app, "app", fails)
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == BUG


def test_an_installation_that_is_broken_is_no_crash() -> None:
    """In the past, Python ended itself, and then C's `exit` called it again: SIGSEGV."""
    code = "import sys; sys.modules['dpsim.cli.app'] = None; from dpsim.cli.ending import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 70
    assert done.stderr.endswith("import of dpsim.cli.app halted; None in sys.modules\n")


def test_child_processes_of_a_protocol_end_freely(healthy: Path) -> None:
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


def test_exit_handlers_and_threads_of_a_module_still_run(healthy: Path) -> None:
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
def test_a_command_without_memory_prints_no_verdict(megabytes: int, healthy: Path) -> None:
    """If the interpreter, a library or a run finds no memory, the command prints no verdict."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)

    command = [sys.executable, "-m", "dpsim.cli", "run", str(healthy), "--module", "tests.agreeing"]
    told = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert done.returncode in ((3,) if megabytes < 60 else (0, 3)), done.stderr
    assert "bug" not in done.stderr


def test_a_trace_above_the_file_size_limit_keeps_the_verdict(healthy: Path) -> None:
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


def test_control_characters_in_errors_and_reports_are_escaped() -> None:
    """Control characters are escaped in an exception of the Python API, and in a report on stdout."""
    from dpsim.contract.words import BadInput

    assert str(BadInput("a\x1b[31m\nb\x07")) == "a\\x1b[31m\nb\\x07"
    said = "name: x\nprotocol: t_look\ndescription: {}\n"
    answer = dpsim_("run", write(Path("x.yaml"), said.format('"\\e[31m"')), "--module", "tests.cli.protocols")
    assert "\x1b" not in answer.out + answer.err
    assert scenario("t_look")


def test_control_characters_in_a_report_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
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
