// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `scale`: predictions from a small trace, and a short benchmark.

use std::fmt::Write as _;

use predicates::prelude::*;
use predicates::str::contains;

use crate::dir::Dir;
use crate::page::readable;

/// Two CPUs for two seconds: 10 us every millisecond, and 1 ms every 100.
fn traced() -> Dir {
    let mut text = "cpu,start_ns,length_ns\n".to_owned();
    for cpu in 0..2u64 {
        for i in 0..2000u64 {
            let length = if i % 100 == 50 { 1_000_000 } else { 10_000 };
            let _ = writeln!(text, "{cpu},{},{length}", i * 1_010_000 + cpu * 77_000);
        }
    }
    Dir::new().with("a.csv", text)
}

#[test]
fn a_trace_is_predicted_from() {
    let dir = traced();
    assert_snapshot!(dir.transcript(&[
        "scale predict a.csv --ranks 1,1e6",
        "scale predict a.csv --ranks 16,64 --sync none,once,phase --drift 5ms --phases 3000 \
         --no-classes -o p.html",
        "scale predict a.csv --ranks 1,1000 -o c.html",
    ]));
    for page in ["p", "c"] {
        let name = format!("page-{page}");
        assert_snapshot!(name, readable(&dir.read(&format!("{page}.html"))));
    }
    let all = ["scale", "predict", "a.csv", "--ranks", "16,64", "--sync"];
    let few = ["none,once,phase", "--drift", "5ms", "--phases", "3000"];
    let all = [&all[..], &few, &["--no-classes", "-o"]].concat();
    let figures = dir.run(&[&all[..], &["-"]].concat()).success();
    let figures: serde_json::Value = serde_json::from_slice(&figures.get_output().stdout).unwrap();
    assert_eq!(figures["curves"].as_array().unwrap().len(), 3);
    let slow = |curve: usize| {
        let point = &figures["curves"][curve]["points"][1];
        point["mean"]["slowdown_pct"].as_f64().unwrap()
    };
    assert!(slow(0) > slow(1) && slow(1) > slow(2), "{figures}");
    dir.run(&[&all[..], &["p.csv"]].concat()).success();
    assert_eq!(dir.read("p.csv").lines().count(), 7);
    // The same for a seed, whatever the number of threads.
    for threads in ["1", "3"] {
        dir.run(&[&all[..], &["q.csv", "--force", "--threads", threads]].concat())
            .success();
        assert_eq!(dir.read("q.csv"), dir.read("p.csv"));
    }
    let cost = "--barrier dissemination --loggp 5us,1us,0.5us,0.1ns";
    for more in [
        cost,
        "--group 2",
        "--sync every:100 --drift 2ms",
        &format!("{cost} --group 2 --sync once --drift 2ms"),
    ] {
        let csv = |threads: &str| {
            let all =
                format!("scale predict a.csv --ranks 1,1000 --no-classes {more} --force -o r.csv");
            let all: Vec<&str> = all.split(' ').chain(["--threads", threads]).collect();
            dir.run(&all).success();
            dir.read("r.csv")
        };
        assert_eq!(csv("1"), csv("3"), "{more}");
    }
}

#[test]
fn barriers_groups_and_mixes() {
    let dir = traced();
    let cost = "5us,1us,0.5us,0.1ns";
    let lines = [
        &format!("--barrier dissemination --loggp {cost}"),
        "--group 2",
        "a.csv --mix 3:1",
        "--tail",
    ];
    let lines = lines.map(|more| format!("scale predict a.csv --ranks 64 --no-classes {more} -q"));
    assert_snapshot!(dir.transcript(&lines));
}

#[test]
fn a_page_has_barriers_tails_bounds_and_foreign_names() {
    let name = "<script>.csv";
    let dir = traced().with(name, "cpu,start_ns,length_ns\n0,1000,50\n0,9000000,50\n");
    let cost = "--barrier binomial --loggp 5us,1us,0.5us,0.1ns";
    dir.line(&format!(
        "scale predict a.csv {name} --ranks 1e6 --no-classes {cost} --tail -q -o b.html"
    ))
    .success();
    let page = dir.read("b.html");
    for part in [
        "&lt;script&gt;.csv, sync none",
        "\\u003cscript>.csv, sync none",
        "barrier",
        "with a tail %",
        "&gt;= 216 (216-216)",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<script").count(), 3);
}

#[test]
fn causes_are_classes() {
    // A tick of 8 us in each of a hundred ms, and once a disk for 500.
    let mut text = "# tracer: osnoise\n".to_owned();
    let mut event = |ms: u64, kind: &str, ns: u64| {
        let (s, us) = (ms / 1000, ms % 1000 * 1000 + 900);
        let entry = format!("osnoise/0-961     [000] d.h.  {s}.{us:06}:");
        let _ = writeln!(
            text,
            "{entry} {kind} start {s}.{:09} duration {ns} ns",
            ms % 1000 * 1_000_000 + 1_000
        );
        let _ = writeln!(
            text,
            "{entry} sample_threshold: start {s}.{:09} duration {} ns interference 1",
            ms % 1000 * 1_000_000,
            ns + 2_000
        );
    };
    for ms in 1_000..1_100 {
        if ms == 1_050 {
            event(ms, "irq_noise: nvme0q1:33", 500_000)
        } else {
            event(ms, "irq_noise: local_timer:236", 8_000)
        }
    }
    let dir = Dir::new().with("osnoise.txt", text);
    dir.line("jitter convert osnoise.txt -o own.sbj").success();
    // The file of another tool, and a trace of our own format.
    for file in ["osnoise.txt", "own.sbj"] {
        let predict = ["scale", "predict", file, "--ranks", "1,1000"];
        let predict = [&predict[..], &["--quantum", "200us", "-q", "-o", "-"]].concat();
        let found = dir.run(&predict).success();
        let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).unwrap();
        let classes = found["classes"][0]["classes"].as_array().unwrap();
        let saves = |name: &str, ranks: usize| {
            let class = classes.iter().find(|class| class["class"] == name);
            let class = class.unwrap_or_else(|| panic!("{file}: no class {name}: {classes:?}"));
            class["saves_points"][ranks].as_f64().unwrap()
        };
        // The tick takes more, and the disk longer.
        let (tick, disk) = ("irq local_timer", "irq nvme0q1");
        assert!(saves(tick, 0) > saves(disk, 0), "{classes:?}");
        assert!(saves(disk, 1) > 10.0 * saves(tick, 1), "{classes:?}");
    }
}

#[test]
fn a_short_benchmark_has_both_references() {
    let dir = traced();
    let short = ["scale", "bench", "-d", "400ms", "--rounds", "2"];
    dir.run(&[&short[..], &["--ranks", "2", "-o", "b.csv.zst"]].concat())
        .success()
        .stdout(contains("run without %").and(contains("quantum %")))
        .stdout(contains("Asked for 400 ms, took "));
    assert!(dir.names().contains(&"b.csv.zst".to_owned()));
    let jitter = ["--jitter", "a.csv", "--json", "-"];
    let found = dir.run(&[&short[..], &["--ranks", "2"], &jitter].concat());
    let found = found.success();
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).unwrap();
    assert!(found["slowdown"]["over_run_pct"].is_f64(), "{found}");
    assert_eq!(found["per_rank"].as_array().unwrap().len(), 2);
    assert!(found["predicted_on_host"]["pct"].is_f64(), "{found}");
    assert_eq!(found["capped"], 0);
    // Virtual ranks: each suffers 11 % of its time at least.
    let many = ["--virtual", "--clock", "cpu", "--ranks", "16"];
    let many = [&short[..4], &many, &jitter].concat();
    let found = dir.run(&many).success();
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).unwrap();
    let ranks: Vec<u64> = found["slowdowns"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["ranks"].as_u64())
        .collect();
    assert_eq!(ranks, [1, 2, 4, 8, 16]);
    assert_eq!(found["predicted"].as_array().unwrap().len(), 5);
    assert_eq!(found["per_rank"].as_array().unwrap().len(), 16);
    // Two CPUs of the trace are a node: its ranks suffer the same stretch.
    let nodes = ["--ranks", "2", "--group", "2", "--sync", "once"];
    let found = dir.run(&[&short[..], &nodes, &jitter].concat()).success();
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).unwrap();
    assert!(found["slowdown"]["jitter_ns"].is_f64(), "{found}");
    // More ranks than CPUs: marked, and nothing is expected of this host.
    let many = ["--ranks", "3", "--cpus", "0", "--quantum", "200us"];
    let found = dir.run(&[&short[..], &many, &jitter].concat()).success();
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).unwrap();
    assert_eq!(found["oversubscribed"], true);
    assert!(found["predicted_on_host"].is_null(), "{found}");
    dir.line("scale bench -d 100ms --cpus 0 --ranks 2")
        .success()
        .stdout(contains("OVERSUBSCRIBED"))
        .stdout(contains("Ranks that began together").not())
        .stderr(contains("--virtual"));
}

#[test]
fn how_far_ranks_are_apart_is_measured_and_predicted_with() {
    let dir = traced();
    let bench = ["scale", "bench", "-d", "400ms", "--jitter", "a.csv"];
    let once = ["--sync", "once", "--force", "--json", "b.json"];
    let alone = ["--virtual", "--clock=cpu", "--ranks=8"];
    for more in [&["--ranks", "2", "--rounds", "2"][..], &alone] {
        dir.run(&[&bench[..], &once, more].concat()).success();
        let found: serde_json::Value = serde_json::from_str(&dir.read("b.json")).unwrap();
        if found["oversubscribed"] == true {
            // Two ranks on one CPU ask each other for the CPU, not for the time.
            continue;
        }
        let drift = &found["drift_ns"];
        assert!(drift["first_to_last"].is_f64(), "{found}");
        assert!(drift["phases"].as_u64() > Some(1), "{found}");
        // Whether it was saturated depends on what runs beside this test: that it
        // is not, on a machine of its own, is a machine test.
        assert!(found["load"]["saturated"].is_boolean(), "{found}");
        assert!(found["took_s"].as_f64() > Some(0.0), "{found}");
        // What was measured synchronised once has its prediction, too.
        assert!(found["predicted"].is_array(), "{found}");
        let predict = ["scale", "predict", "a.csv", "--ranks", "64", "--no-classes"];
        let once = ["--sync", "once", "--phases", "100", "--drift", "b.json"];
        dir.run(&[&predict[..], &once].concat()).success();
    }
}

#[test]
fn options_without_an_effect_are_refused() {
    let dir = traced();
    for (line, named) in [
        ("scale bench --virtual --rounds 3", "--rounds"),
        ("scale predict a.csv --bytes 64", "--loggp"),
    ] {
        dir.line(line).code(2).stderr(contains(named));
    }
}

/// 950 us of each millisecond.
#[test]
fn noise_that_leaves_nothing_is_said() {
    let mut text = "cpu,start_ns,length_ns\n".to_owned();
    for cpu in 0..2u64 {
        for i in 0..2000u64 {
            let _ = writeln!(text, "{cpu},{},950000", i * 1_000_000);
        }
    }
    let dir = Dir::new().with("a.csv", text);
    dir.line("scale predict a.csv --ranks 2 --no-classes")
        .success()
        .stderr(contains("saturated: noise takes 95.0 %"));
    let bench = ["scale", "bench", "-d", "40ms", "--quantum", "100us"];
    let bench = [&bench[..], &["--jitter", "a.csv"]].concat();
    for kind in [&["--ranks=2", "--rounds=1"][..], &["--virtual"]] {
        let run = dir.run(&[&bench[..], kind].concat());
        let output = run.success().get_output().clone();
        let said = String::from_utf8(output.stdout).unwrap();
        let (_, after) = said.split_once("SATURATED: noise takes ").expect(&said);
        // A host that others use takes the rest.
        let share = after.split(' ').next().unwrap();
        assert!(share.parse::<f64>().unwrap() >= 90.0, "{said}");
        // The whole of it: no phase would end, so none is begun.
        let dir = Dir::new().with("a.csv", "cpu,start_ns,length_ns\n0,0,1000000000\n");
        dir.run(&[&bench[..], kind].concat())
            .code(2)
            .stderr(contains("nothing is left to the work"));
    }
}

/// Whichever rank dies, the others do not wait for it at the barrier for ever.
#[test]
fn the_death_of_a_rank_ends_a_benchmark() {
    for which in [0, 1] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sandbag"))
            .args("scale bench --ranks 2 -d 60s".split(' '))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let file = format!("/proc/{0}/task/{0}/children", child.id());
        let begin = std::time::Instant::now();
        // One calibrates first, alone.
        let ranks = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let ranks: Vec<i32> = text.split(' ').flat_map(str::parse).collect();
            if ranks.len() == 2 {
                break ranks;
            }
            assert!(begin.elapsed().as_secs() < 30, "no ranks: {text}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        // SAFETY: a signal to a process that we had started.
        unsafe { libc::kill(ranks[which], libc::SIGKILL) };
        let begin = std::time::Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begin.elapsed().as_secs() > 20 => {
                    let _ = child.kill();
                    panic!("it goes on without rank {which}");
                }
                None => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        };
        assert_eq!(status.code(), Some(1));
    }
}

/// A shell's, whose process becomes that of the benchmark.
#[test]
fn the_death_of_another_child_does_not_end_a_benchmark() {
    let line = "false & exec \"$0\" scale bench --ranks 1 -d 100ms";
    assert_cmd::Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_sandbag")])
        .assert()
        .success();
}

#[test]
fn ranks_of_mpi_need_an_mpi() {
    let dir = Dir::new();
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_sandbag"));
    command
        .current_dir(dir.path())
        .env("PATH", "/nowhere")
        .args(["scale", "bench", "--mpi"])
        .assert()
        .code(5)
        .stderr(contains("leave --mpi out"));
}

#[test]
fn a_name_that_cannot_be_written_to_costs_no_minutes() {
    let dir = Dir::new();
    let begin = std::time::Instant::now();
    for option in ["--json", "-o"] {
        let file = "no/such/rows.csv";
        dir.run(&["scale", "bench", "-d", "10m", option, file])
            .code(1)
            .stderr(contains(file));
    }
    assert!(begin.elapsed().as_secs() < 60);
}

#[test]
fn ranks_have_the_cpus_that_this_process_may_use() {
    let few = ["scale", "bench", "--virtual", "--ranks", "2", "-d", "100ms"];
    assert_cmd::Command::new("taskset")
        .args(["-c", "0", env!("CARGO_BIN_EXE_sandbag")])
        .args(few)
        .assert()
        .success()
        .stdout(contains("2 virtual ranks on 1 CPUs"));
}
