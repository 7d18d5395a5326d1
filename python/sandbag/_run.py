# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program under a condition, and the record of a run."""

import os
import subprocess
import tempfile
from pathlib import Path

from ._program import SandbagError, argv, call, check_out, error, joined, record, words

#: Exit code of sandbag where the time limit of the program came.
TIMED_OUT = 124


class Run:
    """The record of a run (docs/reference/run-json.md).

    `record` is all of it; the attributes are what is asked for most.
    """

    def __init__(self, record, stdout="", stderr=""):
        self.record = record
        #: What the program printed.
        self.stdout = stdout
        self.stderr = stderr
        #: Of a condition that ended by itself long before its block, that it did so; else None.
        self.ended_early = None
        #: The program was ended by its time limit.
        self.timed_out = False

    @classmethod
    def read(cls, path, **printed):
        """The run in a directory, or in a file `run.json`; a run that failed is an error."""
        read = record(path, "run.json")
        if "error" in read:
            failed = read["error"]
            raise error(failed["exit_code_alone"], failed["message"])
        return cls(read, **printed)

    @property
    def verdict(self):
        """`kept`, `missed` or `undecided`."""
        return self.record["verdict"]

    @property
    def reason(self):
        """Why the verdict is what it is, in one sentence."""
        return self.record["reason" if "reason" in self.record else "verdict_because"]

    @property
    def kept(self):
        """The verdict is `kept`, and the condition was there for all of its block."""
        return self.verdict == "kept" and not self.ended_early

    @property
    def cpus(self):
        """Of each CPU `cpu`, `asked_pct`, `got_pct` and more. None of jitter inside a program."""
        return self.record.get("cpus", [])

    @property
    def warnings(self):
        early = [self.ended_early] if self.ended_early else []
        return early + self.record.get("warnings", [])

    @property
    def returncode(self):
        """Of the program, as `subprocess` has it: -n after signal n; None without one."""
        command = self.record.get("command")
        if not command:
            return None
        code = command["exit_code"]
        return -command["signal"] if code is None else code

    def __str__(self):
        each = ", ".join(
            f"CPU {one['cpu']} {one['got_pct']:.2f} of {one['asked_pct']:.2f} %"
            for one in self.cpus
            if "got_pct" in one
        )
        each = f" ({each})" if each else ""
        early = f"{self.ended_early}; until then " if self.ended_early else ""
        return f"{early}{self.verdict}: {self.reason}{each}"

    def __repr__(self):
        return f"<sandbag.Run {self}>"


def condition_words(load=None, profile=None, speed=None, **options):
    """The subcommand and its arguments for a condition."""
    if profile is not None and load is None and speed is None:
        return ["replay", str(profile), *words(options)]
    if speed is not None and profile is None:
        more = {} if load is None else {"load": load}
        return ["slow", f"--speed={joined(speed)}", *words({**more, **options})]
    if load is not None and profile is None:
        return ["load", joined(load), *words(options)]
    raise TypeError("a condition is load=, speed=, speed= with load=, or profile=")


def left(directory):
    """What tells the record of a run in a directory from that of another; None: there is none."""
    try:
        found = os.stat(directory / "run.json")
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def run(command, *, timeout=None, check=False, out=None, **condition):
    """Runs a program under a condition and returns its `Run`.

    `condition` is `load=30`, `speed=.5` or `profile="day.csv"` and options. `check` raises
    if the program fails or the condition was not kept. `out` keeps the directory with the
    report. Of a program that its `timeout` in s ended, `timed_out` is true.
    """
    # Without its condition the program is of no use.
    condition.setdefault("kill", True)
    check_out(out)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(out or Path(scratch) / "run")
        asked = condition_words(**condition)
        asked += words({"timeout": timeout})
        command = argv(command)
        before = left(path)
        ended = call(["-q", *asked, "--out", path, "--", *command], subprocess.PIPE)
        # Where sandbag refuses to replace a run, that one is still there; where it fails in the
        # middle, none.
        if left(path) in (None, before):
            raise error(ended.returncode, ended.stderr)
        result = Run.read(path, stdout=ended.stdout, stderr=ended.stderr)
        # A program may end with this code by itself.
        result.timed_out = TIMED_OUT == ended.returncode != result.returncode
    if check and not (result.returncode == 0 and result.kept and not result.timed_out):
        limit = "; ended by its time limit" if result.timed_out else ""
        raise SandbagError(f"exit code {result.returncode}{limit}; {result}")
    return result
