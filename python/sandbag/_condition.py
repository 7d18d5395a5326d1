# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Conditions that are held beside this process, for the length of a `with`."""

import ctypes
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from ._program import END_S, SandbagError, end, error, joined, start, words
from ._run import Run

#: How long a condition may take until it is held, s.
PATIENCE_S = 60.0
#: How much earlier than its block a condition may end by itself and be kept, s.
EARLY_S = 1.0
PR_SET_PDEATHSIG = 1
#: Loaded here: a child of a program with threads must not wait for a lock that another had.
PRCTL = ctypes.CDLL(None).prctl


def die_with_us():
    """In the child: the kernel ends it when we end, however that happens."""
    PRCTL(PR_SET_PDEATHSIG, signal.SIGTERM)


class Condition:
    """A condition beside this process: `with sandbag.load(30) as held: ...`.

    It is held when the block begins. Afterwards `result` is the `Run`; that of a block
    that was too short is undecided, and one that ended long before its block is not kept.
    `out` keeps the directory with the report.
    """

    def __init__(self, asked, out=None):
        self._words = asked
        self._out = out
        self._child = None
        self._scratch = None
        self._run = None
        self._held_at = None
        #: The `Run`, once the block is over.
        self.result = None

    def __enter__(self):
        if self._child is not None:
            raise SandbagError("this condition is held already")
        self._scratch = tempfile.TemporaryDirectory(prefix="sandbag-")
        scratch = Path(self._scratch.name)
        # The block may change the working directory.
        self._run = Path(self._out or scratch / "run").absolute()
        try:
            self._start(scratch)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._end()
        finally:
            self._leave()

    def _start(self, scratch):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(
            scratch / "said", "wb"
        ) as said:
            # A name that the kernel chooses: a path could be too long for an address.
            ready.bind("")
            name = os.fsdecode(ready.getsockname()[1:])
            ready.settimeout(0.05)
            # Not in our process group: Ctrl-C is ours, and we end it then.
            self._child = start(
                ["-q", *self._words, "--out", self._run],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, "NOTIFY_SOCKET": f"@{name}"},
                start_new_session=True,
                preexec_fn=die_with_us,
            )
            until = time.monotonic() + PATIENCE_S
            while True:
                try:
                    ready.recv(64)
                    self._held_at = time.monotonic()
                    return
                except socket.timeout:
                    code = self._child.poll()
                if code is not None:
                    raise error(code, self._said())
                if time.monotonic() > until:
                    raise SandbagError(f"the condition is not held after {PATIENCE_S:.0f} s")

    def _said(self):
        return (Path(self._scratch.name) / "said").read_text(errors="replace")

    def _end(self):
        block_s = time.monotonic() - self._held_at
        # Before it is asked to end.
        by_itself = self._child.poll() is not None
        # Not by SIGINT: a job of a script in the background ignores it, and so do its children.
        self._child.terminate()
        try:
            code = self._child.wait(END_S)
        except subprocess.TimeoutExpired:
            raise SandbagError(f"sandbag does not end (process {self._child.pid})") from None
        try:
            self.result = Run.read(self._run, stderr=self._said())
        except OSError:
            raise error(code, self._said()) from None
        early_s = block_s - self.result.record["length_s"] - self.result.record["paused_s"]
        if by_itself and early_s > EARLY_S:
            self.result.ended_early = f"the condition ended {early_s:.1f} s before the block"

    def _leave(self):
        child, self._child = self._child, None
        if child is not None and child.poll() is None:
            end(child)
        self._scratch.cleanup()
        self._scratch = None


def load(percent, cpus=None, *, out=None, **options):
    """Holds a load: `30`, or `"0=30,1=60"`, on some CPUs or all."""
    beside = f"pid:{os.getpid()}"
    cpus = "all" if cpus is None and "=" not in str(percent) else cpus
    asked = words({"cpus": cpus, "beside": beside, **options})
    return Condition(["load", joined(percent), *asked], out)


def replay(profile, *, out=None, **options):
    """Replays a load profile of any format that `sandbag replay` reads."""
    beside = f"pid:{os.getpid()}"
    return Condition(["replay", str(profile), *words({"beside": beside, **options})], out)


def slow(speed, *, out=None, **options):
    """Slows this process: 0.5 is half speed, or `"0=1,1=.5"`."""
    return Condition(["slow", *words({"speed": speed, "pid": os.getpid(), **options})], out)
