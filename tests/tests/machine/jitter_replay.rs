// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay`: a made-up trace of events so long that nothing of
//! the machine's own comes near them.

use crate::prelude::*;

cases! { CASES: root;
    a_recorder_beside_sees_the_events_of_the_trace,
    events_of_an_idle_cpu_are_in_time,
    the_command_s_exit_code_passes_through_a_replay,
    a_replay_that_is_killed_leaves_no_injector,
    a_replay_that_is_stopped_goes_on_where_it_was,
    an_injector_that_is_killed_is_missed,
    an_injector_that_is_stopped_is_a_warning,
    status_shows_a_replay_and_stop_ends_it,
    real_time_that_is_denied_names_the_nearest_method,
}

cases! { REPEATED: repeated; verify_sees_events_inside_on_time }

/// An event begins every so often, ms.
const EVERY_MS: u64 = 40;

/// Of 1 to 5 ms, for 4 s, on one CPU.
fn trace(place: &MachinePlace) -> Result<()> {
    let ms = 1_000_000;
    place.trace(
        [0],
        (0..100).map(|i| [i * EVERY_MS * ms + ms, (1 + i % 5) * ms]),
    )
}

fn a_recorder_beside_sees_the_events_of_the_trace(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    // Above other tasks of this machine and below the injector; so it looks
    // for 0.8 s of a second.
    let recorder = format!(
        "exec {} jitter record --cpus 0 -d 2s --preheat 0s --threshold 700us --real-time 1 \
         -o seen.sbj",
        place.sandbag.display()
    );
    let options = "jitter replay made.json --cpus 0 --priority 2 --no-safeguard share --out r";
    place.script(options, &recorder)?.expect(0)?;
    let run = place.json("r/run.json")?;
    let counts = &run["cpus"][0]["counts"];
    let injected = counts["injected"].as_u64().context("no count")?;
    ensure!(run["method"]["used"] == "fifo", "{run}");
    ensure!(run["end"] == "command", "{run}");
    let csv = fs::read_to_string(place.path("r/achieved.csv"))?;
    ensure!(csv.lines().count() as u64 == injected + 1, "{csv}");
    figure!(injected >= 40, "{counts}");
    let shown = place.run("jitter show --json seen.sbj")?.expect(0)?;
    let seen = shown.json()?;
    // 1.6 s hold 40.
    let events = seen[0]["events"].as_u64().context("no events")?;
    figure!((25..80).contains(&events), "{seen}");
    let median = seen[0]["quantiles_ns"][1].as_u64().context("no lengths")?;
    figure!((900_000..6_000_000).contains(&median), "{seen}");
    Ok(())
}

/// A CPU that sleeps wakes up ten times as late as a busy one does.
fn events_of_an_idle_cpu_are_in_time(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let words = "jitter replay made.json --cpus 0 --loop -d 6s --out r --force";
    place.run(words)?.judged()?;
    let run = place.json("r/run.json")?;
    let measured = &run["cpus"][0]["measured"];
    let [idle, busy] = ["idle_wake_p90_ns", "wake_p50_ns"].map(|key| measured[key].as_u64());
    ensure!(idle > Some(0) && busy > Some(0), "{measured}");
    figure!(run["verdict"] == "kept", "{run}");
    place.as_before()?;
    Ok(())
}

fn the_command_s_exit_code_passes_through_a_replay(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let options = "jitter replay made.json --cpus 0 --no-out -q";
    place.script(options, "exit 7")?.expect(7)?;
    place.script(options, "kill -KILL $$")?.expect(137)?;
    place
        .run(&format!("{options} -- /nonexistent"))?
        .expect(127)?;
    place.run(&format!("{options} -- /tmp"))?.expect(126)?;
    // Ctrl-C reaches the command, which decides.
    let script = "trap 'exit 9' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let (run, _) = place.start_ready(options, script)?;
    end(run, Signal::SIGTERM)?.expect(9)?;
    let full = "jitter replay made.json --cpus 0 --no-out --json=/dev/full -q";
    for (script, code) in [("exit 0", 125), ("exit 7", 7)] {
        let ended = place.script(full, script)?.expect(code)?;
        ended.says(&["/dev/full", "No space left"])?;
    }
    Ok(())
}

fn a_replay_that_is_killed_leaves_no_injector(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut worst = Duration::ZERO;
    for round in 0..case::rounds(8) {
        let mut run = place.start("jitter replay made.json --cpus 0 --loop --no-out -q")?;
        std::thread::sleep(Duration::from_millis(chance.u64(0..700)));
        run.kill()?;
        run.wait()?;
        let took = place.as_before();
        worst = worst.max(took.with_context(|| format!("round {round}, seed {seed}"))?);
    }
    case::note(&format!("as before after {worst:?} at worst; seed {seed}"));
    Ok(())
}

fn a_replay_that_is_stopped_goes_on_where_it_was(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let (run, _) = place.start_ready(
        "jitter replay made.json --cpus 0 --no-safeguard share -d 1500ms --out r",
        // A sleep that is stopped goes on by the wall clock.
        "echo $$ > pid; i=0; while [ $i -lt 12 ]; do sleep 0.1; i=$((i+1)); done",
    )?;
    let sandbag = pid_of(&run);
    kill(sandbag, Signal::SIGTSTP)?;
    let stopped = |pid: Pid| state_of(pid) == Some('T');
    wait_until("all to be stopped", || {
        let mut all = place.ours(Role::Injector).into_iter().chain([sandbag]);
        all.all(stopped)
    })?;
    place.run("status")?.expect(0)?.shows(&["ago; paused"])?;
    // Longer than what counts as missed.
    std::thread::sleep(Duration::from_millis(1300));
    kill(sandbag, Signal::SIGCONT)?;
    finish(run)?.expect(0)?;
    let run = place.json("r/run.json")?;
    let paused = run["paused_s"].as_f64().context("no pause")?;
    ensure!(paused > 1.2, "{run}");
    let counts = &run["cpus"][0]["counts"];
    ensure!(counts["missed"] == 0, "{counts}");
    figure!(counts["injected"].as_u64() >= Some(20), "{counts}");
    Ok(())
}

fn an_injector_that_is_stopped_is_a_warning(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let run = place.start("jitter replay made.json --cpus 0 --share 1 -d 3s --out r")?;
    let injector = place.one_of(Role::Injector)?;
    wait_until("the record", || place.path("r").exists())?;
    std::thread::sleep(Duration::from_secs(1));
    kill(injector, Signal::SIGSTOP)?;
    std::thread::sleep(Duration::from_millis(800));
    kill(injector, Signal::SIGCONT)?;
    finish(run)?.says(&["the injector of CPU 0 did not run for"])?;
    let run = place.json("r/run.json")?;
    let stood_s = run["cpus"][0]["stood_s"].as_f64().context("no time")?;
    figure!((0.6..1.2).contains(&stood_s), "{run}");
    // An event every 40 ms.
    let away = run["cpus"][0]["counts"]["away"].as_u64();
    figure!(away.context("no count")? >= 15, "{run}");
    Ok(())
}

fn an_injector_that_is_killed_is_missed(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let run = place.start("jitter replay made.json --cpus 0 --share 1 --no-out")?;
    let injector = place.one_of(Role::Injector)?;
    // It measures first.
    std::thread::sleep(Duration::from_millis(1500));
    kill(injector, Signal::SIGKILL)?;
    finish(run)?
        .expect(3)?
        .says(&["the injector of CPU 0 ended"])?;
    Ok(())
}

fn status_shows_a_replay_and_stop_ends_it(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let run = place.start("jitter replay made.json --cpus 0 --loop --no-out -q")?;
    let pid = run.id();
    let own = || {
        let all = place.run("status --json").ok()?.out;
        let mut lines = all.lines().flat_map(serde_json::from_str::<Value>);
        lines.find(|line| line["pid"] == pid)
    };
    let line = wait_for("its line", own)?;
    ensure!(line["cpus"] == "0" && line["method"] == "fifo", "{line}");
    ensure!(line["load"] == "jitter of made.json", "{line}");
    let injector = line["injectors"][0]["pid"].as_i64().context("none")?;
    let ours = place.ours(Role::Injector);
    ensure!(ours == [Pid::from_raw(injector as i32)], "{line}");
    place.run("status")?.expect(0)?.shows(&[
        &format!("{pid}: jitter of made.json by fifo on CPUs 0; begun "),
        &format!("  CPU 0: events by process {injector}"),
    ])?;
    // It keeps no load and no node from its CPU.
    let load = "load 20 --cpus 0 -d 300ms --no-out -q --no-settle";
    place.run(load)?.judged()?;
    place
        .run("slow --cpus 0 --speed 0.5 --dry-run")?
        .expect(0)?;
    let says = "jitter of made.json) has no load that can be set";
    place.answers(&format!("set {pid} --load 20"), 2, &[says])?;
    place.run(&format!("stop {pid}"))?.expect(0)?;
    finish(run)?.judged()?;
    let options = "jitter replay made.json --inside --loop --no-out -q";
    let (run, _) = place.start_ready(options, "echo $$ > pid; exec sleep 60")?;
    let line = format!("{}: jitter of made.json inside, with sh", run.id());
    place.run("status")?.expect(0)?.shows(&[&line])?;
    place.run("stop --all")?.expect(0)?;
    finish(run)?.expect(128 + Signal::SIGTERM as i32)?;
    Ok(())
}

fn real_time_that_is_denied_names_the_nearest_method(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let as_nobody = |words: &str| -> Result<_> {
        let mut command = place.sandbag(words.split_whitespace());
        command.uid(NOBODY).gid(NOBODY);
        finish(command.spawn()?)
    };
    let options = "jitter replay made.json --cpus 0 -d 300ms --no-out";
    as_nobody(&format!("{options} --method fifo"))?
        .expect(5)?
        .says(&["real time is denied", "--method fair"])?;
    as_nobody(&format!("{options} --method fifo -- true"))?.expect(125)?;
    // An ordinary task may come too late here.
    let ended = as_nobody(&format!("{options} --json=-"))?;
    let record = ended.judged()?.json()?;
    ensure!(record["method"]["asked"] == "auto", "{record}");
    ensure!(record["method"]["used"] == "fair", "{record}");
    ensure!(record["method"]["why"].is_string(), "{record}");
    as_nobody(&format!("{options} --method fair -- true"))?.expect(0)?;
    Ok(())
}

/// Events of 1 to 5 ms are seen inside a program, by its own clock.
fn verify_sees_events_inside_on_time(place: &MachinePlace) -> Result<()> {
    trace(place)?;
    let verify = "jitter verify made.json --cpus 0 --trace-cpus 0 --share 1 -d 1s --method fair";
    let rows = place.run(&format!("{verify} --json"))?.expect(0)?.json()?;
    let mut rows = rows.as_array().context("no rows")?.iter();
    let inside = rows.find(|row| row["name"] == "inside, no safeguards");
    let inside = inside.context("no row of events inside")?;
    let injected = inside["counts"]["injected"].as_u64().context("no count")?;
    let on_time_pct = inside["judged"]["on_time_pct"].as_f64();
    let on_time_pct = on_time_pct.context("no share")?;
    figure!(injected > 10 && on_time_pct > 20.0, "{inside}");
    Ok(())
}
