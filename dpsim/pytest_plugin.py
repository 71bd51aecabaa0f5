"""Scenarios as test items, and the marker `gpu`. Loaded by every pytest of everybody who has dpsim installed.

A scenario file below `scenarios/` becomes one test for each installed backend. It passes if the run is as the
scenario expects, so a planted fault that is found as expected is a success:

    $ pytest scenarios -k quickstart
    scenarios/quickstart.yaml::sim PASSED
    scenarios/quickstart.yaml::gloo PASSED
    scenarios/quickstart.yaml::nccl SKIPPED (needs 4 GPUs, found 0)

A failure is the report of the run and the command that runs it again, no traceback. What the machine lacks (torch,
GPUs, a data file) is a skip with the reason, and so is what a backend cannot show. With pytest-xdist and `--dist
loadgroup`, the items of a real backend stay on one worker, which owns its processes.

In a project without scenarios this plugin does nothing, and importing it imports nothing but pytest: a YAML file is
looked at only if its path fits the ini option `dpsim_scenarios` or was given on the command line, and is left alone
unless it has one of a scenario's keys at its top level.

    [tool.pytest.ini_options]
    dpsim_scenarios = ["protocols/**/*.yaml"]        # default: scenarios/*.yaml scenarios/**/*.yaml

For tests of one's own: the marker `@pytest.mark.gpu(2)` and the fixture `dpsim_backend`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr
    from _pytest.terminal import TerminalReporter

    from dpsim.runner import Result
    from dpsim.scenario import Scenario
    from dpsim.world import Backend

PATTERNS = ["scenarios/*.yaml", "scenarios/**/*.yaml"]
TOP_KEY = re.compile(r"""^["']?([A-Za-z_-]+)["']?\s*:""", re.MULTILINE)
SCENARIO_KEYS = ("protocol", "workload", "topology")  # a file with none of them, nor one misspelt, is somebody else's
FIRST = ("sim", "gloo", "nccl")  # the order of a file's items; backends of others follow by name
GROUPS = {"nccl": "gpu"}  # backend -> its xdist group, where that is not its name


# ---- the file and its items


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
        from dpsim.runner import backend_names

        order = {name: place for place, name in enumerate(FIRST)}
        for name in sorted(backend_names(), key=lambda name: (order.get(name, len(FIRST)), name)):
            yield ScenarioItem.from_parent(self, name=name)

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
        if self.name != "sim" and self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group(GROUPS.get(self.name, self.name)))

    @property
    def replay(self) -> str:
        """A command line for the folder in which pytest was started."""
        return f"dpsim run {shlex.quote(self._shown_path)} --backend {self.name}"

    @property
    def _shown_path(self) -> str:
        return os.path.relpath(self.path, self.config.invocation_params.dir)

    def runtest(self) -> None:
        """Tell what the machine lacks (a skip) and what is wrong with the scenario (a failure) from errors of dpsim."""
        from dpsim.checks.judge import switched_off_text
        from dpsim.registry import UnknownName
        from dpsim.scenario import ScenarioError, WorkloadMissing
        from dpsim.scenario.to_world import OnlySimulated
        from dpsim.world import BackendUnavailable, Unended

        try:
            result = self._run()
        except (WorkloadMissing, OnlySimulated, BackendUnavailable) as lacking:
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
        if result.unmet is not None:
            primary = result.primary
            culprit = primary.culprit if primary else None
            klass = "lost" if result.run.lost else primary.klass if primary else "held"
            raise ScenarioFailed(_text(self, result), klass, str(culprit or ""))
        if result.unclaimed is not None:
            pytest.skip(result.unclaimed)
        switched_off = switched_off_text(result.switched_off)
        if switched_off:
            self.add_report_section("call", "checks", switched_off)  # shown with -rP

    def _run(self) -> Result:
        from dpsim.runner import find_backend, run_scenario
        from dpsim.scenario.to_world import world

        assert isinstance(self.parent, ScenarioFile)
        scenario = self.parent.scenario
        if gpus_wanted(self) is not None:
            require_gpus(world(scenario).size)
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


def _text(item: ScenarioItem, result: Result) -> str:
    from dpsim.checks.judge import switched_off_text
    from dpsim.diagnose.report import report

    head = f"{result.scenario.name} on {item.name}: {result.unmet}"
    body = [report(result.run, result.findings), switched_off_text(result.switched_off)]
    return "\n\n".join([head, *filter(None, body)])


# ---- which files


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("dpsim_scenarios", "glob patterns, relative to rootdir, of dpsim scenario files", "args", PATTERNS)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    config, session = parent.config, parent.session
    # Without a configuration file, `pytest scenarios` has that folder as rootdir: patterns hold from where we are, too.
    places = [Path(os.path.relpath(file_path, base)).parts for base in (config.rootpath, config.invocation_params.dir)]
    patterns = [tuple(one.split("/")) for one in config.getini("dpsim_scenarios")]
    chosen = session.isinitpath(file_path) or any(fits(parts, one) for parts in places for one in patterns)
    if not chosen or any("calibration" in parts[:-1] for parts in places):
        return None
    if not session.isinitpath(file_path):
        keys = TOP_KEY.findall(file_path.read_text("utf-8", "replace"))
        if not any(difflib.get_close_matches(key, SCENARIO_KEYS, n=1, cutoff=0.75) for key in keys):
            return None
    return ScenarioFile.from_parent(parent, path=file_path)


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


# ---- the marker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "gpu(count=1): needs so many GPUs; skipped, with the reason, where there are fewer"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        gpus_wanted(item)  # a bad marker is an error before the first test runs


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = gpus_wanted(item)
    if wanted is not None and not isinstance(item, ScenarioItem):  # a scenario knows how many it needs once it is read
        require_gpus(wanted)


def require_gpus(wanted: int) -> None:
    """Skip the running test if there are fewer GPUs."""
    found, why = gpus_found()
    if found < wanted:
        pytest.skip(f"needs {wanted} GPU{'s' if wanted > 1 else ''}, found {found}{why}")


def gpus_wanted(item: pytest.Item) -> int | None:
    """The count of the closest marker `gpu`; None without one."""
    marker = item.get_closest_marker("gpu")
    if marker is None:
        return None
    count = marker.args[0] if marker.args else marker.kwargs.get("count", 1)
    if type(count) is not int or count < 1 or len(marker.args) > 1 or marker.kwargs.keys() - {"count"}:
        given = ", ".join([*map(repr, marker.args), *(f"{key}={value!r}" for key, value in marker.kwargs.items())])
        raise pytest.UsageError(f"{item.nodeid}: gpu({given}) is not understood; write gpu or gpu(count), from 1")
    return count


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
    return report


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
