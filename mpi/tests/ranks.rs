// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark under mpirun.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandbag_jitter::synth::{Arrivals, Component, Lengths, NoiseModel, synthesise};

/// One test at a time: each keeps every CPU busy, and figures are compared.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mpirun(ranks: u32, program: &Path) -> Command {
    // Must belong to the linked library, where several are installed.
    let mpirun = std::env::var_os("MPIRUN").unwrap_or_else(|| "mpirun".into());
    let mut command = Command::new(mpirun);
    command
        .args(["-n", &ranks.to_string()])
        .arg(program)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_hwloc_base_binding_policy", "none");
    command
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sandbag-mpi"))
}

fn done(command: &mut Command) -> Output {
    let output = command.output().expect("mpirun of an MPI library");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    output
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("figures")
}

/// 200 us twice in a millisecond, on two CPUs.
fn trace(dir: &Path) -> std::path::PathBuf {
    let arrivals = Arrivals::Periodic {
        period_ns: 5e5,
        phase_ns: None,
        jitter_ns: 0.0,
        share: 1.0,
    };
    let model = NoiseModel {
        cpus: vec![0, 1],
        duration_ns: 1_000_000_000,
        seed: 1,
        components: vec![Component::new(arrivals, Lengths::Fixed(2e5))],
    };
    let path = dir.join("made.sbj");
    let file = std::fs::File::create(&path).unwrap();
    sandbag_jitter::format::write(&synthesise(&model).unwrap().trace, file).unwrap();
    path
}

#[test]
fn two_and_four_ranks_meet_without_jitter() {
    let _alone = alone();
    for ranks in [2, 4] {
        let mut command = mpirun(ranks, program());
        command.args("bench -d 1s --quantum 500us --json -".split(' '));
        let figures = json(&done(&mut command));
        assert_eq!(figures["ranks"], ranks);
        let per_rank = figures["per_rank"].as_array().unwrap();
        assert_eq!(per_rank.len(), ranks as usize);
        assert!(figures["slowdown"]["phases"][1].as_u64().unwrap() > 50);
        assert_eq!(figures["slowdown"]["jitter_ns"], serde_json::Value::Null);
        assert!(!figures["mpi"].as_str().unwrap().is_empty());
    }
}

#[test]
fn ranks_replay_a_trace_and_write_all_phases() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    for sync in ["none", "once", "phase", "every:10"] {
        let rows = dir.path().join("rows.csv.zst");
        let mut command = mpirun(2, program());
        command.args("bench -d 2s --quantum 1ms --rounds 2 --json -".split(' '));
        command
            .arg("--sync")
            .arg(sync)
            .arg("--jitter")
            .arg(trace(dir.path()));
        command.arg("--force").arg("-o").arg(&rows);
        // Two events of 200 us in each millisecond, and in the time that they add, make 67 %.
        // Noise of the host comes on top, so only a lower bound is checked; against phases of
        // the same run, because the host's speed changes. As in machine tests, a second run
        // decides where a first one is off.
        let slowed = |figures: &serde_json::Value| {
            figures["slowdown"]["over_run_pct"].as_f64().unwrap() > 50.0
        };
        let mut figures = json(&done(&mut command));
        if !slowed(&figures) {
            eprintln!("{sync}: judged by a second run: {figures}");
            figures = json(&done(&mut command));
        }
        assert!(slowed(&figures), "{sync}: {figures}");
        assert!(std::fs::metadata(rows).unwrap().len() > 100);
        // Their clocks are compared if there are CPUs for both.
        if figures["oversubscribed"] == false {
            let drift = &figures["drift_ns"];
            assert!(
                drift["first_to_last"].is_f64() && drift["error"].is_f64(),
                "{figures}"
            );
            assert_eq!(figures["clocks"][1].as_array().unwrap().len(), 2);
        }
    }
}

#[test]
fn errors_are_printed_once() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.sbj");
    std::fs::write(&bad, "no trace").unwrap();
    let nowhere = dir.path().join("nowhere.sbj");
    for path in [&bad, &nowhere] {
        let mut command = mpirun(2, program());
        command.args(["bench", "-d", "1s", "--jitter"]).arg(path);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        let said = text.lines().filter(|l| l.starts_with("sandbag-mpi:"));
        assert_eq!(said.count(), 1, "{text}");
    }
    // Before anything is measured.
    let begin = std::time::Instant::now();
    let mut command = mpirun(2, program());
    command.args(["bench", "-d", "10m", "--json"]);
    let output = command
        .arg(dir.path().join("no/such.json"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("no/such.json").count(), 1, "{text}");
    assert!(begin.elapsed().as_secs() < 300);
    let output = mpirun(2, program()).arg("bunch").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("unrecognized subcommand").count(), 1, "{text}");
}

#[test]
fn a_run_without_mpirun_has_one_rank() {
    let _alone = alone();
    let output = done(Command::new(program()).arg("info"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn processes_that_mpi_does_not_connect_are_refused() {
    let _alone = alone();
    let info = |rank: &str| {
        // Of a launcher that no library here knows.
        let mut command = Command::new(program());
        command.env("PALS_RANKID", rank).env("PALS_NRANKS", "2");
        let output = command.arg("info").output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = info("0");
    assert!(
        text.contains("started 2 processes, and MPI knows 1"),
        "{text}"
    );
    assert!(!info("1").contains("sandbag-mpi:"));
}

#[test]
fn sandbag_starts_it() {
    let _alone = alone();
    let sandbag = std::env::var_os("SANDBAG_BIN")
        .expect("SANDBAG_BIN, the sandbag to start: `make mpi-test` sets it");
    let dir = program().parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(dir.to_path_buf()).chain(std::env::split_paths(&path));
    let mut command = Command::new(sandbag);
    command
        .args("scale bench --mpi --ranks 2 -d 1s --json -".split(' '))
        .env("PATH", std::env::join_paths(all).unwrap());
    let figures = json(&done(&mut command));
    assert_eq!(figures["ranks"], 2);
}

/// One sandbag per rank on this machine, each on a CPU of its own.
fn started(words: [&str; 2]) -> Command {
    let sandbag = std::env::var_os("SANDBAG_BIN").expect("SANDBAG_BIN");
    let mut command = mpirun(1, program());
    for (rank, words) in words.iter().enumerate() {
        if rank > 0 {
            command.args([":", "-n", "1"]).arg(program());
        }
        command.args(["start", "--sandbag"]).arg(&sandbag).arg("--");
        command.args(words.split(' '));
    }
    command
}

#[test]
#[ignore = "needs root and two CPUs"]
fn loads_of_all_ranks_begin_together() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let words = [0, 1].map(|rank| {
        let out = dir.path().join(format!("{rank}"));
        format!("-q load 10 -c {rank} -d 1s --out {}", out.display())
    });
    done(&mut started([&words[0], &words[1]]));
    let began = [0, 1].map(|rank| {
        let text = std::fs::read(dir.path().join(format!("{rank}/run.json"))).unwrap();
        let run: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let began = run["began_at"].as_str().unwrap().to_owned();
        began.parse::<jiff::Timestamp>().unwrap()
    });
    let apart_ms = (began[0].as_nanosecond() - began[1].as_nanosecond()).abs() as f64 / 1e6;
    eprintln!("starts {apart_ms:.3} ms apart");
    assert!(apart_ms < 100.0, "{apart_ms}");
}

#[test]
#[ignore = "needs root and two CPUs"]
fn a_load_that_fails_ends_the_others() {
    let _alone = alone();
    let mut command = started(["-q load 10 -c 0 -d 10m --no-out", "load 10 -c 4000 -d 10m"]);
    let begin = std::time::Instant::now();
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("CPU 4000"), "{text}");
    assert!(begin.elapsed().as_secs() < 120);
}
