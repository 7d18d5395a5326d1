// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps: what a load costs is found, a failure is shown, an interrupted sweep goes on.

use crate::prelude::*;

cases! { CASES: two_cpus;
    a_sweep_finds_what_a_load_costs,
    a_program_that_fails_at_one_speed_is_shown,
    a_sweep_that_is_interrupted_or_killed_goes_on,
    a_program_that_does_not_end_with_its_sweep_is_killed,
    a_command_of_a_metric_ends_with_its_sweep,
    a_run_that_is_ended_from_outside_is_no_failure,
    what_cannot_be_measured_is_said,
    under_sudo_the_results_of_a_sweep_are_the_user_s,
    two_programs_are_compared_under_one_load,
}

cases! { PROGRAMS: || repeated().and_then(|()| have(&["redis-server", "redis-benchmark", "cc"]));
    redis_and_a_compiler_are_measured_by_their_own_figures,
}

cases! { SERVICE: || repeated().and_then(|()| have(&["g++"]));
    a_service_in_cpp_has_its_rate_and_a_longer_p99_under_load,
}

/// A program of some tenths of a second on CPU 0 that prints what it did.
const PROGRAM: &str =
    "taskset -c 0 sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo did $i'";

fn sweep(place: &MachinePlace, options: &str, script: &str) -> Result<PlaceExit> {
    place.script(&format!("sweep {options}"), script)
}

fn a_sweep_finds_what_a_load_costs(place: &MachinePlace) -> Result<()> {
    let options = "--load 0,50 -c 0 --runs 6 --out s --metric wall --junit j.xml --markdown m.md";
    let words = format!("sweep {options}");
    let words = words
        .split(' ')
        .chain(["--metric", "did: /did ([0-9]+)/ up"])
        .chain(["--fail-if", "wall@50 > 1.3 * wall@0"])
        .chain(["--fail-if", "did@50 < did@0", "--", "sh", "-c", PROGRAM]);
    let said = finish(place.sandbag(words).spawn()?)?;
    let record = place.json("s/sweep.json")?;
    let ratio = record["answers"][1]["to_baseline"]["ratio"].as_f64();
    // Twice the time, of the part that the CPU takes.
    figure!(
        ratio.is_some_and(|ratio| (1.5..2.6).contains(&ratio)),
        "{}",
        record["answers"]
    );
    figure!(said.code() == 3, "{said:?}");
    let said = said.says(&[
        "failed: fails if wall@50",
        "passed: fails if did@50",
        "wall at 50 is",
    ])?;
    ensure!(record["complete"] == true && record["runs"].as_array().map_or(0, Vec::len) >= 12);
    let junit = text_of(place.path("j.xml"))?;
    ensure!(
        junit.contains("tests=\"2\" failures=\"1\" skipped=\"0\""),
        "{junit}"
    );
    ensure!(text_of(place.path("m.md"))?.contains("| condition |"));
    ensure!(text_of(place.path("s/report.html"))?.contains("<svg"));
    ensure!(text_of(place.path("s/run-001/stdout.txt"))? == "did 400000\n");
    let shown = place.run("show s")?.expect(0)?;
    ensure!(said.err.contains(shown.out.trim_end()), "{shown:?}");
    place.as_before()?;
    Ok(())
}

fn a_program_that_fails_at_one_speed_is_shown(place: &MachinePlace) -> Result<()> {
    let script = "sleep .3; test $SANDBAG_NODE_SPEED = 1";
    let options = "--speed 1,.5 -c 1 --runs 2 --warm-up 0 --out s --fail-if failed@0.5>0.5";
    // More than 2 if a run was spoilt.
    let said = sweep(place, options, script)?.says(&["A failed in ", " runs at 0.5."])?;
    // Failures are counted: there is no interval.
    ensure!(said.code() == 3, "{said:?}");
    place.as_before()?;
    Ok(())
}

fn a_sweep_that_is_interrupted_or_killed_goes_on(place: &MachinePlace) -> Result<()> {
    let options = "-q sweep --load 0,30 -c 0 --runs 3";
    let script = "sleep .2";
    let mut run = place.start_script(&format!("{options} --out s"), script)?;
    wait_until("the warm-up", || place.path("s/warm-up-01").exists())?;
    kill(pid_of(&run), Signal::SIGKILL)?;
    finish(run)?;
    run = place.start_script(&format!("{options} --resume s"), script)?;
    for (made, signal) in [(1, Signal::SIGINT), (3, Signal::SIGKILL)] {
        let dir = format!("s/run-{:03}", made + 1);
        wait_until("some runs", || place.path(&dir).exists())?;
        kill(pid_of(&run), signal)?;
        let ended = finish(run)?;
        ensure!(
            signal == Signal::SIGKILL || ended.code() == 130,
            "{ended:?}"
        );
        place.as_before()?;
        run = place.start_script(&format!("{options} --resume s"), script)?;
    }
    finish(run)?.expect(0)?;
    let record = place.json("s/sweep.json")?;
    let runs = record["runs"].as_array().context("runs")?;
    ensure!(record["complete"] == true, "{record}");
    let numbers: Vec<_> = runs
        .iter()
        .filter_map(|run| run["number"].as_u64())
        .collect();
    let expected: Vec<u64> = (1..=runs.len() as u64).collect();
    ensure!(runs.len() >= 6 && numbers == expected, "{numbers:?}");
    for other in [
        options.replace("0,30", "0,40"),
        format!("{options} --as-root"),
    ] {
        let said = place.script(&format!("{other} --resume s"), script)?;
        said.expect(2)?.says(&["a sweep of other conditions"])?;
    }
    // One that replaces it and fails leaves no results of before.
    let said = place.script(&format!("{options} --force --out s"), "true")?;
    said.expect(1)?;
    ensure!(!place.path("s/sweep.json").exists());
    place.as_before()?;
    Ok(())
}

fn a_program_that_does_not_end_with_its_sweep_is_killed(place: &MachinePlace) -> Result<()> {
    let words = "-q sweep --load 0,30 -c 0 --runs 1 --warm-up 0 --out s";
    let script = "trap '' INT TERM; echo $$ > pid; exec sleep 60";
    let (run, program) = place.start_ready(words, script)?;
    kill(pid_of(&run), Signal::SIGTERM)?;
    finish(run)?.expect(130)?;
    place.as_before()?;
    ensure!(!lives(program), "the program lives on");
    Ok(())
}

fn a_command_of_a_metric_ends_with_its_sweep(place: &MachinePlace) -> Result<()> {
    let words = "-q sweep --load 0,30 -c 0 --runs 1 --warm-up 0 --out s --metric-cmd";
    let metric = "x: sleep 60 & echo $! > pid; wait";
    let words = words.split(' ').chain([metric, "--", "sleep", ".3"]);
    let run = place.sandbag(words).spawn()?;
    let sleeper = place.pid("pid")?;
    kill(pid_of(&run), Signal::SIGTERM)?;
    finish(run)?.expect(130)?;
    wait_until("the end of the command", || !lives(sleeper))?;
    place.as_before()?;
    Ok(())
}

fn a_run_that_is_ended_from_outside_is_no_failure(place: &MachinePlace) -> Result<()> {
    for condition in ["--load 0,30", "--speed 1,.5"] {
        let words = format!("-q sweep {condition} -c 0 --runs 1 --warm-up 0 --force --out s");
        let (run, program) = place.start_ready(&words, "echo $$ > pid; exec sleep 60")?;
        // The sweep is none of the runs that sandbag lists.
        let supervisors = place.ours(Role::Supervisor).into_iter();
        let mut supervisors = supervisors.filter(|pid| *pid != pid_of(&run));
        let supervisor = supervisors.next().context("no run")?;
        place.run(&format!("stop {supervisor}"))?.expect(0)?;
        let said = finish(run)?.expect(1)?;
        said.says(&["s/run-001 was ended from outside"])?;
        ensure!(!lives(program) && !place.path("s/sweep.json").exists());
        place.as_before()?;
    }
    Ok(())
}

fn under_sudo_the_results_of_a_sweep_are_the_user_s(place: &MachinePlace) -> Result<()> {
    let words = "-q sweep --load 0,10 -c 0 --runs 1 --warm-up 0 --out r/s --markdown m.md";
    let metric = "uid: id -u; test -r $SANDBAG_RUN_DIR/stdout.txt";
    let words = words.split(' ').chain(["--metric-cmd", metric]);
    let words = words.chain(["--", "sleep", ".3"]);
    finish(place.sudo(words).spawn()?)?.expect(0)?;
    let record = place.json("r/s/sweep.json")?;
    let uid = record["runs"][0]["values"]["uid"].as_f64();
    ensure!(uid == Some(f64::from(NOBODY)), "{record}");
    let mut all = vec![place.path("r"), place.path("m.md")];
    while let Some(path) = all.pop() {
        let owner = fs::metadata(&path)?.uid();
        ensure!(owner == NOBODY, "{} belongs to {owner}", path.display());
        if path.is_dir() {
            all.extend(fs::read_dir(&path)?.flatten().map(|entry| entry.path()));
        }
    }
    Ok(())
}

/// B does what A does and half as much again.
fn two_programs_are_compared_under_one_load(place: &MachinePlace) -> Result<()> {
    let work = |steps: u32| format!("i=0; while [ $i -lt {steps} ]; do i=$((i+1)); done");
    let compare = |options: &str, a: &str, b: &str| -> Result<PlaceExit> {
        let words = format!("compare {options}");
        let words = words.split(' ').chain(["--", "sh", "-c", a]);
        finish(
            place
                .sandbag(words.chain(["--vs", "sh", "-c", b]))
                .spawn()?,
        )
    };
    fs::write(place.path("p.csv"), "time,cpu0\n0,20\n.2,60\n.4,end\n")?;
    let options = "p.csv --loop --scale-load .5 --runs 6 --pin 0 --out c --json=c.json";
    let said = compare(options, &work(400_000), &work(600_000))?;
    let record = place.json("c.json")?;
    let wall = &record["answers"][1]["to_first_program"];
    let ratio = wall["ratio"].as_f64();
    figure!(
        said.code() == 0 && ratio.is_some_and(|ratio| (1.3..1.7).contains(&ratio)),
        "{said:?}: {wall}"
    );
    said.says(&["The loads were the same: kept in both runs of 6 pairs"])?;
    let cpu = &record["same_load"]["cpus"][0];
    ensure!(
        cpu["a_asked_pct"].as_f64().is_some_and(|pct| pct < 31.0),
        "{cpu}"
    );
    ensure!(text_of(place.path("c/report.html"))?.contains("the loads were the same"));
    let said = compare("10 -c 0 --runs 2 --out f", "sleep .2; exit 3", "sleep .2")?.expect(1)?;
    said.says(&["A failed, exit code 3", "stdout.txt", "--ignore-failure"])?;
    let options = "10 -c 0 --runs 1 --ignore-failure --out g --force --no-settle";
    let said = compare(options, "sleep .2; exit 3", "sleep .2")?;
    figure!(said.code() == 0, "{said:?}");
    for (options, code, says) in [
        ("compare 10 -- true", 2, "--vs is missing"),
        (
            "compare 10 --strict -- a --vs b",
            2,
            "--strict is not for compare",
        ),
        ("compare none.csv -- true --vs true", 2, "none.csv"),
        ("compare 10 --map mean -- true --vs true", 2, "--map"),
        ("compare 10 -- true --vs ./none", 127, "./none"),
        (
            "compare 10 --cgroup /no/group --kill --pin 0 -- true --vs true",
            5,
            "is not a group",
        ),
    ] {
        place.answers(options, code, &[says])?;
    }
    place.as_before()?;
    Ok(())
}

fn what_cannot_be_measured_is_said(place: &MachinePlace) -> Result<()> {
    let metric = "p99: /p99=(.*)/";
    let words = [
        "-q",
        "sweep",
        "--load",
        "0,5",
        "-c",
        "0",
        "--warm-up",
        "0",
        "--out",
        "s",
    ];
    let words = words
        .into_iter()
        .chain(["--metric", metric, "--", "sleep", ".3"]);
    let said = finish(place.sandbag(words).spawn()?)?.expect(1)?;
    said.says(&[
        "metric p99: run-001 (A at ",
        "nothing matches /p99=(.*)/",
        "s/run-001/stdout.txt",
    ])?;
    let says = ["run-001: the program ended after", "over 0.1 s at least"];
    place.answers("sweep --load 0,5 --warm-up 0 --out t -- true", 1, &says)?;
    let says = [
        "run-001: A failed, exit code 1, after",
        "u/run-001/stdout.txt and stderr.txt",
    ];
    place.answers("sweep --load 0,5 --warm-up 0 --out u -- false", 1, &says)?;
    for (options, code, says) in [
        ("sweep -- true", 2, "nothing is varied"),
        ("sweep --load 0,0 -- true", 2, "condition 0 is there twice"),
        (
            "sweep --load 0,101 -- true",
            2,
            "101 is not between 0 and 100",
        ),
        ("sweep --speed 1,2 -- true", 2, "at most 1"),
        ("sweep --speed 1,.01 -c 0 -- true", 5, "condition 0.01: "),
        (
            "sweep --load 0 --profile x.csv -- true",
            2,
            "cannot be used with",
        ),
        ("sweep --load 0,30 -- ./none", 127, "./none"),
        (
            "sweep --load 0,30 -- true --vs",
            2,
            "a program is missing beside --vs",
        ),
        (
            "sweep --load 0,30 --fail-if wall@3>1 -- true",
            2,
            "there is no condition `3`",
        ),
        ("sweep --load 0,30 --metric wal -- true", 2, "expected wall"),
        ("sweep --profile none.csv -- true", 2, "none.csv"),
        (
            "sweep --load 0 --jitter none,none.sbj -- true",
            2,
            "none.sbj",
        ),
        (
            "sweep --load 0,30 --resume none -- true",
            1,
            "none/sweep.json",
        ),
    ] {
        place.answers(options, code, &[says])?;
    }
    place.as_before()?;
    Ok(())
}

/// Metric and median of each answer of a sweep.
fn medians(place: &MachinePlace, sweep: &str) -> Result<Vec<(String, f64)>> {
    let record = place.json(&format!("{sweep}/sweep.json"))?;
    let answers = record["answers"].as_array().context("no answers")?;
    let answers = answers.iter().map(|one| {
        let metric = one["metric"].as_str().unwrap_or_default().to_owned();
        (metric, one["median"].as_f64().unwrap_or_default())
    });
    Ok(answers.collect())
}

/// A service and its benchmark, and a program whose figure is in its output as JSON.
fn redis_and_a_compiler_are_measured_by_their_own_figures(place: &MachinePlace) -> Result<()> {
    let script = r#"
        taskset -c 0 redis-server --port 7412 --save '' --daemonize yes --dir . \
            --pidfile $PWD/redis.pid >/dev/null
        until redis-cli -p 7412 ping 2>/dev/null | grep -q PONG; do sleep .05; done
        "$S" -q sweep --load 0,60 -c 0 --runs 3 --out redis \
            --metric 'rate [1/s]: /"GET","([0-9.]+)"/ up' \
            --metric 'p99 [ms]: /"GET"(?:,"[0-9.]+"){5},"([0-9.]+)"/' \
            --fail-if 'rate@60 < .9 * rate@0' \
            -- redis-benchmark -p 7412 -t get -n 20000 --csv
        echo "code $?"
        kill "$(cat redis.pid)"
        for n in $(seq 600); do echo "int f$n(int x) { return x * $n + f0(x); }"; done |
            sed '1i int f0(int x) { return x / 3; }' >many.c
        "$S" -q sweep --load 0,50 -c 0 --runs 2 --out cc --metric user --metric 'size: json:.size' \
            -- sh -c 'taskset -c 0 cc -O2 -c many.c -o many.o &&
                echo "{\"size\": $(wc -c <many.o)}"'
        echo "code $?"
    "#;
    let said = place.bash(script)?.expect(0)?;
    let (redis, cc) = (medians(place, "redis")?, medians(place, "cc")?);
    ensure!(redis.len() == 4 && cc.len() == 4, "{redis:?} {cc:?}");
    ensure!(
        redis.iter().chain(&cc).all(|(_, median)| *median > 0.0),
        "{redis:?} {cc:?}"
    );
    let sizes: Vec<f64> = cc
        .iter()
        .filter(|(name, _)| name == "size")
        .map(|one| one.1)
        .collect();
    ensure!(sizes[0] == sizes[1], "{cc:?}");
    figure!(said.out == "code 3\ncode 0\n", "{said:?} {redis:?}");
    place.as_before()?;
    Ok(())
}

/// Threads that serve a socket on CPU 0 and take about half of it: more than the load leaves, so
/// that requests pile up.
fn a_service_in_cpp_has_its_rate_and_a_longer_p99_under_load(place: &MachinePlace) -> Result<()> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/service.cpp");
    let script = r#"
        g++ -std=c++17 -O2 -Wall -Wextra -pthread -o service SOURCE || exit
        "$S" -q sweep --load 0,60 -c 0 --runs 4 --warm-up 0 --repeats 0 \
            --out swept \
            --metric 'rate [1/s]: /rate=([0-9.]+)/ up' \
            --metric 'p99 [ms]: /p99=([0-9.]+)/' \
            --fail-if 'p99@60 > p99@0' \
            -- taskset -c 0 ./service 2 200 150
        echo "code $?"
    "#;
    let said = place.bash(&script.replace("SOURCE", source))?.expect(0)?;
    let rows = medians(place, "swept")?;
    let of = |wanted: &str| -> Vec<f64> {
        let rows = rows.iter().filter(|(name, _)| name == wanted);
        rows.map(|row| row.1).collect()
    };
    let (rate, p99) = (of("rate"), of("p99"));
    ensure!(rate.len() == 2 && p99.len() == 2, "{rows:?}");
    // Of 200 requests a second, all of them without a load.
    figure!((180.0..202.0).contains(&rate[0]), "{rows:?}");
    figure!(rate[1] > 0.0 && rate[1] < rate[0], "{rows:?}");
    figure!(p99[1] > p99[0], "{rows:?}");
    figure!(said.out == "code 3\n", "{said:?} {rows:?}");
    place.as_before()?;
    Ok(())
}
