// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the load is held. The bounds are wide: this machine may be shared;
//! how exact it is shows the benchmark.

use sandbag_linux::cgroup::{self, Version};
use sandbag_linux::machine;
use sandbag_machine_tests::spinner::{self, SpinnerResult};

use crate::groups::CompetingTask;
use crate::prelude::*;

cases! { REPEATED: repeated;
    half_is_held_beside_a_sibling_of_weight_10000,
    half_is_held_beside_tasks_outside_all_groups,
    none_half_a_percent_and_all,
    a_profile_s_steps_are_held,
}

cases! { UNEQUAL: two_cpus;
    each_cpu_has_its_own_load,
    a_load_after_short_steps_without_one_is_held,
}

cases! { ENDS: root; a_load_that_ends_between_two_boundaries_is_held_to_its_end }

// The share left for a command can be judged only on an otherwise idle machine.
cases! { ALONE: alone; half_is_held_beside_five_spinners_in_the_command }

cases! { PUBLISHED: || repeated().and_then(|()| alone()); the_published_formula_is_off }

cases! { LIGHT: || repeated().and_then(|()| alone()).and_then(|()| idle_groups());
    a_burner_gives_way_while_there_is_time,
}

fn idle_groups() -> Result<(), String> {
    if machine::kernel_version(&Root::default()).is_none_or(|version| version < (6, 6)) {
        return Err("before Linux 6.6 light burners are in no idle group".to_owned());
    }
    let tree = cgroup::find(&Root::default()).map_err(|error| error.to_string())?;
    let there = fs::read_dir(&tree.cpu).is_ok_and(|mut all| {
        all.any(|entry| entry.is_ok_and(|entry| entry.path().join("cpu.idle").exists()))
    });
    if there || tree.cpu.join("cpu.idle").exists() {
        Ok(())
    } else {
        Err("no group of this kernel can be idle".to_owned())
    }
}

fn alone() -> Result<(), String> {
    two_cpus()?;
    match 100.0 * stat::busy_share().map_err(|error| format!("{error:#}"))? {
        busy if busy > POINTS => Err(format!("others keep {busy:.0} % of the CPUs busy")),
        _ => Ok(()),
    }
}

/// How far a load may be off, points.
const POINTS: f64 = 5.0;

/// What a run of `name` got on each CPU; fails if that is not what was asked.
fn held(place: &MachinePlace, name: &str) -> Result<()> {
    let record = place.record(name)?;
    let got: Vec<f64> = record.cpus.iter().map(|cpu| cpu.got_pct).collect();
    case::note(&format!("{name}: got {got:.2?} {}", record.verdict));
    for cpu in &record.cpus {
        figure!((cpu.got_pct - cpu.asked_pct).abs() < POINTS, "{cpu:?}");
    }
    Ok(())
}

/// What spinners were left beside a load of `got_pct`, and what others took:
/// percent of the delivered time, mean over the CPUs.
fn left(out: &str, got_pct: f64) -> Result<(f64, f64)> {
    let spun: SpinnerResult = serde_json::from_str(out.trim()).context(out.to_owned())?;
    let sum = |pick: fn(&spinner::SpinnerCpu) -> f64| spun.cpus.iter().map(pick).sum::<f64>();
    let delivered = sum(|cpu| cpu.busy_s + cpu.idle_s);
    let left = sum(|cpu| cpu.spun_s) / delivered * 100.0;
    let busy = sum(|cpu| cpu.busy_s) / delivered * 100.0;
    case::note(&format!("left {left:.2} %"));
    Ok((left, busy - left - got_pct))
}

fn half_is_held_beside_five_spinners_in_the_command(place: &MachinePlace) -> Result<()> {
    let script = format!("{SPINNER} 4 any any any any any");
    let ended = place.script("load 50 --out r -q", &script)?.expect(0)?;
    held(place, "r")?;
    let (left, others) = left(&ended.out, 50.0)?;
    figure!(left < 50.0 + POINTS, "{left} % left: too much");
    // Another program may have started meanwhile.
    figure!(
        left + others.max(0.0) > 50.0 - POINTS,
        "{left} % left, {others} % taken by others"
    );
    Ok(())
}

/// Spinners that begin before the load and end after it.
fn beside(place: &MachinePlace, spinner: Child) -> Result<()> {
    std::thread::sleep(Duration::from_millis(500));
    place.run("load 50 --out r -q -d 4s")?.judged()?;
    finish(spinner)?.expect(0)?;
    held(place, "r")
}

fn half_is_held_beside_a_sibling_of_weight_10000(place: &MachinePlace) -> Result<()> {
    let group = CompetingTask::with_weight(10_000)?;
    let mut spinner = group.shell(&format!("exec {SPINNER} 6 all all"));
    spinner.stdout(Stdio::piped()).stderr(Stdio::piped());
    beside(place, spinner.spawn()?)?;
    // What was owed while the weight was found is no load of the run.
    for cpu in place.record("r")?.cpus {
        figure!((cpu.got_pct - 50.0).abs() < 0.5, "{cpu:?}");
    }
    Ok(())
}

fn half_is_held_beside_tasks_outside_all_groups(place: &MachinePlace) -> Result<()> {
    let mut spinner = place.program(SPINNER, ["6", "all", "all", "all"]);
    beside(place, spinner.spawn()?)
}

fn each_cpu_has_its_own_load(place: &MachinePlace) -> Result<()> {
    place.run("load 0=30,1=60 --out r -q -d 4s")?.judged()?;
    let cpus = place.record("r")?.cpus;
    let asked: Vec<(u32, f64)> = cpus.iter().map(|cpu| (cpu.cpu, cpu.asked_pct)).collect();
    ensure!(asked == [(0, 30.0), (1, 60.0)], "{asked:?}");
    held(place, "r")?;
    Ok(())
}

/// Burners note what they took every 100 ms.
fn a_load_that_ends_between_two_boundaries_is_held_to_its_end(place: &MachinePlace) -> Result<()> {
    place
        .run("load 90 --cpus 0 -d 1050ms --out r -q")?
        .judged()?;
    let record = place.record("r")?;
    figure!(record.verdict == "kept", "{record:?}");
    place
        .run("load 90 --cpus 0 -d 50ms --out short -q")?
        .judged()?;
    // A disturbance of some milliseconds is a lot of it.
    place.record("short")?.cpus[0].expect_near(90.0, 20.0)
}

fn none_half_a_percent_and_all(place: &MachinePlace) -> Result<()> {
    let run = place.start("load 0 -d 2s --out none -q")?;
    std::thread::sleep(Duration::from_millis(1200));
    let burners = place.ours(Role::Burner).len();
    ensure!(burners == 0, "{burners} burners for a load of 0");
    finish(run)?;
    held(place, "none")?;
    place.run("load 0.5 -d 4s --out little -q")?;
    held(place, "little")?;
    let got_pct = place.record("little")?.cpus[0].got_pct;
    figure!(
        (got_pct - 0.5).abs() < 0.3,
        "{got_pct} % for half a percent"
    );
    let said = place.run("load 100 -d 4s --out all")?;
    said.says(&["reaches", "at most"])?;
    held(place, "all")?;
    Ok(())
}

fn a_profile_s_steps_are_held(place: &MachinePlace) -> Result<()> {
    let steps = "# sandbag profile 1\ntime,cpu0\n0,20\n2,70\n4,0\n5,40\n7,end\n";
    fs::write(place.path("steps.csv"), steps)?;
    let run = place.start("replay steps.csv --out r -q")?;
    finish(run)?.judged()?;
    held(place, "r")?;
    let csv = fs::read_to_string(place.path("r/achieved.csv"))?;
    case::note(&csv.replace('\n', " "));
    Ok(())
}

fn a_load_after_short_steps_without_one_is_held(place: &MachinePlace) -> Result<()> {
    // Where one CPU has a step, all have one.
    let row = |n: u32| {
        let load = if n < 200 { 0 } else { 50 };
        format!("{:.2},{load},{}\n", f64::from(n) / 100.0, 30 + n % 2 * 10)
    };
    let rows: String = (0..500).map(row).collect();
    let steps = format!("time,cpu0,cpu1\n{rows}5,end\n");
    fs::write(place.path("steps.csv"), steps)?;
    let run = place.start("replay steps.csv --out r -q")?;
    finish(run)?.judged()?;
    held(place, "r")
}

fn the_published_formula_is_off(place: &MachinePlace) -> Result<()> {
    let script = format!("{SPINNER} 4 all all all all all");
    let ended = place
        .script("load 50 --method shares --cpus all --out r -q", &script)?
        .expect(0)?;
    let record = place.record("r")?;
    let got = record.cpus.iter().map(|cpu| cpu.got_pct).sum::<f64>() / record.cpus.len() as f64;
    case::note(&format!("got {got:.2} %"));
    left(&ended.out, got)?;
    figure!(
        got > 58.0,
        "got {got} %: the published formula gives more than was asked"
    );
    Ok(())
}

/// The file that says whether the group of a process is idle.
fn idle_file(pid: Pid) -> Result<PathBuf> {
    let tree = cgroup::find(&Root::default())?;
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let group = text.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let is_cpu = match tree.version {
            Version::V1 => controllers.split(',').any(|name| name == "cpu"),
            Version::V2 => controllers.is_empty(),
        };
        is_cpu.then_some(group)
    });
    let group = group.context("a process without a group")?;
    Ok(tree
        .cpu
        .join(group.trim_start_matches('/'))
        .join("cpu.idle"))
}

fn a_burner_gives_way_while_there_is_time(place: &MachinePlace) -> Result<()> {
    let run = place.start("load 50 --cpus 0 -d 8s --out r -q")?;
    let burner = place.burners(1)?[0];
    let is =
        |file: &Path, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    // It enters its group some time after its start.
    let idle = wait_for("a burner that gives way", || {
        idle_file(burner).ok().filter(|file| is(file, "1"))
    })?;
    // As a reload of systemd changes it.
    fs::write(&idle, "0")?;
    wait_until("an idle group again", || is(&idle, "1"))?;
    let spinner = place.program(SPINNER, ["3", "0"]).spawn()?;
    wait_until("a burner with its weight", || is(&idle, "0"))?;
    finish(spinner)?.expect(0)?;
    finish(run)?.judged()?;
    held(place, "r")
}
