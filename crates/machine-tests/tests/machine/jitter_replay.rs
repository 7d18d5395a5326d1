// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay`: a made-up trace of events so long that nothing of
//! the machine's own comes near them.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_machine_tests::case::{self, Case};
use sandbag_machine_tests::figure;
use sandbag_machine_tests::ours::Role;

use crate::cases;
use crate::place::{Place, finish, root, wait_for};

pub const CASES: &[Case] = cases![root;
    a_recorder_beside_sees_the_events_of_the_trace,
    the_command_s_exit_code_passes_through_a_replay,
    a_replay_that_is_killed_leaves_no_injector,
    an_injector_that_is_killed_is_missed,
    real_time_that_is_denied_names_the_nearest_method,
];

/// Debian's user nobody.
const NOBODY: u32 = 65534;
/// An event begins every so often, ms.
const EVERY_MS: u64 = 40;

/// Of 1 to 5 ms, for 4 s, on one CPU.
fn trace(place: &Place) -> anyhow::Result<()> {
    let ms = 1_000_000;
    let events: Vec<[u64; 2]> = (0..100)
        .map(|i| [i * EVERY_MS * ms + ms, (1 + i % 5) * ms])
        .collect();
    fs::write(
        place.path("made.json"),
        serde_json::json!({ "0": events }).to_string(),
    )?;
    Ok(())
}

fn json(place: &Place, name: &str) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::from_str(&fs::read_to_string(
        place.path(name),
    )?)?)
}

fn a_recorder_beside_sees_the_events_of_the_trace() -> anyhow::Result<()> {
    let place = Place::new()?;
    trace(&place)?;
    // Above whoever else uses this machine, and below the injector; so it looks
    // for 0.8 s of a second.
    let recorder = format!(
        "exec {} jitter record --cpus 0 -d 2s --preheat 0s --threshold 700us --real-time 1 \
         -o seen.sbj",
        place.sandbag.display()
    );
    place
        .script(
            "jitter replay made.json --cpus 0 --priority 2 --no-safeguard share --out r",
            &recorder,
        )?
        .expect(0)?;
    let run = json(&place, "r/run.json")?;
    let counts = &run["cpus"][0]["counts"];
    let injected = counts["injected"].as_u64().context("no count")?;
    ensure!(run["method"]["used"] == "fifo", "{run}");
    ensure!(run["end"] == "command", "{run}");
    let csv = fs::read_to_string(place.path("r/achieved.csv"))?;
    ensure!(csv.lines().count() as u64 == injected + 1, "{csv}");
    figure!(injected >= 40, "{counts}");
    let shown = place.run("jitter show --json seen.sbj")?.expect(0)?;
    let seen: serde_json::Value = serde_json::from_str(&shown.out)?;
    // 1.6 s hold 40.
    let events = seen[0]["events"].as_u64().context("no events")?;
    figure!((25..80).contains(&events), "{seen}");
    let median = seen[0]["quantiles_ns"][1].as_u64().context("no lengths")?;
    figure!((900_000..6_000_000).contains(&median), "{seen}");
    place.as_before()?;
    Ok(())
}

fn the_command_s_exit_code_passes_through_a_replay() -> anyhow::Result<()> {
    let place = Place::new()?;
    trace(&place)?;
    let options = "jitter replay made.json --cpus 0 --no-out -q";
    place.script(options, "exit 7")?.expect(7)?;
    place.script(options, "kill -KILL $$")?.expect(137)?;
    place
        .run(&format!("{options} -- /nonexistent"))?
        .expect(127)?;
    place.run(&format!("{options} -- /tmp"))?.expect(126)?;
    // Ctrl-C reaches the command, which decides.
    let run = place.start_script(
        options,
        "trap 'exit 9' TERM; echo > there; while :; do sleep 0.1; done",
    )?;
    wait_for("the command", || place.path("there").exists().then_some(()))?;
    kill(Pid::from_raw(run.id().cast_signed()), Signal::SIGTERM)?;
    finish(run)?.expect(9)?;
    place.as_before()?;
    Ok(())
}

fn a_replay_that_is_killed_leaves_no_injector() -> anyhow::Result<()> {
    let place = Place::new()?;
    trace(&place)?;
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut worst = Duration::ZERO;
    for round in 0..12 {
        let mut run = place.start("jitter replay made.json --cpus 0 --loop --no-out -q")?;
        std::thread::sleep(Duration::from_millis(chance.u64(0..700)));
        run.kill()?;
        run.wait()?;
        let took = place
            .as_before()
            .with_context(|| format!("round {round}, seed {seed}"))?;
        worst = worst.max(took);
    }
    case::note(&format!("as before after {worst:?} at worst; seed {seed}"));
    Ok(())
}

fn an_injector_that_is_killed_is_missed() -> anyhow::Result<()> {
    let place = Place::new()?;
    trace(&place)?;
    let run = place.start("jitter replay made.json --cpus 0 --share 1 --no-out")?;
    let injectors = wait_for("an injector", || {
        let found = place.ours(Role::Injector);
        (!found.is_empty()).then_some(found)
    })?;
    // It measures first.
    std::thread::sleep(Duration::from_millis(1500));
    kill(injectors[0], Signal::SIGKILL)?;
    finish(run)?
        .expect(3)?
        .says(&["the injector of CPU 0 ended"])?;
    place.as_before()?;
    Ok(())
}

fn real_time_that_is_denied_names_the_nearest_method() -> anyhow::Result<()> {
    let place = Place::new()?;
    trace(&place)?;
    let as_nobody = |words: &str| -> anyhow::Result<_> {
        let mut command = place.sandbag(words.split_whitespace());
        command.uid(NOBODY).gid(NOBODY);
        finish(command.spawn()?)
    };
    let options = "jitter replay made.json --cpus 0 -d 300ms --no-out";
    as_nobody(&format!("{options} --method fifo"))?
        .expect(5)?
        .says(&["real time is denied", "--method fair"])?;
    as_nobody(&format!("{options} --method fifo -- true"))?.expect(125)?;
    let ended = as_nobody(&format!("{options} --json=-"))?.expect(0)?;
    let record: serde_json::Value = serde_json::from_str(&ended.out)?;
    ensure!(record["method"]["asked"] == "auto", "{record}");
    ensure!(record["method"]["used"] == "fair", "{record}");
    ensure!(record["method"]["why"].is_string(), "{record}");
    as_nobody(&format!("{options} --method fair -- true"))?.expect(0)?;
    place.as_before()?;
    Ok(())
}
