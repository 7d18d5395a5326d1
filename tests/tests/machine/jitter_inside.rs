// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay --inside`: programs of others, with the jitter in
//! them and without.

use crate::prelude::*;

cases! { CASES: root;
    what_is_left_of_a_killed_replay_is_removed_by_the_next,
    signals_reach_the_program,
    a_user_behind_sudo_suffers_too,
    a_long_event_ends_soon_after_sandbag_was_killed,
    a_full_directory_is_said_plainly_and_nothing_is_left,
}

cases! { PYTHON: python; python_computes_and_waits_as_ever }
cases! { OPENMP: compiler; threads_of_openmp_suffer_each }
cases! { MPI: mpi; ranks_of_mpi_suffer_and_agree }
cases! { HPCC: hpcc; hpcc_suffers_in_each_rank_and_is_right }

fn has(program: &str) -> Result<(), String> {
    root()?;
    let found = Command::new("sh")
        .args(["-c", &format!("({program}) >/dev/null 2>&1")])
        .stdin(Stdio::null())
        .status();
    if found.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err(format!("`{program}` does not work here"))
    }
}

fn python() -> Result<(), String> {
    has("python3 --version")
}

fn compiler() -> Result<(), String> {
    has("echo 'int main(void){return 0;}' | cc -x c -fopenmp -o /dev/null -")
}

fn mpi() -> Result<(), String> {
    case::only_in_all()?;
    has("mpicc --version").and(has("mpirun --version"))
}

fn hpcc() -> Result<(), String> {
    case::only_in_all()?;
    has("mpirun --version").and(has("command -v hpcc"))
}

/// 1 ms every 10 ms, for 3 s, on two CPUs.
fn trace(place: &MachinePlace) -> Result<()> {
    place.trace(0..2, (0..300).map(|i| [i * 10_000_000 + 1_000, 1_000_000]))
}

const OPTIONS: &str = "jitter replay made.json --inside --loop --no-out -q --force --json=r.json";

fn processes(run: &Value) -> Result<&Vec<Value>> {
    run["processes"].as_array().context("no processes")
}

fn injected(process: &Value) -> u64 {
    process["suffered"]["injected"].as_u64().unwrap_or(0)
}

/// Both of two ranks, and nothing else.
fn ranks_suffered(run: &Value) -> Result<()> {
    let all = processes(run)?;
    let mut ranks: Vec<_> = all.iter().map(|one| one["rank"].as_u64()).collect();
    ranks.sort_unstable();
    ensure!(ranks == [Some(0), Some(1)], "{run}");
    figure!(all.iter().all(|one| injected(one) > 10), "{run}");
    Ok(())
}

/// A command of two ranks of MPI.
fn mpirun(place: &MachinePlace, command: &str) -> Result<PlaceExit> {
    let mpirun = "mpirun --allow-run-as-root --oversubscribe";
    let words = format!("{OPTIONS} --as-root --only rank -- {mpirun} {command}");
    place.run(&words)?.expect(0)
}

fn python_computes_and_waits_as_ever(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let program = "import subprocess, threading, time, signal\n\
        b = time.monotonic(); time.sleep(0.3); assert time.monotonic() - b >= 0.3\n\
        t = [threading.Thread(target=lambda: sum(range(10**6))) for _ in range(4)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n\
        got = []\n\
        signal.signal(signal.SIGALRM, lambda n, f: got.append(n))\n\
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n\
        while len(got) < 5: pass\n\
        print(sum(range(10**6)), subprocess.run(['sh', '-c', 'exit 3']).returncode)\n";
    fs::write(place.path("p.py"), program)?;
    for more in ["", " --per-thread"] {
        let ended = place
            .run(&format!("{OPTIONS}{more} -- python3 p.py"))?
            .expect(0)?;
        ensure!(ended.out == "499999500000 3\n", "{}", ended.out);
        let run = place.json("r.json")?;
        let most = processes(&run)?.iter().map(injected).max();
        figure!(most.unwrap_or(0) >= 20, "{run}");
    }
    Ok(())
}

fn threads_of_openmp_suffer_each(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let program = "#include <stdio.h>\n#include <omp.h>\n\
        int main(void) { double s = 0;\n\
        for (int k = 0; k < 20; k++) {\n\
        _Pragma(\"omp parallel for reduction(+:s) num_threads(4)\")\n\
        for (int i = 0; i < 20000000; i++) s += 1.0; }\n\
        printf(\"%.0f\\n\", s); return 0; }\n";
    build(place, "cc", program)?;
    let ended = place
        .run(&format!("{OPTIONS} --per-thread -- ./p"))?
        .expect(0)?;
    ensure!(ended.out == "400000000\n", "{}", ended.out);
    let run = place.json("r.json")?;
    let all = processes(&run)?;
    ensure!(all.len() == 4, "{run}");
    figure!(all.iter().all(|one| injected(one) > 0), "{run}");
    Ok(())
}

fn ranks_of_mpi_suffer_and_agree(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let program = "#include <mpi.h>\n#include <stdio.h>\n\
        int main(int n, char **w) { int r, all; MPI_Init(&n, &w);\n\
        MPI_Comm_rank(MPI_COMM_WORLD, &r);\n\
        double b = MPI_Wtime(); int go = 1; while (go) {\n\
        int one = r + 1; MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n\
        go = MPI_Wtime() - b < 0.7; MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD); }\n\
        if (r == 0) printf(\"%d\\n\", all); MPI_Finalize(); return 0; }\n";
    build(place, "mpicc", program)?;
    let ended = mpirun(place, "-n 2 ./p")?;
    ensure!(ended.out == "3\n", "{}", ended.out);
    let run = place.json("r.json")?;
    ranks_suffered(&run)?;
    // mpirun itself, and whatever it starts without a rank.
    ensure!(run["without"]["not_meant"].as_u64() >= Some(1), "{run}");
    Ok(())
}

/// A real MPI program (Debian's): Linpack, and the rest of its suite at its
/// smallest.
fn hpcc_suffers_in_each_rank_and_is_right(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let input = include_str!("../../../lab/src/workload/hpccinf.txt")
        .replace("@N@", "1000")
        .replace("@RANKS@", "2");
    fs::write(place.path("hpccinf.txt"), input)?;
    mpirun(place, "--bind-to none -n 2 hpcc")?;
    let text = fs::read_to_string(place.path("hpccoutf.txt"))?;
    let right = "1 tests completed and passed residual checks";
    ensure!(text.contains(right), "{text}");
    let run = place.json("r.json")?;
    ranks_suffered(&run)?;
    Ok(())
}

fn build(place: &MachinePlace, compiler: &str, program: &str) -> Result<()> {
    fs::write(place.path("p.c"), program)?;
    let mut command = Command::new(compiler);
    command
        .args(["-O1", "-o", "p", "p.c"])
        .current_dir(place.path("."));
    if compiler == "cc" {
        command.arg("-fopenmp");
    }
    let output = command.output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

/// Directories of replays in the places where they are made.
fn left() -> Vec<String> {
    let bases = ["/run", "/dev/shm", "/tmp", "/var/tmp"].into_iter();
    let entries = bases.flat_map(fs::read_dir).flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("sandbag-inside-"))
        .collect()
}

fn what_is_left_of_a_killed_replay_is_removed_by_the_next(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let script = "echo $$ > pid; i=0; while [ ! -e go ]; do i=$((i+1)); done; sh -c 'exit 4'";
    let (mut run, _) = place.start_ready(OPTIONS, script)?;
    let pid = run.id();
    let ours = |name: &String| name.starts_with(&format!("sandbag-inside-{pid}-"));
    ensure!(left().iter().any(ours), "{:?}", left());
    run.kill()?;
    run.wait()?;
    // The command lives on, and may start others without a word.
    place.run(&format!("{OPTIONS} -- true"))?.expect(0)?;
    ensure!(left().iter().any(ours), "{:?}", left());
    fs::write(place.path("go"), "")?;
    wait_for("its end", || {
        place.run(&format!("{OPTIONS} -- true")).ok()?;
        (!left().iter().any(ours)).then_some(())
    })?;
    Ok(())
}

fn signals_reach_the_program(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let script = "trap 'kill $!; exit 9' TERM; echo $$ > pid; sleep 100 & wait";
    let (run, _) = place.start_ready(OPTIONS, script)?;
    end(run, Signal::SIGTERM)?.expect(9)?;
    place.script(OPTIONS, "kill -KILL $$")?.expect(137)?;
    Ok(())
}

fn a_long_event_ends_soon_after_sandbag_was_killed(place: &MachinePlace) -> Result<()> {
    // A minute, soon after the beginning.
    place.trace([0], [[300_000_000, 60_000_000_000]])?;
    let (mut run, _) = place.start_ready(
        &format!("{OPTIONS} --no-safeguard share"),
        "echo $$ > pid; i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; echo > done",
    )?;
    std::thread::sleep(Duration::from_millis(600));
    ensure!(!place.path("done").exists(), "the event did not come");
    run.kill()?;
    run.wait()?;
    wait_until("the program's end", || place.path("done").exists())?;
    // What is left of it is removed by the next.
    place.run(&format!("{OPTIONS} -- true"))?.expect(0)?;
    Ok(())
}

/// A file system that has room for the library, and none for the plan.
fn a_full_directory_is_said_plainly_and_nothing_is_left(place: &MachinePlace) -> Result<()> {
    place.trace([0], (0..400_000).map(|i| [i * 10_000, 1_000]))?;
    // In a namespace of mounts of its own, where nothing else has room either.
    let script = format!(
        "mount -t tmpfs none /mnt && cp {sandbag} {made} /mnt/ && cd /mnt && mkdir small && \
         mount -t tmpfs -o size=1m none small && \
         for d in /run /dev/shm /tmp /var/tmp; do mount -t tmpfs -o size=128k none $d; done; \
         TMPDIR=/mnt/small ./sandbag {OPTIONS} -- touch ran; echo code $?; \
         ls -d ran /*/sandbag-inside-* /dev/shm/* /var/tmp/* /mnt/small/*",
        sandbag = place.sandbag.display(),
        made = place.path("made.json").display(),
    );
    let ended = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let out = String::from_utf8_lossy(&ended.stdout);
    ensure!(out == "code 125\n", "{out}{said}");
    ensure!(said.contains("are free, and the plan takes"), "{said}");
    ensure!(said.contains("TMPDIR names another"), "{said}");
    Ok(())
}

fn a_user_behind_sudo_suffers_too(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let words = format!("{OPTIONS} -- sh -c");
    let mut command = place.sudo(words.split_whitespace());
    command.arg("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; id -u");
    let ended = finish(command.spawn()?)?.expect(0)?;
    ensure!(ended.out == "65534\n", "{}", ended.out);
    let run = place.json("r.json")?;
    let most = processes(&run)?.iter().map(injected).max();
    figure!(most > Some(0), "{run}");
    Ok(())
}
