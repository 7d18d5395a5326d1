# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Conditions that are held beside this process, for the length of a `with`."""

import ctypes
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from ._program import END_S, SandbagError, check_out, end, error, joined, start, words
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
    # Also if we ignore it, which a program that is started inherits.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    PRCTL(PR_SET_PDEATHSIG, signal.SIGTERM)


def is_ready(socket_of_us):
    """Waits for a message: whether it says that the condition is held. Any user can send one."""
    size = struct.calcsize("3i")
    said, more, _, _ = socket_of_us.recvmsg(64, socket.CMSG_SPACE(size))
    of = [data for level, kind, data in more if kind == socket.SCM_CREDENTIALS]
    if not of:
        return False
    _, uid, _ = struct.unpack("3i", of[0][:size])
    return uid in (0, os.geteuid()) and said.startswith(b"READY=1")


class Condition:
    """A condition beside this process: `with sandbag.load(30) as held: ...`.

    It is held when the block begins. Afterwards `result` is the `Run`; that of a block
    that was too short is undecided, and one that ended long before its block is not kept.
    `out` keeps the directory with the report.
    """

    def __init__(self, asked, out=None, to=None):
        self._words = asked
        #: The option that names this process, up to the number.
        self._to = to
        #: The process that has it.
        self._pid = None
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
        check_out(self._out)
        self._pid = os.getpid()
        self._scratch = Path(tempfile.mkdtemp(prefix="sandbag-"))
        scratch = self._scratch
        # The block may change the working directory.
        self._run = Path(self._out or scratch / "run").absolute()
        try:
            self._start(scratch)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, kind, *_):
        # In a child that was forked within the block it is the parent's.
        if os.getpid() != self._pid:
            return
        try:
            self._end()
        except SandbagError:
            # The block's own exception says more.
            if kind is None:
                raise
        finally:
            self._leave()

    def _start(self, scratch):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(
            scratch / "said", "wb"
        ) as said:
            # A path could be too long for an address. Python 3.9 cannot let the kernel choose.
            name = f"sandbag-{secrets.token_hex(16)}"
            ready.bind(f"\0{name}")
            ready.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            ready.settimeout(0.05)
            to = [f"{self._to}{self._pid}"] if self._to else []
            # Not in our process group: Ctrl-C is ours, and we end it then.
            self._child = start(
                ["-q", *self._words, *to, "--out", self._run],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": f"@{name}",
                    # It asks for that again: the kernel forgets it where the file has
                    # capabilities.
                    "SANDBAG_DIES_WITH": f"{self._pid}:{int(signal.SIGTERM)}",
                },
                start_new_session=True,
                preexec_fn=die_with_us,
            )
            until = time.monotonic() + PATIENCE_S
            while True:
                try:
                    if is_ready(ready):
                        self._held_at = time.monotonic()
                        return
                except socket.timeout:
                    pass
                code = self._child.poll()
                if code is not None:
                    raise error(code, self._said())
                if time.monotonic() > until:
                    raise SandbagError(f"the condition is not held after {PATIENCE_S:.0f} s")

    def _said(self):
        return (self._scratch / "said").read_text(errors="replace")

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
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None


def load(percent, cpus=None, *, out=None, **options):
    """Holds a load: `30`, or `"0=30,1=60"`, on some CPUs or all."""
    cpus = "all" if cpus is None and "=" not in str(percent) else cpus
    asked = words({"cpus": cpus, **options})
    to = None if "beside" in options else "--beside=pid:"
    return Condition(["load", joined(percent), *asked], out, to)


def replay(profile, *, out=None, **options):
    """Replays a load profile of any format that `sandbag replay` reads."""
    to = None if "beside" in options else "--beside=pid:"
    return Condition(["replay", str(profile), *words(options)], out, to)


def slow(speed, *, out=None, **options):
    """Slows this process: 0.5 is half speed, or `"0=1,1=.5"`."""
    others = {"pid", "unit", "container"}
    to = None if others & options.keys() else "--pid="
    return Condition(["slow", *words({"speed": speed, **options})], out, to)
