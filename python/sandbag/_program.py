# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program itself: where it is, its options, its errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

#: Exit code where this machine, or this user, cannot have what was asked for.
NOT_POSSIBLE = 5
#: What tells CPUs that another run has from the other reasons of that code.
LOADED = "already loaded by sandbag process"
#: Version of the records of runs and sweeps.
FORMAT = 1
#: How long sandbag may take to end what it runs, to undo it and to judge it, s.
END_S = 15.0


class SandbagError(Exception):
    """sandbag failed, or what was asked for is wrong; the text is what it said."""


class NotPossible(SandbagError):
    """This machine, or this user, cannot have the condition."""


class Busy(NotPossible):
    """Another run of sandbag has the CPUs."""


def program():
    """Path of the binary: `$SANDBAG_BIN`, or the one inside this package."""
    return os.environ.get("SANDBAG_BIN") or str(Path(__file__).parent / "bin" / "sandbag")


def start(arguments, **how):
    """Starts the program, as `subprocess.Popen` does."""
    try:
        return subprocess.Popen([program(), *arguments], **how)
    except OSError as cause:
        raise SandbagError(f"start {program()}: {cause.strerror}") from None


def end(child):
    """Ends the program in order. What one that had to be killed leaves, its guardian undoes."""
    child.terminate()
    try:
        child.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        child.kill()
        child.wait()


def of_terminal():
    """Whether a terminal's keys reach this process, and its children with it."""
    try:
        # Standard input may be another file.
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def call(arguments, stdout):
    """Runs the program to its end; returns what `subprocess.run` does.

    After an exception, of Ctrl-C or of a signal's handler, it is not killed as there: what it
    runs would go on.
    """
    pipes = {"stdout": stdout, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    with start(arguments, **pipes) as child:
        try:
            out, err = child.communicate()
        except BaseException as cause:
            # A terminal has told it, too; to be asked twice means to leave its program.
            if isinstance(cause, KeyboardInterrupt) and of_terminal():
                try:
                    child.communicate(timeout=END_S)
                except (KeyboardInterrupt, subprocess.TimeoutExpired):
                    pass
            end(child)
            raise
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def main():
    """The command `sandbag` that the wheel installs."""
    path = program()
    os.execv(path, ["sandbag", *sys.argv[1:]])


def words(options):
    """Options of the command line from keywords; lists are joined by commas."""
    all_words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            all_words.append(option)
        else:
            all_words.append(f"{option}={joined(value)}")
    return all_words


def argv(command):
    """A command's words as `subprocess` takes them."""
    if isinstance(command, (str, bytes, os.PathLike)):
        raise TypeError("a command is a list of words: ['./bench', '8']")
    paths = (bytes, os.PathLike)
    return [os.fsdecode(word) if isinstance(word, paths) else str(word) for word in command]


def check_out(out):
    """Refuses a directory that cannot be made. sandbag goes on without one."""
    if out is None:
        return
    out = Path(out).absolute()
    near = next(path for path in (out, *out.parents) if path.exists())
    if not (near.is_dir() and os.access(near, os.W_OK | os.X_OK)):
        raise SandbagError(f"{out} cannot be made: {near} is no directory that we can write to")


def joined(value):
    """One value, or several with commas between them."""
    if isinstance(value, (list, tuple, range, set)):
        return ",".join(str(one) for one in value)
    return str(value)


def error(code, said):
    """The exception for an exit code and what was said on standard error."""
    lines = [line for line in said.splitlines() if line.strip()]
    text = "\n".join(line.removeprefix("sandbag: ").removeprefix("error: ") for line in lines)
    kind = SandbagError
    if code == NOT_POSSIBLE:
        kind = Busy if LOADED in text else NotPossible
    return kind(text or f"sandbag ended with exit code {code}")


def record(path, name):
    """The JSON of a run or a sweep: a file, or a directory with a file of that name."""
    path = Path(path)
    path = path / name if path.is_dir() else path
    read = json.loads(path.read_text(encoding="utf-8"))
    if read.get("format", FORMAT) > FORMAT:
        raise SandbagError(f"{path}: format {read['format']}, this module reads up to {FORMAT}")
    return read
