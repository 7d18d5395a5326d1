# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps: how a program responds to conditions."""

import os
import subprocess
import tempfile
from pathlib import Path

from ._program import argv, call, check_out, error, record, words

#: Exit codes of a sweep that was made: nothing exceeded, a threshold exceeded, unsure.
MADE = (0, 3, 4)


def give_to_caller(path):
    """With sudo the commands of metrics run as the calling user, who must get at the runs."""
    names = ("SUDO_UID", "SUDO_GID")
    if os.geteuid() == 0 and all(os.environ.get(name, "").isdigit() for name in names):
        os.chown(path, *(int(os.environ[name]) for name in names))


def listed(value):
    """Some values, of which one may stand alone."""
    if value is None:
        return []
    return [value] if isinstance(value, (str, Path)) else list(value)


class Sweep:
    """What was measured (docs/reference/sweep-json.md); `record` is all of it."""

    def __init__(self, record):
        self.record = record

    @classmethod
    def read(cls, path):
        """The sweep in a directory, or in a file `sweep.json`."""
        return cls(record(path, "sweep.json"))

    @property
    def answers(self):
        """Of each metric, program and condition the median and the ratio to the baseline."""
        return self.record["answers"]

    @property
    def thresholds(self):
        """Of each `fail_if` its `outcome`: `passed`, `failed` or `unsure`."""
        return self.record["thresholds"]

    @property
    def passed(self):
        """No threshold was exceeded for sure."""
        return all(one["outcome"] != "failed" for one in self.thresholds)

    def _names(self, row):
        conditions, programs = self.record["conditions"], self.record["programs"]
        return {
            "condition": conditions[row["condition"]]["name"],
            "program": programs[row["program"]]["name"],
        }

    def rows(self):
        """A dictionary for each run: block, condition, program, verdict, and its metrics."""
        kept = ("number", "block", "verdict", "exit_code", "signal")
        return [
            {**{name: run[name] for name in kept}, **self._names(run), **run["values"]}
            for run in self.record["runs"]
        ]

    def to_frame(self):
        """The rows as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self.rows())


def sweep(
    command,
    vs=None,
    *,
    load=None,
    speed=None,
    profile=None,
    jitter=None,
    metric=None,
    metric_cmd=None,
    fail_if=None,
    out=None,
    resume=None,
    **options,
):
    """Runs `sandbag sweep` and returns the `Sweep`.

    Lists are the conditions; `vs` is a second program. `metric`, `metric_cmd`, `fail_if` and
    `profile` may be one or several. `out` keeps the directory with the page and the runs; `resume`
    goes on with the sweep in such a directory.
    """
    if out and resume:
        raise TypeError("a sweep goes on in its directory: resume= excludes out=")
    asked = words({"load": load, "speed": speed, "jitter": jitter, **options})
    several = {"profile": profile, "metric": metric, "metric-cmd": metric_cmd, "fail-if": fail_if}
    for name, values in several.items():
        asked += [f"--{name}={value}" for value in listed(values)]
    programs = argv(command)
    if vs is not None:
        programs += ["--vs", *argv(vs)]
    check_out(out)
    with tempfile.TemporaryDirectory() as scratch:
        give_to_caller(scratch)
        path = Path(resume or out or Path(scratch) / "sweep")
        asked += ["--resume" if resume else "--out", path, "--", *programs]
        ended = call(["-q", "sweep", *asked], subprocess.DEVNULL)
        if ended.returncode not in MADE:
            raise error(ended.returncode, ended.stderr)
        try:
            return Sweep.read(path)
        except OSError:
            raise error(ended.returncode, ended.stderr) from None
