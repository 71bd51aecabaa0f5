"""The pytest plugin of dpsim: it runs scenario files as tests, and replays failures. Every pytest loads it if dpsim is
installed.

A scenario file below a folder `scenarios/` becomes one test for each installed backend. The test passes if the run is
as the scenario expects. So a run with the expected finding passes:

    $ pytest scenarios -k quickstart
    scenarios/quickstart.yaml::sim PASSED
    scenarios/quickstart.yaml::gloo PASSED
    scenarios/quickstart.yaml::nccl SKIPPED (needs 4 GPUs, found 0)

`--dpsim-explore=300`, or the ini option `dpsim_explore = 300`, adds a test `::explored` of at most that number of
schedules. A test is skipped with the reason if the machine lacks a resource, or if the backend cannot show the expected
finding. With pytest-xdist and `--dist loadgroup`, the tests of a real backend stay on one worker, which owns its
processes.

The fixture `dpsim_backend` gives a user's test a backend. The marker `gpu(2)` says that the test needs two GPUs. A test
first tries its saved failures (`dpsim.campaign.saved`). The command `pytest NODEID --dpsim-replay=TOKEN`, which a
failure prints, runs that failure in place of the test.

The plugin acts only on its own items and on tests that use its fixture, and its import imports only pytest. It reads a
YAML file only if the path matches the ini option `dpsim_scenarios`, or if the user named the file. Such a file is a
scenario if it has two top-level keys of a scenario, or one key and a word that only scenarios have. After "collected",
pytest prints a line with the files that matched but were left out. A project with other YAML files in `scenarios/` sets
its own patterns:

    [tool.pytest.ini_options]
    dpsim_scenarios = ["protocols/**/*.yaml"]        # default: **/scenarios/**/*.y*ml
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import os
import re
import shlex
import stat
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr
    from _pytest.terminal import TerminalReporter

    from dpsim.campaign.saved import SavedFailure
    from dpsim.campaign.token import Token
    from dpsim.contract.world import Backend
    from dpsim.diagnose.evidence import Extras
    from dpsim.runner import Result
    from dpsim.scenario import Scenario

PATTERNS = ["**/scenarios/**/*.y*ml"]
TOP_KEY = re.compile(r"""^["']?([A-Za-z_-]+)["']?\s*:""", re.MULTILINE)
SCENARIO_KEYS = (
    "protocol",
    "torch",
    "workload",
    "topology",
    "faults",
    "delays",
)  # one key is not enough, because a load test may have it
SCENARIO_WORDS = re.compile(r"""\b(prompt_tokens|azure_csv|(data|tensor|pipeline)_parallel_size)["']?\s*:""")
PARAMS = re.compile(r"""\bparams["']?\s*:""")  # of a protocol; other tools have the key `params` beside `workload`
TARGET = re.compile(r"""\btarget["']?\s*:""")  # of a program of torch.distributed
FIRST = ("sim", "gloo", "nccl")  # the order of a file's items; other backends follow by name
GROUPS = {"nccl": "gpu"}  # maps a backend to its xdist group, if the group has another name
MAX_BYTES = 4 << 20  # the limit of the scenario reader, repeated here because its import is slow
LEFT_ALONE_SHOWN = 3

BACKENDS: pytest.StashKey[list[str]] = pytest.StashKey()
LEFT_ALONE: pytest.StashKey[list[str]] = pytest.StashKey()
SAVED: pytest.StashKey[list[SavedFailure]] = pytest.StashKey()
REPLAY: pytest.StashKey[Token] = pytest.StashKey()
REFUSED: pytest.StashKey[str] = pytest.StashKey()


# ---- the file and its items


def installed_backends(config: pytest.Config) -> list[str]:
    """Returns the installed backends in the order of a file's items. Reads entry points once a session."""
    if BACKENDS not in config.stash:
        from dpsim.runner import backend_names

        order = {name: place for place, name in enumerate(FIRST)}
        config.stash[BACKENDS] = sorted(backend_names(), key=lambda name: (order.get(name, len(FIRST)), name))
    return config.stash[BACKENDS]


class ScenarioFailed(Exception):
    """A scenario failed or cannot run. `text`: the report. `klass`, `culprit`: for the summary line."""

    def __init__(self, text: str, klass: str, culprit: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.klass = klass
        self.culprit = culprit


class ScenarioFile(pytest.File):
    """A YAML file with a scenario. It is parsed when the first of its items runs."""

    def collect(self) -> Iterable[pytest.Item]:
        for name in installed_backends(self.config):
            yield ScenarioItem.from_parent(self, name=name)
        if schedules_to_explore(self.config):
            yield ExploredItem.from_parent(self, name="explored")

    @functools.cached_property
    def scenario(self) -> Scenario:
        from dpsim.scenario import load_scenario

        return load_scenario(self.path)


class ScenarioItem(pytest.Item):
    """A scenario on one backend, which gives the item its name."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.name == "nccl":
            self.add_marker("gpu")
        if self.name not in ("sim", "explored") and self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group(GROUPS.get(self.name, self.name)))

    @property
    def replay(self) -> str:
        """The command line that repeats the run, for the folder in which the user started pytest."""
        return shlex.join([*self._command(), *self._modules()])

    def _command(self) -> list[str]:
        return ["dpsim", "run", self._shown_path, "--backend", self.name]

    def _modules(self) -> list[str]:
        from dpsim.scenario import ScenarioError
        from dpsim.scenario.modules import names_to_import

        try:
            choice = self._file.scenario.protocol
        except ScenarioError:
            return []
        return [word for name in names_to_import(choice.name, choice.variant) for word in ("--module", name)]

    @property
    def extras(self) -> Extras:
        """The parts of a report about the scenario, and the command that prints all details."""
        from dpsim.diagnose.variants import extras_of_choice

        return extras_of_choice(self._file.scenario.protocol, f"{self.replay} --full")

    @property
    def _file(self) -> ScenarioFile:
        assert isinstance(self.parent, ScenarioFile)
        return self.parent

    @property
    def _shown_path(self) -> str:
        return os.path.relpath(self.path, self.config.invocation_params.dir)

    def runtest(self) -> None:
        """Runs the scenario. Skips if the machine lacks a resource, and fails if the scenario has an error."""
        from dpsim.contract.registry import UnknownName
        from dpsim.contract.world import BackendUnavailable, Unended
        from dpsim.scenario import FileMissing, ScenarioError
        from dpsim.scenario.to_world import OnlySimulated

        try:
            self._judge()
        except (FileMissing, OnlySimulated, BackendUnavailable) as lacking:
            pytest.skip(str(lacking))
        except Unended as error:
            raise ScenarioFailed(str(error), type(error).__name__) from error
        except (ScenarioError, UnknownName) as error:
            first = next(item for item in self.session.items if item.parent is self.parent)
            if first is not self:
                pytest.skip(f"the scenario cannot be used, see {first.nodeid}")
            text = str(error).replace(str(self.path), self._shown_path)
            place = text.partition(": ")[0] if text.startswith(self._shown_path) else ""
            raise ScenarioFailed(text, type(error).__name__, place) from error

    def _judge(self) -> None:
        from dpsim.campaign.results import results_of
        from dpsim.checks.judge import switched_off_text

        result = self._run()
        if result.unmet is not None:
            primary = result.primary
            culprit = primary.culprit if primary else None
            klass = "lost" if result.run.lost else primary.klass if primary else "held"
            text, whole = _text(self, result), _text(self, result, full=True)
            raise ScenarioFailed(_with_results(text, results_of(result, whole)), klass, str(culprit or ""))
        if result.unclaimed is not None:
            pytest.skip(result.unclaimed)
        switched_off = switched_off_text(result.switched_off)
        if switched_off:
            self.add_report_section("call", "checks", switched_off)  # pytest prints it with -rP

    def _run(self) -> Result:
        from dpsim.runner import find_backend, run_scenario

        scenario = self._file.scenario
        if gpus_wanted(self) is not None:
            require_gpus(scenario.size)
        try:
            find_backend(self.name)
        except ModuleNotFoundError as lacking:
            pytest.skip(f"backend {self.name} needs {lacking.name}, which is not installed")
        return run_scenario(scenario, self.name, base=self.path.parent)

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        if isinstance(excinfo.value, ScenarioFailed):
            return excinfo.value.text
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.stem} on {self.name}"


class ExploredItem(ScenarioItem):
    """A scenario whose schedules are explored on the simulation."""

    def _command(self) -> list[str]:
        return ["dpsim", "explore", self._shown_path, "--schedules", str(schedules_to_explore(self.config))]

    def _judge(self) -> None:
        from dpsim.campaign.deepening import explore_bounded
        from dpsim.campaign.explored import explore_subject
        from dpsim.campaign.files import Options
        from dpsim.campaign.results import results_of_explored
        from dpsim.campaign.subject import Subject
        from dpsim.scenario import excerpt

        scenario, schedules = self._file.scenario, schedules_to_explore(self.config)
        bounded = explore_bounded(scenario, self.path.parent, Options(schedules=schedules))
        if bounded is None:
            explored = explore_subject(Subject.of(scenario, self.path.parent), schedules=schedules)
        else:
            scenario, explored = bounded
        if explored.unmet is not None:
            head = f"{scenario.name}, explored: {explored.unmet}"
            primary = explored.findings[0] if explored.findings else None
            culprit = str(primary.culprit or "") if primary else ""
            text = "\n\n".join(filter(None, [head, explored.report(self.extras), excerpt(scenario)]))
            klass = explored.failure.problem.klass if explored.failure else explored.verdict
            text = _with_results(text, *results_of_explored(scenario, explored))
            raise ScenarioFailed(text, klass, culprit)
        self.add_report_section("call", "explored", explored.summary())  # pytest prints it with -rP

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.stem}, explored"


def _with_results(text: str, *folders: Path | None) -> str:
    return "\n".join([text, *(f"results: {folder}" for folder in folders if folder is not None)])


def _text(item: ScenarioItem, result: Result, full: bool = False) -> str:
    from dpsim.campaign.calls import with_calls
    from dpsim.checks.judge import switched_off_text
    from dpsim.diagnose.report import report
    from dpsim.scenario import excerpt

    with_calls(result, item.path.parent)
    head = f"{result.scenario.name} on {item.name}: {result.unmet}"
    body = [
        report(result.run, result.findings, item.extras, full),
        switched_off_text(result.switched_off),
        excerpt(result.scenario),
    ]
    return "\n\n".join([head, *filter(None, body)])


# ---- options, and which files


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("dpsim_scenarios", "glob patterns, relative to rootdir, of dpsim scenario files", "args", PATTERNS)
    parser.addini(
        "dpsim_explore", "explore at most this number of schedules of each dpsim scenario; 0 for none", default="0"
    )
    group = parser.getgroup("dpsim")
    group.addoption("--dpsim-explore", metavar="N", help="explore at most N schedules of each scenario as well")
    group.addoption(
        "--dpsim-replay", metavar="TOKEN", help="run this failure of dpsim.testing.holds in place of the test"
    )


def schedules_to_explore(config: pytest.Config) -> int:
    """Returns how many schedules of each scenario to explore at most, or 0. The command line overrides the ini file."""
    given = config.getoption("dpsim_explore")
    text = config.getini("dpsim_explore") if given is None else given
    if not text.isdecimal() or len(text) > 9:
        where = "the ini option dpsim_explore" if given is None else "--dpsim-explore"
        raise pytest.UsageError(f"{where}: expected a number of schedules, e.g. 300, got {text!r}")
    return int(text)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    config, session = parent.config, parent.session
    named = session.isinitpath(file_path)
    # Without an ini file, `pytest scenarios` has that folder as rootdir, so patterns also start at the current folder.
    places = [Path(os.path.relpath(file_path, base)).parts for base in (config.rootpath, config.invocation_params.dir)]
    patterns = [tuple(one.split("/")) for one in config.getini("dpsim_scenarios")]
    chosen = named or any(fits(parts, one) for parts in places for one in patterns)
    if not chosen or any("calibration" in parts[:-1] for parts in places):
        return None
    if any(map(is_loop, takewhile(lambda folder: not session.isinitpath(folder), file_path.parents))):
        return None  # pytest would follow the link forty times
    why = None if named else why_left_alone(file_path)  # if the user named the file, its reader reports errors
    if why is not None:
        config.stash.setdefault(LEFT_ALONE, []).append(f"{os.path.join(*places[1])} ({why})")
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


def is_loop(folder: Path) -> bool:
    """Returns whether a folder is a link to one of its parents. Following such a link never ends."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def why_left_alone(path: Path) -> str | None:
    """Returns why a file is not collected, or None. Reads no large file, and none that is not regular."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return "no regular file"
        if about.st_size > MAX_BYTES:
            return f"larger than {MAX_BYTES >> 20} MiB"
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    near = [difflib.get_close_matches(key, SCENARIO_KEYS, n=1, cutoff=0.8) for key in TOP_KEY.findall(text)]
    known = {key for one in near for key in one}
    words = (known and SCENARIO_WORDS.search(text)) or ("protocol" in known and PARAMS.search(text))
    words = words or ("torch" in known and TARGET.search(text))
    return None if len(known) > 1 or words else "no scenario"


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Returns a line for files that match the patterns but are not collected, and one for saved failures of `items`."""
    alone, collected = config.stash.get(LEFT_ALONE, []), {item.nodeid for item in items}
    saved = [one for one in config.stash.get(SAVED, []) if one.test in collected and REPLAY not in config.stash]
    more = [f"and {len(alone) - LEFT_ALONE_SHOWN} more"] * (len(alone) > LEFT_ALONE_SHOWN)
    lines = [f"dpsim: left alone: {', '.join([*alone[:LEFT_ALONE_SHOWN], *more])}"] * bool(alone)
    return [*lines, *[f"dpsim: failures that were saved and are tried first: {len(saved)}"] * bool(saved)]


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explains `assert holds(...).verdict == "proven"` if the search ended before its last schedule. For a failed
    assertion of a program, it lists the elements that differ: pytest cuts a long value in its middle.
    """
    hint = getattr(left, "hint", "") if op == "==" and right == "proven" and isinstance(left, str) else ""
    if hint:
        return [f"{str(left)!r} == 'proven'", hint]
    if not _in_program():
        return None
    from dpsim.contract.differing import compared

    return compared(op, left, right, least=30)


def _in_program() -> bool:
    """Whether the simulation called what runs now: then a program's assertion failed, and none of a test."""
    frame = sys._getframe(2) if "dpsim.sim.backend" in sys.modules else None
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(("dpsim.sim.", "dpsim.alone.")):
            return True
        frame = frame.f_back
    return False


def fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Returns whether a path matches a pattern. Both are split at slashes. `**` matches any number of folders, also
    none.

    >>> fits(("scenarios", "two.yaml"), ("scenarios", "**", "*.yaml"))
    True
    """
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return fits(parts, pattern[1:]) or fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and fits(parts[1:], pattern[1:])


# ---- replays of failures


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "gpu(count=1): of dpsim's: a test with dpsim_backend is skipped where there are fewer GPUs"
    )
    schedules_to_explore(config)  # a bad number is an error before the first test runs, and so is an invalid token
    if (word := config.getoption("dpsim_replay")) is not None:
        from dpsim.campaign.token import TokenError, fields_of

        try:
            fields_of(word)
        except TokenError as error:
            raise pytest.UsageError(f"--dpsim-replay: {error}") from None
    folder = config.invocation_params.dir / ".dpsim"
    if folder.is_dir():
        from dpsim.campaign.saved import saved_failures

        config.stash[SAVED] = saved_failures(folder)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> Generator[None]:
    """Reads the token of --dpsim-replay after the import of the tests, because these register protocols."""
    yield
    word = session.config.getoption("dpsim_replay")
    if word is None or session.testsfailed:  # pytest reports a failed collection
        return
    why = _read_replay(session.config, word, items)
    if why is not None and hasattr(session.config, "workerinput"):  # pytest-xdist takes an exception here for a crash
        session.config.stash[REFUSED] = why
    elif why is not None:
        raise pytest.UsageError(why)


def _read_replay(config: pytest.Config, word: str, items: list[pytest.Item]) -> str | None:
    from dpsim.campaign.token import TokenError, read_token

    chosen = items[0] if len(items) == 1 and isinstance(items[0], pytest.Function) else None
    try:
        token = read_token(word, None if chosen is None else chosen.path)
    except TokenError as error:
        return f"--dpsim-replay: {error}"
    if chosen is None:
        tests = "1 that is a scenario" if len(items) == 1 else str(len(items))
        return f"--dpsim-replay: expected one test, as in the line that was printed; selected: {tests}"
    config.stash[REPLAY] = token
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the failure to replay in place of the test. Without one, it runs the saved failures before the test."""
    __tracebackhide__ = True
    config = pyfuncitem.config
    token = config.stash.get(REPLAY, None)
    saved = [one for one in config.stash.get(SAVED, ()) if one.test == pyfuncitem.nodeid]
    if token is None and not saved:
        return None
    from dpsim.campaign.properties import holds_again
    from dpsim.campaign.token import TokenError, read_token
    from dpsim.scenario import ScenarioError

    command = f"pytest {shlex.quote(pyfuncitem.nodeid)} --dpsim-replay="
    if token is not None:
        explored = holds_again(token, f"{command}{token}")
        pyfuncitem.add_report_section("call", "dpsim", explored.summary())  # pytest prints it with -rP
        if explored.failure is None:
            pyfuncitem.user_properties.append(("dpsim_not_again", token.klass or "the failure"))
        return True
    for one in saved:
        file = os.path.relpath(one.file)
        try:
            token = read_token(one.word, pyfuncitem.path)
            holds_again(token, command + one.word, f" of {file}, to be deleted if it is none of this test")
        except (TokenError, ScenarioError) as error:  # the protocol has changed since
            pyfuncitem.add_report_section("call", "dpsim", f"{file} cannot be tried: {error}")
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Ends the session if the user quit pdb, because Hypothesis would take the Exit of pytest's pdb for a failure.
    Fails a test of Hypothesis all of whose worlds were vacuous, because it has tested nothing.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if not _is_debugger_quit(error):
            raise
        pytest.exit(next((one for one in error.args if isinstance(one, str)), "Quitting debugger"))
    if "dpsim.campaign.drawn" in sys.modules:
        from dpsim.campaign.drawn import only_vacuous, running_test

        if vacuous := only_vacuous(running_test()):
            worlds = "the one world" if vacuous == 1 else f"all {vacuous:,} worlds"
            pytest.fail(f"{worlds} that Hypothesis drew: vacuous, no rank coordinated anything", pytrace=False)


def _is_debugger_quit(error: KeyboardInterrupt) -> bool:
    own_raise = sys.modules.get("dpsim.backend.journal.own_raise")
    return own_raise is not None and isinstance(error, own_raise.DebuggerQuit)


# ---- the marker


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (why := item.config.stash.get(REFUSED, None)) is not None:
        pytest.fail(why, pytrace=False)
    wanted = gpus_wanted(item)
    if wanted is not None and not isinstance(item, ScenarioItem):  # a scenario item checks this after it reads the file
        require_gpus(wanted)


def require_gpus(wanted: int) -> None:
    """Skips the running test if torch sees fewer than `wanted` GPUs."""
    found, why = gpus_found()
    if found < wanted:
        pytest.skip(f"needs {wanted} GPU{'s' if wanted > 1 else ''}, found {found}{why}")


def gpus_wanted(item: pytest.Item) -> int | None:
    """Returns the count of the closest marker `gpu`, or None. It reads no marker of another plugin."""
    marker = item.get_closest_marker("gpu")
    if marker is None or not (isinstance(item, ScenarioItem) or "dpsim_backend" in getattr(item, "fixturenames", ())):
        return None
    given = [*marker.args, *(marker.kwargs[key] if key == "count" else None for key in marker.kwargs)] or [1]
    return given[0] if len(given) == 1 and type(given[0]) is int and given[0] > 0 else None


@functools.cache
def gpus_found() -> tuple[int, str]:
    """Returns how many GPUs torch sees, or why none. Imports torch, so only tests with GPUs call it."""
    if importlib.util.find_spec("torch") is None:
        return 0, " (torch is not installed)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("torch").cuda.device_count(), ""


# ---- backends


@pytest.fixture(scope="session")
def dpsim_backend() -> Iterator[Callable[..., Backend]]:
    """`dpsim_backend("gloo", size=4)` returns a backend of dpsim, whose processes live for the whole session.

    Skips the test, with the reason, if a world of `size` ranks (default 2) cannot run here.
    """
    from dpsim.runner import find_backend, warm_backends

    def get(name: str, size: int = 2) -> Backend:
        backend = find_backend(name)
        reason = backend.unavailable(size)
        if reason is not None:
            pytest.skip(reason)
        return backend

    with warm_backends():
        yield get


def pytest_sessionfinish() -> None:
    runner = sys.modules.get("dpsim.runner")
    if runner is not None:
        runner.close_backends()


# ---- reports


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if isinstance(item, ScenarioItem):
        from dpsim.checks.classes import class_and_detail

        if report.skipped and isinstance(report.longrepr, tuple):
            report.longrepr = (str(item.path), None, report.longrepr[2])  # type: ignore[assignment]  # pytest allows None
        elif report.failed and call.excinfo is not None:
            error = call.excinfo.value
            known = class_and_detail(error.klass) if isinstance(error, ScenarioFailed) else (type(error).__name__, "")
            culprit = error.culprit if isinstance(error, ScenarioFailed) else ""
            report.sections.append(("replay", item.replay))
            properties = {"class": known[0], "detail": known[1], "culprit": culprit, "replay": item.replay}
            report.user_properties += [(f"dpsim_{key}", value) for key, value in properties.items()]
    elif report.failed and call.excinfo is not None and "dpsim.campaign.properties" in sys.modules:
        _shorten(item, report, call.excinfo)
    return report


def _shorten(item: pytest.Item, report: pytest.TestReport, excinfo: ExceptionInfo[BaseException]) -> None:
    """Shortens the report of a failed `holds` to the line of its call and its text, which has the command that repeats
    it.

    If nothing can repeat the failure, the report keeps Hypothesis's text on its example. With --tb=long or
    --full-trace, pytest shows everything.
    """
    error = excinfo.value
    if not isinstance(error, sys.modules["dpsim.campaign.properties"].DoesNotHold):
        return  # without an import, because patches of this test may still be active
    from dpsim.campaign.saved import name_command

    if error.file is not None and error.replay:
        name_command(error.file, error.replay)
    if error.replay and item.config.option.tbstyle in ("auto", "short") and not item.config.option.fulltrace:
        calls = [entry for entry in excinfo.traceback if entry.path == item.path][-1:]
        where = [f"{item.nodeid.partition('::')[0]}:{one.lineno + 1}: {str(one.statement).strip()}\n" for one in calls]
        located = AssertionError("\n".join([*where, str(error)])).with_traceback(error.__traceback__)
        report.longrepr = pytest.ExceptionInfo.from_exception(located).getrepr(style="value")
    if crash := getattr(report.longrepr, "reprcrash", None):
        crash.message = str(error).partition("\n")[0]  # the summary on a CI machine would repeat the whole text


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Prints a line for each scenario that failed."""
    lines = []
    for outcome in ("failed", "error"):
        for report in terminalreporter.getreports(outcome):
            properties = dict(getattr(report, "user_properties", ()))
            if "dpsim_replay" in properties:
                culprit = f"  {properties['dpsim_culprit']}" if properties["dpsim_culprit"] else ""
                lines.append(f"{properties['dpsim_class']}{culprit}  replay: {properties['dpsim_replay']}")
    for report in terminalreporter.getreports("passed"):
        klass = dict(report.user_properties).get("dpsim_not_again") if report.when == "call" else None
        if klass:
            terminalreporter.write_line(f"dpsim: {klass} of this token did not occur again; {report.nodeid} holds")
    if lines:
        terminalreporter.section("scenarios that are not as expected")
        for line in lines:
            terminalreporter.write_line(line)
