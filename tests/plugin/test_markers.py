"""The marker `gpu` and the fixture `dpsim_backend`."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.mark.gpu
    def test_one(): pass

    @pytest.mark.gpu(2)
    def test_two(): pass

    @pytest.mark.gpu(count=4)
    def test_four(): pass

    @pytest.mark.gpu(4)
    class TestClass:
        @pytest.mark.gpu(1)
        def test_closest(self): pass

    def test_none(): pass
"""


def test_skipped_with_the_reason(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_run_where_there_are_enough(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", lambda: (2, ""))
    pytester.makepyfile(TESTS)
    pytester.runpytest().assert_outcomes(passed=4, skipped=1)
    pytester.runpytest("-m", "gpu").assert_outcomes(passed=3, skipped=1, deselected=1)
    pytester.runpytest("-m", "not gpu").assert_outcomes(passed=1, deselected=4)


@pytest.mark.parametrize("arguments", ["0", "-1", "True", "'two'", "1, 2", "counts=2"])
def test_a_bad_count_is_an_error_before_the_first_test(pytester: pytest.Pytester, arguments: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.gpu({arguments})\ndef test_it(): pass\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_it: gpu(*) is not understood; write gpu or gpu(count)*"])


def test_the_marker_is_explained(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.gpu(count=1): needs so many GPUs; skipped*"])


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
