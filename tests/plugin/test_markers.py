"""Tests of the fixture `dpsim_backend`, and of the marker `gpu` on tests that use it or do not."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.mark.gpu
    def test_one(dpsim_backend): pass

    @pytest.mark.gpu(2)
    def test_two(dpsim_backend): pass

    @pytest.mark.gpu(count=4)
    def test_four(dpsim_backend): pass

    @pytest.mark.gpu(4)
    class TestClass:
        @pytest.mark.gpu(1)
        def test_closest(self, dpsim_backend): pass

    def test_none(): pass
"""


def test_a_test_without_enough_gpus_is_skipped_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", lambda: (0, " (torch is not installed)"))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-rs", "--strict-markers")
    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED ?2?*: needs 1 GPU, found 0 (torch is not installed)",
            "SKIPPED ?1?*: needs 2 GPUs, found 0 (torch is not installed)",
            "SKIPPED ?1?*: needs 4 GPUs, found 0 (torch is not installed)",
        ]
    )


def test_a_test_with_enough_gpus_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", lambda: (2, ""))
    pytester.makepyfile(TESTS)
    pytester.runpytest().assert_outcomes(passed=4, skipped=1)
    pytester.runpytest("-m", "gpu").assert_outcomes(passed=3, skipped=1, deselected=1)
    pytester.runpytest("-m", "not gpu").assert_outcomes(passed=1, deselected=4)


STRANGERS = """
    import pytest

    @pytest.mark.gpu
    def test_plain(): pass

    @pytest.mark.gpu("a100")
    def test_named(): pass

    @pytest.mark.gpu(8)
    def test_many(): pass

    @pytest.mark.gpu("a100", memory="80g")
    class TestClass:
        def test_within(self): assert False

    @pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.gpu(arch="h100"))])
    def test_param(size): pass
"""


def test_the_marker_of_others_is_theirs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs tests of another project that has its own marker `gpu`. The outcomes with and without the plugin are equal.
    In the twin, a test uses dpsim's fixture, and the plugin skips it.
    """
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", lambda: (0, ""))
    pytester.makeini("[pytest]\nmarkers = gpu(kind): theirs\n")
    pytester.makepyfile(STRANGERS)
    for words in ([], ["-m", "gpu"], ["-m", "not gpu"], ["--strict-markers"]):
        outcomes = [pytester.runpytest(*words, *without).parseoutcomes() for without in ([], ["-p", "no:dpsim"])]
        assert outcomes[0] == outcomes[1]
    assert pytester.runpytest().parseoutcomes() == {"passed": 5, "failed": 1}
    pytester.makepyfile("import pytest\n@pytest.mark.gpu(8)\ndef test_ours(dpsim_backend): pass\n")
    pytester.runpytest().assert_outcomes(skipped=1)


@pytest.mark.parametrize("arguments", ["0", "-1", "True", "'two'", "1, 2", "counts=2", "1, count=1"])
def test_a_gpu_marker_without_a_valid_count_skips_no_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    """Runs a test of the fixture whose marker `gpu` has no valid count. The plugin does not skip it. If GPUs are
    missing, `dpsim_backend(name, size)` reports this.
    """
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", lambda: (0, ""))
    pytester.makepyfile(f"import pytest\n@pytest.mark.gpu({arguments})\ndef test_it(dpsim_backend): pass\n")
    pytester.runpytest().assert_outcomes(passed=1)


def test_the_marker_is_explained(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.gpu(count=1): of dpsim's: *skipped*"])


@pytest.mark.slow
def test_a_warm_backend(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from dpsim.sim.backend import SimBackend
        from dpsim.testing import check_backend

        closed = []
        seen = []

        def test_first(dpsim_backend, monkeypatch):
            seen.append(dpsim_backend("sim"))
            check_backend(seen[0], only="groups")

        def test_second(dpsim_backend):
            assert dpsim_backend("sim", size=64) is seen[0]
            SimBackend.close = lambda self: print("closed", self.name)

        def test_impossible(dpsim_backend):
            dpsim_backend("nccl", size=1_000)
    """)
    result = pytester.runpytest_subprocess("-rs", "-s")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*closed sim*", "SKIPPED*1000 CUDA devices*"])
