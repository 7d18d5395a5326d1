// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node with a load and jitter on its CPUs: what each part gets, what is left, and that
//! all parts begin and end together.

use crate::prelude::*;
use crate::slowed::{Spinners, Waiting, spin};

cases! { CASES: two_cpus;
    a_node_is_slow_and_busy_and_noisy_at_once,
    a_load_of_all_that_a_speed_leaves_follows_it,
    a_file_of_nodes_has_loads_of_its_own,
    a_part_that_ends_early_is_missed,
    parts_end_with_the_time_of_their_node,
    all_parts_end_with_a_run_that_is_killed,
}

cases! { PROFILE: repeated;
    a_profile_is_a_load_beside_speed_and_jitter,
}

const SPEED: f64 = 50.0;
const LOAD: f64 = 30.0;
/// An event of 1 ms every 50 ms.
const JITTER: f64 = 2.0;
const PARTS: &str = "--load 30 --jitter j.csv";

/// A trace of a minute on two CPUs.
fn write_trace(place: &MachinePlace) -> Result<()> {
    let mut text = "cpu,start_ns,length_ns\n".to_owned();
    for cpu in 0..2u64 {
        for event in 0..1200u64 {
            let start_ns = event * 50_000_000 + cpu * 7_000_000;
            text += &format!("{cpu},{start_ns},1000000\n");
        }
    }
    Ok(fs::write(place.path("j.csv"), text)?)
}

/// The figures of a part, or of what was left, on CPU 0.
fn of_part(record: &Value, name: &str) -> Result<(f64, String)> {
    let parts = record["parts"].as_array().context("parts")?;
    let part = parts.iter().find(|part| part["name"] == name);
    let part = part.with_context(|| format!("{name}: {record}"))?;
    let got = part["cpus"][0]["got_pct"].as_f64().unwrap_or(f64::NAN);
    let verdict = part["verdict"].as_str().unwrap_or_default();
    Ok((got, verdict.to_owned()))
}

/// The mean of the profile is the load of the slowed CPUs.
fn a_profile_is_a_load_beside_speed_and_jitter(place: &MachinePlace) -> Result<()> {
    write_trace(place)?;
    fs::write(
        place.path("steps.csv"),
        "time,cpu0,cpu1\n0,20,20\n1,40,40\n2,end\n",
    )?;
    place
        .run("-q slow --cpus 0-1 --speed .5 --load steps.csv --jitter j.csv -d 4s --out r")?
        .judged()?;
    let record = place.json("r/run.json")?;
    for (part, expected) in [("load", SPEED * 0.3), ("jitter", JITTER)] {
        let (got, verdict) = of_part(&record, part)?;
        figure!((got - expected).abs() < 2.0, "{part} {verdict}: {record}");
    }
    let words = "slow --cpus 0-1 --speed 0=1,1=.5 --load steps.csv -d 1s --no-out";
    place.answers(words, 2, &["a profile needs the same speed of all CPUs"])?;
    Ok(())
}

fn a_node_is_slow_and_busy_and_noisy_at_once(place: &MachinePlace) -> Result<()> {
    write_trace(place)?;
    let methods: &[&str] = if case::is_all_wanted() {
        &["hogs", "pace", "quota", "rt"]
    } else {
        &["hogs"]
    };
    for method in methods {
        let words = format!(
            "-q slow --cpus 0-1 --speed .5 {PARTS} --method {method} --name n -d 8s --out r --force"
        );
        let run = place.start_script(&words, &spin(2))?;
        let spinners = Spinners::of(place)?;
        std::thread::sleep(Duration::from_millis(1000));
        let got = spinners.get(Duration::from_secs(3))?;
        let each = SPEED * (1.0 - LOAD / 100.0) - JITTER;
        let all = 2.0 * each / 100.0;
        figure!(
            got.is_near(all, 2.0 - all, 0.1),
            "{method}: {all} asked, {got:?}"
        );
        // The load is of the new speed. Each command of sandbag is foreign load on two CPUs
        // for some hundredths of a second, and 2 % are too much.
        place.answers("slow set n --speed .8", 0, &[])?;
        std::thread::sleep(Duration::from_millis(2500));
        // Parts end with their run, and not before.
        place.run("stop --all")?.expect(0)?;
        // The command's own.
        finish(run)?.expect(128 + 15)?;
        let record = place.json("r/run.json")?;
        let warnings = &record["warnings"];
        let shown = format!(
            "{method}: {}, {warnings}, {}",
            record["reason"], record["parts"]
        );
        let (load, verdict) = of_part(&record, "load")?;
        // Of .5 and of .8, each for a part of the time.
        figure!((15.5..23.5).contains(&load), "{shown}");
        figure!(verdict == "kept", "{shown}");
        let (jitter, verdict) = of_part(&record, "jitter")?;
        figure!((jitter - JITTER).abs() < 0.5, "{shown}");
        figure!(verdict == "kept", "{shown}");
        // A turn of rt is half of a tenth of a second: its seconds are about a point off, which
        // is the limit.
        figure!(*method == "rt" || record["verdict"] == "kept", "{shown}");
        let left = record["cpus"][0]["left_pct"].as_f64().unwrap_or(f64::NAN);
        let asked = 100.0 - record["cpus"][0]["asked_pct"].as_f64().unwrap_or(f64::NAN);
        // A turn of rt more or less, of a run of 7 s.
        let within = if *method == "rt" { 1.7 } else { 1.0 };
        figure!((asked - load - jitter - left).abs() < within, "{shown}");
        ensure!(
            place.path("r/load/report.html").exists(),
            "no report of the load"
        );
        ensure!(
            place.path("r/jitter/achieved.csv").exists(),
            "no report of the jitter"
        );
        place
            .run("show r")?
            .expect(0)?
            .shows(&["beside", "jitter", "left"])?;
        place.as_before()?;
    }
    let refused = "slow --cpus 0-1 --speed .5 --no-out -d 1s";
    for (words, code, says) in [
        ("--load 30 --method lim", 5, "use --method hogs or pace"),
        (
            "--jitter j.csv --method deadline",
            5,
            "jitter would come late",
        ),
        ("--load 2=30", 2, "CPU 2 is not one of the node's"),
        ("--jitter none.csv", 2, "none.csv"),
        ("--jitter -", 2, "standard input is CMD's"),
    ] {
        place.answers(&format!("{refused} {words}"), code, &[says])?;
    }
    place.as_before()?;
    Ok(())
}

/// Also to full speed, of which no load takes all.
fn a_load_of_all_that_a_speed_leaves_follows_it(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "full", "--cpus 0 --speed .5 --load 100")?;
    // One run on this CPU, whose parts are no place for another one.
    let says = ["are already loaded by sandbag", "--load and --jitter"];
    place.answers("load 5 -c 0 -d 1s --no-out", 5, &says)?;
    let whole = format!("part of run {}", node.child.id());
    place
        .run("status")?
        .expect(0)?
        .shows(&["node full", &whole])?;
    place.answers("set full --load 20", 2, &["node full has speeds"])?;
    place.answers("slow set full --speed 1", 0, &[])?;
    ensure!(node.status()?["speeds"][0]["asked"] == 1.0);
    Ok(())
}

fn a_file_of_nodes_has_loads_of_its_own(place: &MachinePlace) -> Result<()> {
    write_trace(place)?;
    fs::create_dir(place.path("nodes"))?;
    fs::rename(place.path("j.csv"), place.path("nodes/j.csv"))?;
    let text = "[defaults]\nspeed = 0.5\nload = 30\n\
                [[node]]\nname = \"a\"\ncpus = 0\njitter = \"j.csv\"\ncommand = \"sleep 3\"\n\
                [[node]]\nname = \"b\"\ncpus = 1\nload = \"50%\"\ncommand = \"sleep 3\"\n";
    fs::write(place.path("nodes/n.toml"), text)?;
    place.run("slow nodes/n.toml --out r")?.expect(0)?;
    for (name, parts, load) in [("a", 2, 15.0), ("b", 1, 25.0)] {
        let record = place.json(&format!("r/{name}/run.json"))?;
        let found = record["parts"].as_array().map_or(0, Vec::len);
        ensure!(found == parts, "{record}");
        let (got, _) = of_part(&record, "load")?;
        figure!((got - load).abs() < 1.0, "{record}");
    }
    fs::write(
        place.path("nodes/n.toml"),
        "[[node]]\nname = \"a\"\ncpus = 0\nspeed = 0.5\nload = 300\n",
    )?;
    place.answers(
        "slow nodes/n.toml --no-out",
        2,
        &["nodes/n.toml:5: invalid value '300'"],
    )?;
    place.as_before()?;
    Ok(())
}

/// The supervisors of the parts: children of the node's that have children.
fn parts_of(run: &Child) -> Result<Vec<Pid>> {
    let children = process(pid_of(run)).children()?;
    let has_words = |pid: &u32, word: &str| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.contains(word)
    };
    let of = |word| children.iter().find(|pid| has_words(pid, word)).copied();
    [of("\0load\0"), of("\0jitter\0")]
        .into_iter()
        .map(|pid| Ok(Pid::from_raw(pid.context("a part")?.cast_signed())))
        .collect()
}

fn a_part_that_ends_early_is_missed(place: &MachinePlace) -> Result<()> {
    write_trace(place)?;
    // One that is asked to end leaves a record as after any other end.
    let ends = [Signal::SIGKILL, Signal::SIGTERM]
        .into_iter()
        .flat_map(|signal| [(0, "load", signal), (1, "jitter", signal)]);
    for (at, name, signal) in ends {
        let words = format!("-q slow --cpus 0-1 --speed .5 {PARTS} --name n -d 2s --out r --force");
        let run = place.start(&words)?;
        wait_until("the node to serve", || {
            let set = place.run("slow set n --speed .6");
            set.is_ok_and(|set| set.code() == 0)
        })?;
        kill(parts_of(&run)?[at], signal)?;
        finish(run)?.expect(3)?;
        let record = place.json("r/run.json")?;
        let warning = format!("the {name} ended before the run did");
        let warnings = record["warnings"].to_string();
        ensure!(warnings.contains(&warning), "{signal}: {warnings}");
        let reason = record["reason"].as_str().unwrap_or_default();
        ensure!(
            record["verdict"] == "missed" && reason.contains(name),
            "{record}"
        );
        place.as_before()?;
    }
    Ok(())
}

/// The command goes on at full speed, and without load and jitter.
fn parts_end_with_the_time_of_their_node(place: &MachinePlace) -> Result<()> {
    write_trace(place)?;
    let words = format!("-q slow --cpus 0-1 --speed .5 {PARTS} -d 1s --out r -- sleep 4");
    place.run(&words)?.judged()?;
    let record = place.json("r/run.json")?;
    for name in ["load", "jitter"] {
        let (_, verdict) = of_part(&record, name)?;
        ensure!(verdict != "missed", "{record}");
    }
    let warnings = record["warnings"].to_string();
    ensure!(warnings.contains("after the time of -d, at full speed"));
    // Of both it was as long as that of the load.
    let jitter = place.json("r/jitter/run.json")?;
    let ran_s = jitter["wall_s"].as_f64().unwrap_or(f64::NAN);
    ensure!((0.9..3.5).contains(&ran_s), "{ran_s} s of jitter");
    place.as_before()?;
    Ok(())
}

fn all_parts_end_with_a_run_that_is_killed(place: &MachinePlace) -> Result<()> {
    write_trace(place)?;
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    for _ in 0..case::rounds(8) {
        let words = format!("-q slow --cpus 0-1 --speed .5 {PARTS} --no-settle --no-out -d 1h");
        let run = place.start(&words)?;
        std::thread::sleep(Duration::from_millis(chance.u64(0..1200)));
        kill(pid_of(&run), Signal::SIGKILL)?;
        finish(run)?;
        place.as_before().with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}
