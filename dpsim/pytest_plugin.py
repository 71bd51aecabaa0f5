"""Scenarios as test items, and failures that are replayed. Loaded by every pytest where dpsim is installed.

A scenario file below a folder `scenarios/` becomes one test for each installed backend. It passes if the run is as the
scenario expects, so a planted fault that is found as expected is a success:

    $ pytest scenarios -k quickstart
    scenarios/quickstart.yaml::sim PASSED
    scenarios/quickstart.yaml::gloo PASSED
    scenarios/quickstart.yaml::nccl SKIPPED (needs 4 GPUs, found 0)

`--dpsim-explore=300`, or the ini option `dpsim_explore = 300`, adds a test `::explored` of at most that number of
schedules. A failure is the report and the command that runs it again, no traceback. What the machine lacks (torch,
GPUs, a data file) is a skip with the reason, and so is what a backend cannot show. With pytest-xdist and `--dist
loadgroup`, the items of a real backend stay on one worker, which owns its processes.

A user's tests may use the fixture `dpsim_backend`, and a test that uses it may have the marker `gpu(2)`. If
`dpsim.testing.holds` failed in a test, and the folder `.dpsim` was kept, the next run of the test tries that failure
first.
`pytest NODEID --dpsim-replay=TOKEN`, as the failure prints it, runs that failure in place of the test.

In a project without scenarios this plugin does nothing, and importing it imports nothing but pytest. It looks only at
its items and at tests that use its fixture; for all others the marker `gpu` means what it meant before. It looks at a
YAML file only if its path fits the ini option `dpsim_scenarios` or was given on the command line. It leaves the file
alone unless that looks like a scenario. A scenario has two of a scenario's keys at its top level, or one and a word
that only scenarios have. A line below "collected" names what fits and is left alone. A suite with other YAML in
`scenarios/` names its own:

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
)  # a load test has one of them, perhaps
SCENARIO_WORDS = re.compile(r"""\b(prompt_tokens|azure_csv|(data|tensor|pipeline)_parallel_size)["']?\s*:""")
PARAMS = re.compile(r"""\bparams["']?\s*:""")  # of a protocol; other tools have such a key beside `workload`
TARGET = re.compile(r"""\btarget["']?\s*:""")  # of a program of torch.distributed
FIRST = ("sim", "gloo", "nccl")  # the order of a file's items; backends of others follow by name
GROUPS = {"nccl": "gpu"}  # backend -> its xdist group, where that is not its name
MAX_BYTES = 4 << 20  # of a scenario file, as its reader has it, which is not imported for that
LEFT_ALONE_SHOWN = 3

BACKENDS: pytest.StashKey[list[str]] = pytest.StashKey()
LEFT_ALONE: pytest.StashKey[list[str]] = pytest.StashKey()
SAVED: pytest.StashKey[list[SavedFailure]] = pytest.StashKey()
REPLAY: pytest.StashKey[Token] = pytest.StashKey()
REFUSED: pytest.StashKey[str] = pytest.StashKey()


# ---- the file and its items


def installed_backends(config: pytest.Config) -> list[str]:
    """In the order of a file's items. A session looks them up once, and reads all entry points of the environment."""
    if BACKENDS not in config.stash:
        from dpsim.runner import backend_names

        order = {name: place for place, name in enumerate(FIRST)}
        config.stash[BACKENDS] = sorted(backend_names(), key=lambda name: (order.get(name, len(FIRST)), name))
    return config.stash[BACKENDS]


class ScenarioFailed(Exception):
    """A scenario that is not as expected or cannot be run: a text to show, and class and culprit to sum it up."""

    def __init__(self, text: str, klass: str, culprit: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.klass = klass
        self.culprit = culprit


class ScenarioFile(pytest.File):
    """A YAML file with a scenario. It is read when the first of its items runs."""

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
    """A scenario on the backend that the item is named after."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.name == "nccl":
            self.add_marker("gpu")
        if self.name not in ("sim", "explored") and self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group(GROUPS.get(self.name, self.name)))

    @property
    def replay(self) -> str:
        """A command line for the folder in which pytest was started."""
        return shlex.join([*self._command(), *self._modules()])

    def _command(self) -> list[str]:
        return ["dpsim", "run", self._shown_path, "--backend", self.name]

    def _modules(self) -> list[str]:
        """What the command has to import that registers the protocol, which this process knows: a conftest, say."""
        from dpsim.scenario import ScenarioError
        from dpsim.scenario.modules import names_to_import

        try:
            choice = self._file.scenario.protocol
        except ScenarioError:
            return []
        return [word for name in names_to_import(choice.name, choice.variant) for word in ("--module", name)]

    @property
    def extras(self) -> Extras:
        """What the report says of the scenario, and what to type for all of it."""
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
        """Tell what the machine lacks (a skip) and what is wrong with the scenario (a failure) from errors of dpsim."""
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
        """Run it. Raises ScenarioFailed if that is not as expected."""
        from dpsim.campaign.results import results_of
        from dpsim.checks.judge import switched_off_text

        result = self._run()
        if result.unmet is not None:
            primary = result.primary
            culprit = primary.culprit if primary else None
            klass = "lost" if result.run.lost else primary.klass if primary else "held"
            text = _text(self, result)
            raise ScenarioFailed(_with_results(text, results_of(result, text)), klass, str(culprit or ""))
        if result.unclaimed is not None:
            pytest.skip(result.unclaimed)
        switched_off = switched_off_text(result.switched_off)
        if switched_off:
            self.add_report_section("call", "checks", switched_off)  # shown with -rP

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
    """A scenario in all its schedules, on the simulation."""

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
        self.add_report_section("call", "explored", explored.summary())  # shown with -rP

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.stem}, explored"


def _with_results(text: str, *folders: Path | None) -> str:
    """A text of a failure, with the folders that hold the rest."""
    return "\n".join([text, *(f"results: {folder}" for folder in folders if folder is not None)])


def _text(item: ScenarioItem, result: Result) -> str:
    from dpsim.campaign.calls import with_calls
    from dpsim.checks.judge import switched_off_text
    from dpsim.diagnose.report import report
    from dpsim.scenario import excerpt

    with_calls(result, item.path.parent)
    head = f"{result.scenario.name} on {item.name}: {result.unmet}"
    body = [
        report(result.run, result.findings, item.extras),
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
    """How many schedules of each scenario are explored at most; 0 for none. The option comes before the ini file."""
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
    # Without a configuration file, `pytest scenarios` has that folder as rootdir: patterns hold from where we are, too.
    places = [Path(os.path.relpath(file_path, base)).parts for base in (config.rootpath, config.invocation_params.dir)]
    patterns = [tuple(one.split("/")) for one in config.getini("dpsim_scenarios")]
    chosen = named or any(fits(parts, one) for parts in places for one in patterns)
    if not chosen or any("calibration" in parts[:-1] for parts in places):
        return None
    if any(map(is_loop, takewhile(lambda folder: not session.isinitpath(folder), file_path.parents))):
        return None  # pytest goes round forty times
    why = None if named else why_left_alone(file_path)  # one that is named gets the errors of its reader
    if why is not None:
        config.stash.setdefault(LEFT_ALONE, []).append(f"{os.path.join(*places[1])} ({why})")
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


def is_loop(folder: Path) -> bool:
    """Whether a folder is a link to one that it lies in: a walk that follows it never ends."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def why_left_alone(path: Path) -> str | None:
    """Why a file is not taken for a scenario; None if it is. What is too large, or no file at all, is not read."""
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


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """A line for what fits the patterns and is no test, and one for the failures that are tried first."""
    alone, saved = config.stash.get(LEFT_ALONE, []), config.stash.get(SAVED, [])
    more = [f"and {len(alone) - LEFT_ALONE_SHOWN} more"] * (len(alone) > LEFT_ALONE_SHOWN)
    lines = [f"dpsim: left alone: {', '.join([*alone[:LEFT_ALONE_SHOWN], *more])}"] * bool(alone)
    return [*lines, *[f"dpsim: failures that were saved and are tried first: {len(saved)}"] * bool(saved)]


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """`assert holds(...).verdict == "proven"` says what to do if the search ended before its last schedule. The failed
    assertion of a program shows the elements that differ: pytest cuts a long value in its middle.
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
    """Whether a path fits a pattern, both split at slashes; `**` stands for any number of folders, none included.

    >>> fits(("scenarios", "two.yaml"), ("scenarios", "**", "*.yaml"))
    True
    """
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return fits(parts, pattern[1:]) or fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and fits(parts[1:], pattern[1:])


# ---- failures, again


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "gpu(count=1): of dpsim's: a test with dpsim_backend is skipped where there are fewer GPUs"
    )
    schedules_to_explore(config)  # a bad number is an error before the first test runs, and so is a damaged token
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
    """Read the token, now that the modules of the tests have registered what they register, and tests were deselected.
    What pytest could not collect is pytest's to tell.
    """
    yield
    word = session.config.getoption("dpsim_replay")
    if word is None or session.testsfailed:
        return
    why = _read_replay(session.config, word, items)
    if why is not None and hasattr(session.config, "workerinput"):  # of pytest-xdist: who raises is taken for crashed
        session.config.stash[REFUSED] = why
    elif why is not None:
        raise pytest.UsageError(why)


def _read_replay(config: pytest.Config, word: str, items: list[pytest.Item]) -> str | None:
    """Keep the failure that is replayed, or say why there is none."""
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
    """A failure that is replayed is the whole test; those that were saved come before it."""
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
        pyfuncitem.add_report_section("call", "dpsim", explored.summary())  # shown with -rP
        return True
    for one in saved:
        file = os.path.relpath(one.file)
        try:
            token = read_token(one.word, pyfuncitem.path)
            holds_again(token, command + one.word, f" of {file}, to be deleted if it is none of this test")
        except (TokenError, ScenarioError) as error:  # of a protocol that has changed since
            pyfuncitem.add_report_section("call", "dpsim", f"{file} cannot be tried: {error}")
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test of Hypothesis that has shown nothing fails: in each world that it drew nothing was coordinated."""
    yield
    if "dpsim.campaign.drawn" in sys.modules:
        from dpsim.campaign.drawn import only_vacuous, running_test

        if vacuous := only_vacuous(running_test()):
            worlds = "the one world" if vacuous == 1 else f"all {vacuous:,} worlds"
            pytest.fail(f"{worlds} that Hypothesis drew: vacuous, no rank coordinated anything", pytrace=False)


# ---- the marker


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (why := item.config.stash.get(REFUSED, None)) is not None:
        pytest.fail(why, pytrace=False)
    wanted = gpus_wanted(item)
    if wanted is not None and not isinstance(item, ScenarioItem):  # a scenario knows how many it needs once it is read
        require_gpus(wanted)


def require_gpus(wanted: int) -> None:
    """Skip the running test if there are fewer GPUs."""
    found, why = gpus_found()
    if found < wanted:
        pytest.skip(f"needs {wanted} GPU{'s' if wanted > 1 else ''}, found {found}{why}")


def gpus_wanted(item: pytest.Item) -> int | None:
    """The count of the closest marker `gpu`. None without one, for tests of other plugins, and where the marker says
    something else: then it is another plugin's.
    """
    marker = item.get_closest_marker("gpu")
    if marker is None or not (isinstance(item, ScenarioItem) or "dpsim_backend" in getattr(item, "fixturenames", ())):
        return None
    given = [*marker.args, *(marker.kwargs[key] if key == "count" else None for key in marker.kwargs)] or [1]
    return given[0] if len(given) == 1 and type(given[0]) is int and given[0] > 0 else None


@functools.cache
def gpus_found() -> tuple[int, str]:
    """How many GPUs torch sees, and why that may be none. Asked only when a test is about to run that needs one."""
    if importlib.util.find_spec("torch") is None:
        return 0, " (torch is not installed)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("torch").cuda.device_count(), ""


# ---- backends


@pytest.fixture(scope="session")
def dpsim_backend() -> Iterator[Callable[..., Backend]]:
    """`dpsim_backend("gloo", size=4)` gives a backend of dpsim, warm for the whole session.

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


# ---- what is shown


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if isinstance(item, ScenarioItem):
        if report.skipped and isinstance(report.longrepr, tuple):
            report.longrepr = (str(item.path), None, report.longrepr[2])  # type: ignore[assignment]  # pytest allows None
        elif report.failed and call.excinfo is not None:
            error = call.excinfo.value
            klass = error.klass if isinstance(error, ScenarioFailed) else type(error).__name__
            culprit = error.culprit if isinstance(error, ScenarioFailed) else ""
            report.sections.append(("replay", item.replay))
            said = {"class": klass, "culprit": culprit, "replay": item.replay}
            report.user_properties += [(f"dpsim_{key}", value) for key, value in said.items()]
    elif report.failed and call.excinfo is not None and "dpsim.campaign.properties" in sys.modules:
        _shorten(item, report, call.excinfo)
    return report


def _shorten(item: pytest.Item, report: pytest.TestReport, excinfo: ExceptionInfo[BaseException]) -> None:
    """Show a failure of `holds` once: where it was called, and its text, which names all that is needed to see it
    again. If nothing can replay it, the report keeps what Hypothesis says of its example; where everything is asked
    for, everything is shown.
    """
    error = excinfo.value
    if not isinstance(error, sys.modules["dpsim.campaign.properties"].DoesNotHold):
        return  # nothing is imported: whatever this test has patched may be patched still
    from dpsim.campaign.saved import name_command

    if error.file is not None and error.replay:
        name_command(error.file, error.replay)
    if error.replay and item.config.option.tbstyle in ("auto", "short") and not item.config.option.fulltrace:
        calls = [entry for entry in excinfo.traceback if entry.path == item.path][-1:]
        where = [f"{item.nodeid.partition('::')[0]}:{one.lineno + 1}: {str(one.statement).strip()}\n" for one in calls]
        told = AssertionError("\n".join([*where, str(error)])).with_traceback(error.__traceback__)
        report.longrepr = pytest.ExceptionInfo.from_exception(told).getrepr(style="value")
    if crash := getattr(report.longrepr, "reprcrash", None):
        crash.message = str(error).partition("\n")[0]  # a CI machine's summary would show it all, a second time


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """One line for each scenario that failed."""
    lines = []
    for outcome in ("failed", "error"):
        for report in terminalreporter.getreports(outcome):
            said = dict(getattr(report, "user_properties", ()))
            if "dpsim_replay" in said:
                culprit = f"  {said['dpsim_culprit']}" if said["dpsim_culprit"] else ""
                lines.append(f"{said['dpsim_class']}{culprit}  replay: {said['dpsim_replay']}")
    if lines:
        terminalreporter.section("scenarios that are not as expected")
        for line in lines:
            terminalreporter.write_line(line)
