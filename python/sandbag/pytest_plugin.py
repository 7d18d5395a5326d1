# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`@pytest.mark.sandbag(load=30)`: a test under a condition.

The condition is held while the test's function runs, not while its fixtures are made. Where
it cannot be had the test is skipped, with the reason; `--sandbag-require` makes that a
failure. CPUs that another run of sandbag has are waited for. A condition that was not kept is
a warning; with `strict=True` it fails the test.
"""

import time
import warnings

import pytest

from . import Busy, NotPossible, SandbagError, load, replay, slow

KINDS = {"load": load, "speed": slow, "profile": replay}
#: How long a test waits for CPUs that another run has, such as a test beside it (pytest -n), s.
PATIENCE_S = 300.0


class SandbagWarning(UserWarning):
    """A test whose condition was not kept."""


def pytest_addoption(parser):
    group = parser.getgroup("sandbag")
    group.addoption(
        "--sandbag-require",
        action="store_true",
        help="fail tests whose condition this machine cannot have, instead of skipping them",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "sandbag(load=, speed= or profile=, strict=False, **options): hold a CPU condition "
        "while the test runs",
    )


def condition_of(marker):
    """The condition that a marker asks for, and whether it is strict."""
    options = dict(marker.kwargs)
    strict = options.pop("strict", False)
    kinds = [kind for kind in KINDS if kind in options]
    if marker.args or len(kinds) != 1:
        raise pytest.UsageError("sandbag marker: one of load=, speed=, profile=, and options")
    return KINDS[kinds[0]](options.pop(kinds[0]), **options), strict


def enter(condition):
    """Begins the condition when no other run has its CPUs."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return condition.__enter__()
        except Busy as error:
            if time.monotonic() > until:
                # It could be had here: the test fails.
                raise SandbagError(str(error)) from None
        time.sleep(0.2)


def fail(outcome, failure):
    """Fails a test whose function has ended."""
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(failure)
    else:
        # pluggy before 1.1. If it were raised here, the wrappers around this one, which
        # capture output and logs, would not end.
        outcome._excinfo = (type(failure), failure, None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("sandbag")
    if marker is None:
        yield
        return
    condition, strict = condition_of(marker)
    try:
        enter(condition)
    except NotPossible as error:
        if item.config.getoption("--sandbag-require"):
            raise
        pytest.skip(f"sandbag: {error}")
    outcome = yield
    try:
        tell(item, condition, strict and outcome.excinfo is None)
    except Exception as failure:  # also a warning that is to be an error
        if outcome.excinfo is None:
            fail(outcome, failure)
        else:
            # The test's own failure is what it is about.
            item.add_report_section("call", "sandbag", str(failure))


def tell(item, condition, strict):
    """Ends the condition and tells how it was kept."""
    condition.__exit__(None, None, None)
    result = condition.result
    text = str(result)
    item.add_report_section("call", "sandbag", text)
    item.user_properties.append(("sandbag", text))
    if result.kept:
        return
    if strict:
        raise AssertionError(f"the condition was not kept: {text}")
    warnings.warn(SandbagWarning(f"{item.nodeid}: {text}"), stacklevel=1)
