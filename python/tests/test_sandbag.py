# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The package against the real program: root, and CPU 0."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import sandbag


def spin(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def command_lines():
    """Of all processes on this machine."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().split(b"\0"))
        except OSError:
            pass
    return lines


def burners():
    """Processes of sandbag on this machine."""
    return sum(Path(os.fsdecode(words[0])).name == "sandbag" for words in command_lines())


def wait_for_the_end():
    until = time.monotonic() + 10
    while burners() and time.monotonic() < until:
        time.sleep(0.05)
    assert burners() == 0


def test_a_load_is_held_for_the_length_of_the_block():
    with sandbag.load(30, cpus=[0]) as held:
        assert burners() > 0
        time.sleep(2)
    assert burners() == 0
    result = held.result
    assert result.verdict in ("kept", "undecided"), str(result)
    assert result.cpus[0]["cpu"] == 0
    assert result.cpus[0]["asked_pct"] == pytest.approx(30)
    assert result.cpus[0]["got_pct"] == pytest.approx(30, abs=3)
    assert result.record["watched"]["who"]


def test_this_process_is_slowed_and_free_afterwards():
    before = os.sched_getaffinity(0)
    with sandbag.slow(0.5, cpus=[0]) as held:
        assert os.sched_getaffinity(0) == {0}
        spin(2)
    assert held.result.verdict in ("kept", "undecided"), str(held.result)
    assert os.sched_getaffinity(0) == before


def test_a_directory_for_temporary_files_may_have_a_long_name(tmp_path, monkeypatch):
    path = tmp_path / ("x" * 120)
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    with sandbag.load(20, cpus=[0]) as held:
        time.sleep(0.5)
    assert held.result is not None


def test_a_profile_is_replayed(tmp_path):
    profile = tmp_path / "p.csv"
    profile.write_text("time,cpu0\n0,20\n1,60\n2,end\n")
    with sandbag.replay(profile) as held:
        time.sleep(2.2)
    assert held.result.cpus[0]["got_pct"] == pytest.approx(40, abs=4)


def test_a_condition_that_ends_long_before_its_block_is_not_kept(tmp_path):
    profile = tmp_path / "p.csv"
    profile.write_text("time,cpu0\n0,20\n1,end\n")
    with sandbag.replay(profile) as held:
        time.sleep(3)
    assert not held.result.kept
    assert held.result.warnings[0].endswith("s before the block")
    assert str(held.result).startswith(held.result.warnings[0])
    with sandbag.replay(profile, loop=True) as held:
        time.sleep(3)
    assert held.result.ended_early is None


def test_a_block_that_fails_ends_the_load_and_its_error_stays():
    with pytest.raises(ZeroDivisionError):
        with sandbag.load(20, cpus=[0]):
            1 / 0
    assert burners() == 0


def test_what_is_wrong_is_an_error_with_the_words_of_sandbag():
    with pytest.raises(sandbag.SandbagError, match="percent|100"):
        sandbag.load(130, cpus=[0]).__enter__()
    with pytest.raises(sandbag.SandbagError, match="no-such-program"):
        sandbag.run(["no-such-program"], load=20, cpus=[0])
    with pytest.raises(TypeError):
        sandbag.run(["true"], cpus=[0])
    for held in (
        lambda: sandbag.load(20, cpus=[0], cgroup="/no/such/group").__enter__(),
        lambda: sandbag.run(["true"], load=20, cpus=[0], cgroup="/no/such/group"),
    ):
        with pytest.raises(sandbag.NotPossible, match="/no/such/group"):
            held()


@pytest.mark.parametrize("path", ["/no/such/program", "/dev/null", "/bin/true"])
def test_another_program_in_place_of_sandbag_is_an_error(monkeypatch, path):
    monkeypatch.setenv("SANDBAG_BIN", path)
    for held in (
        lambda: sandbag.load(20, cpus=[0]).__enter__(),
        lambda: sandbag.run(["true"], load=20, cpus=[0]),
        lambda: sandbag.sweep(["true"], load=[0, 20], cpus=[0]),
    ):
        with pytest.raises(sandbag.SandbagError, match=f"{path}|exit code 0"):
            held()


def test_a_sandbag_that_does_not_end_is_killed(tmp_path, monkeypatch):
    path = tmp_path / "deaf"
    path.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep .1; done\n")
    path.chmod(0o755)
    monkeypatch.setenv("SANDBAG_BIN", str(path))
    monkeypatch.setattr(sandbag._condition, "PATIENCE_S", 0.5)
    monkeypatch.setattr(sandbag._program, "END_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(sandbag.SandbagError, match="not held"):
        sandbag.load(20, cpus=[0]).__enter__()
    assert time.monotonic() - begin < 5


def test_a_load_ends_with_the_thread_that_began_it():
    held = sandbag.load(20, cpus=[0])
    thread = threading.Thread(target=held.__enter__)
    thread.start()
    thread.join()
    wait_for_the_end()
    held.__exit__(None, None, None)
    assert held.result.verdict in ("kept", "undecided")


def test_a_load_does_not_outlive_a_python_that_is_killed(tmp_path):
    code = (
        "import sandbag, time\n"
        "with sandbag.load(20, cpus=[0]):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    # The temporary files of a killed program stay.
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert child.stdout.readline() == b"held\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    wait_for_the_end()


def test_a_condition_is_told_whose_end_is_its_own(tmp_path, monkeypatch):
    path = tmp_path / "told"
    path.write_text(f'#!/bin/sh\necho "$SANDBAG_DIES_WITH" > {tmp_path}/with\nexit 1\n')
    path.chmod(0o755)
    monkeypatch.setenv("SANDBAG_BIN", str(path))
    with pytest.raises(sandbag.SandbagError):
        sandbag.load(20, cpus=[0]).__enter__()
    assert (tmp_path / "with").read_text() == f"{os.getpid()}:{int(signal.SIGTERM)}\n"


def test_a_load_ends_where_python_ignores_ctrl_c():
    code = (
        "import sandbag, signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with sandbag.load(20, cpus=[0]) as held:\n"
        "    time.sleep(1)\n"
        "    over = time.monotonic()\n"
        "print(held.result.verdict, time.monotonic() - over < 5)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert ended.stdout.split()[0] in (b"kept", b"undecided")
    assert ended.stdout.split()[1] == b"True"


def test_a_load_ends_where_python_ignores_sigterm():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        began = time.monotonic()
        with sandbag.load(30, cpus=[0]):
            pass
        assert time.monotonic() - began < 10
    finally:
        signal.signal(signal.SIGTERM, before)
    wait_for_the_end()


def test_the_block_s_error_stays_where_sandbag_died():
    with pytest.raises(KeyError):
        with sandbag.load(30, cpus=[0]) as held:
            held._child.kill()
            held._child.wait()
            raise KeyError
    wait_for_the_end()


def test_what_cannot_be_is_refused_before_the_program_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(sandbag.SandbagError, match="cannot be made"):
        sandbag.run(["touch", tmp_path / "ran"], load=30, cpus=[0], out=tmp_path / "file" / "run")
    for command in ("true", b"true", tmp_path):
        with pytest.raises(TypeError, match="list of words"):
            sandbag.run(command, load=30, cpus=[0])
    assert not (tmp_path / "ran").exists()
    said = sandbag.run(["echo", b"two words"], load=0, cpus=[0]).stdout
    assert said == "two words\n"


def test_a_program_under_a_load():
    run = sandbag.run(["sh", "-c", "sleep 1; echo out; echo err >&2; exit 3"], load=30, cpus=[0])
    assert (run.returncode, run.stdout, run.stderr) == (3, "out\n", "err\n")
    assert run.cpus[0]["got_pct"] == pytest.approx(30, abs=3)
    assert sandbag.run(["sh", "-c", "kill $$"], speed=0.5, cpus=[0]).returncode == -15
    with pytest.raises(sandbag.SandbagError, match="exit code 1"):
        sandbag.run(["sh", "-c", "sleep .5; false"], load=20, cpus=[0], check=True)


def test_how_a_program_failed_is_no_other_error():
    with pytest.raises(sandbag.SandbagError, match="exit code 5") as failed:
        sandbag.run(["sh", "-c", "sleep .5; exit 5"], load=20, cpus=[0], check=True)
    assert not isinstance(failed.value, sandbag.NotPossible)
    patient = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep .1; done"]
    run = sandbag.run(patient, load=20, cpus=[0], timeout=1)
    assert (run.returncode, run.timed_out) == (0, True)
    with pytest.raises(sandbag.SandbagError, match="time limit"):
        sandbag.run(patient, load=20, cpus=[0], timeout=1, check=True)
    run = sandbag.run(["sh", "-c", "sleep .5; exit 124"], load=20, cpus=[0], timeout=60)
    assert (run.returncode, run.timed_out) == (124, False)


def test_a_child_of_the_block_does_not_end_its_condition():
    with sandbag.load(20, cpus=[0]) as held:
        child = os.fork()
        if child == 0:
            try:
                held.__exit__(None, None, None)
            finally:
                os._exit(0 if held.result is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        time.sleep(0.5)
        assert burners() > 0
    assert held.result.verdict in ("kept", "undecided")


def test_a_condition_is_that_of_the_process_that_enters_it():
    held = sandbag.slow(0.5, cpus=[0])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with held:
                code = 0 if os.sched_getaffinity(0) == {0} else 2
        finally:
            os._exit(code)
    before = os.sched_getaffinity(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.sched_getaffinity(0) == before


def test_a_message_of_another_user_does_not_begin_the_block():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind("\0sandbag-test-ready")
        ready.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        send = (
            "import os, socket, sys\n"
            "os.setuid(int(sys.argv[1]))\n"
            "to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            "to.sendto(sys.argv[2].encode(), b'\\0sandbag-test-ready')\n"
        )
        for uid, said, held in [(0, "READY=1", True), (0, "x", False), (65534, "READY=1", False)]:
            subprocess.run([sys.executable, "-c", send, str(uid), said], check=True)
            assert sandbag._condition.is_ready(ready) is held


def test_results_are_kept_where_they_are_wanted(tmp_path, monkeypatch):
    out = tmp_path / "run"
    sandbag.run(["sleep", "1"], load=20, cpus=[0], out=out)
    assert (out / "report.html").exists()
    with pytest.raises(sandbag.SandbagError, match="holds a result already"):
        sandbag.run(["sleep", "1"], load=20, cpus=[0], out=out)
    monkeypatch.chdir(tmp_path)
    for name, condition in (
        ("load", sandbag.load(20, cpus=[0], out="load")),
        ("slow", sandbag.slow(0.5, cpus=[0], out="slow")),
    ):
        with condition as held:
            os.chdir("/")
            time.sleep(0.5)
        os.chdir(tmp_path)
        assert held.result.record == sandbag.Run.read(name).record


def test_a_sweep_goes_on(tmp_path):
    asked = {"load": [0, 30], "cpus": [0], "warm_up": 0}
    first = sandbag.sweep(["sleep", ".4"], runs=1, out=tmp_path, **asked)
    second = sandbag.sweep(["sleep", ".4"], runs=2, resume=tmp_path, **asked)
    assert second.record["started_at"] == first.record["started_at"]
    assert len(second.rows()) > len(first.rows())
    with pytest.raises(TypeError):
        sandbag.sweep(["true"], resume=tmp_path, out=tmp_path, **asked)


def test_records_of_jitter_and_of_a_later_sandbag_are_read_or_refused(tmp_path):
    path = tmp_path / "run.json"
    jitter = {"format": 1, "kind": "jitter-replay-inside", "verdict": "kept"}
    jitter["verdict_because"] = "as asked"
    for cpus in ({}, {"cpus": [{"cpu": 0, "counts": {}}]}):
        path.write_text(json.dumps({**jitter, **cpus}))
        assert str(sandbag.Run.read(tmp_path)) == "kept: as asked"
    path.write_text('{"format": 2}')
    for kind in (sandbag.Run, sandbag.Sweep):
        with pytest.raises(sandbag.SandbagError, match="format 2"):
            kind.read(path)


class Over(Exception):
    """What a time limit raises."""


@pytest.mark.parametrize("what, deaf", [("run", False), ("sweep", False), ("sweep", True)])
def test_an_exception_ends_the_run_and_its_program(tmp_path, what, deaf):
    def over(*_):
        raise Over

    program, begin = ["sleep", "61.7"], time.monotonic()
    # What a shell ignores the program that it becomes ignores, too.
    command = ["sh", "-c", "trap '' TERM; exec sleep 61.7"] if deaf else program
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        with pytest.raises(Over):
            if what == "run":
                sandbag.run(command, load=20, cpus=[0])
            else:
                sandbag.sweep(command, load=[0, 20], cpus=[0], warm_up=0, out=tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # Before it kills, a sweep waits for 10 s.
    assert time.monotonic() - begin < (18 if deaf else 7)
    if deaf:
        wait_for_the_end()
    assert burners() == 0
    assert program not in [[os.fsdecode(word) for word in words[:2]] for words in command_lines()]
    assert what == "run" or (tmp_path / "sweep.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the command as another user")
def test_under_sudo_a_command_of_the_user_reads_the_runs(monkeypatch):
    for name, value in {"UID": "65534", "GID": "65534", "USER": "nobody"}.items():
        monkeypatch.setenv(f"SUDO_{name}", value)
    sweep = sandbag.sweep(
        ["sh", "-c", "sleep .4; echo 7"],
        load=[0],
        cpus=[0],
        runs=1,
        warm_up=0,
        metric_cmd='printed: cat "$SANDBAG_RUN_DIR/stdout.txt"',
    )
    assert sweep.rows()[0]["printed"] == 7


def test_a_sweep_is_a_frame():
    sweep = sandbag.sweep(
        ["sh", "-c", "sleep .4; echo did=2"],
        load=[0, 30],
        cpus=[0],
        runs=3,
        warm_up=0,
        metric=["wall", "did: /did=(.*)/"],
        fail_if="did@30 > 1.5 * did@0",
    )
    assert sweep.passed and sweep.thresholds[0]["outcome"] == "passed"
    rows = sweep.rows()
    assert {row["condition"] for row in rows} == {"0", "30"}
    assert all(row["did"] == 2 and row["wall"] > 0.4 for row in rows)
    pandas = pytest.importorskip("pandas")
    frame = sweep.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    kept = frame[frame.verdict == "kept"]
    # The threshold passed by runs that were kept; of an empty frame all is true.
    assert {"0", "30"} == set(kept.condition)
    assert (kept.groupby("condition").size() >= 2).all()
