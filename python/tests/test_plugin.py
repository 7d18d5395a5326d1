# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The plugin, in a pytest of its own."""

import re

import pytest

import sandbag

pytest_plugins = "pytester"


def test_a_marked_test_runs_under_its_load(pytester):
    pytester.makepyfile(
        """
        import os, time, pytest

        @pytest.mark.sandbag(load=30, cpus=[0])
        def test_loaded():
            time.sleep(1.5)

        @pytest.mark.sandbag(speed=.5, cpus=[0])
        def test_slow():
            assert os.sched_getaffinity(0) == {0}
            time.sleep(1)

        @pytest.mark.sandbag(load=30, cpus=[0])
        def test_fails_by_itself():
            time.sleep(.3)
            assert False

        def test_plain():
            assert len(os.sched_getaffinity(0)) == os.cpu_count()
        """
    )
    result = pytester.runpytest_subprocess("-rA", "--junitxml=r.xml")
    result.assert_outcomes(passed=3, failed=1)
    said = re.search(r"CPU 0 ([\d.]+) of 30\.00 %", result.stdout.str())
    assert float(said.group(1)) == pytest.approx(30, abs=3)
    assert "CPU 0" in (pytester.path / "r.xml").read_text()


def test_a_condition_that_was_not_kept_fails_a_strict_test(pytester):
    pytester.makepyfile(
        """
        import pytest, time

        @pytest.mark.sandbag(load=30, cpus=[0], strict=True)
        def test_too_short():
            pass

        @pytest.mark.sandbag(load=30, cpus=[0])
        def test_too_short_and_not_strict():
            pass

        @pytest.mark.sandbag(load=30, cpus=[0], duration="1s", strict=True)
        def test_too_long():
            time.sleep(3)
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=2, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: the condition was not kept*",
            "*AssertionError: the condition was not kept: the condition ended * before the block*",
        ]
    )


@pytest.mark.parametrize("other", [["load", "20"], ["slow", "--speed=.5"]])
@pytest.mark.parametrize("asked", [{"load": 30}, {"speed": 0.5}])
def test_a_test_waits_for_cpus_that_another_run_has(pytester, other, asked):
    pytester.makepyfile(
        f"""
        import pytest, time

        @pytest.mark.sandbag(**{asked}, cpus=[0])
        def test_it():
            time.sleep(.5)
        """
    )
    with sandbag._condition.Condition([*other, "--cpus=0", "--duration=4s"]):
        with pytest.raises(sandbag.Busy):
            sandbag.run(["true"], **asked, cpus=[0])
        pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_what_cannot_be_had_is_skipped_or_fails(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sandbag(load=30, cpus=[0], cgroup="/no/such/group")
        def test_it():
            pass
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(skipped=1)
    pytester.runpytest_subprocess("--sandbag-require").assert_outcomes(failed=1)


def test_a_marker_that_asks_for_nothing_is_an_error(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.sandbag()\ndef test_it(): pass\n")
    result = pytester.runpytest_subprocess()
    assert result.ret != 0
