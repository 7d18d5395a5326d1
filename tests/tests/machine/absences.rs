// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A load that is absent while the program runs is never called kept: each
//! process of a run is stopped, or moved to another CPU, at a time drawn by
//! chance. A real-time sampler reads from outside what the burner took.

use std::sync::atomic::{AtomicBool, Ordering};

use sandbag_linux::CpuList;
use sandbag_linux::clock::{monotonic, sleep_until};
use sandbag_linux::sched::{self, Attributes};

use crate::freezing::can_freeze;
use crate::prelude::*;

cases! { CASES: root;
    a_load_that_stops_beside_its_supervisor_is_not_kept,
    stops_of_each_process_are_judged_as_seen_from_outside,
    a_pause_of_all_is_no_absence,
    a_pause_in_which_the_program_runs_is_an_absence,
    a_pause_stops_what_a_script_started,
}

cases! { FREEZING: can_freeze;
    a_node_whose_throttle_stops_is_not_kept,
}

cases! { MOVED: two_cpus;
    a_burner_that_is_moved_comes_back,
}

const SPIN: &str = "ulimit -t 300; trap exit TERM; while :; do :; done";
const LOAD_PCT: f64 = 50.0;

/// CPU time of a process by the kernel's schedstat, ns.
fn cpu_ns(pid: Pid) -> Option<u64> {
    Some(process(pid).schedstat().ok()?.exec_ns)
}

/// What a sampler saw of a process, and when.
type Gaps = Vec<(u64, u64)>;

/// Looks every 20 ms until `ends` is set, at a real-time priority: a
/// sampler that waits for the CPU would not know when it looked.
fn sample(pid: Pid, ends: &AtomicBool) -> Result<Gaps> {
    sched::set_attributes(0, Attributes::Fifo { priority: 20 })?;
    let mut seen = Vec::new();
    let mut next = monotonic();
    while !ends.load(Ordering::Acquire) {
        // One that ended is reaped with the run.
        let Some(ns) = cpu_ns(pid) else { break };
        seen.push((monotonic(), ns));
        next += 20_000_000;
        sleep_until(next);
    }
    Ok(seen)
}

/// Time in which a process took less than a tenth of its load, ns: by pieces
/// of a tenth of a second.
fn absent_ns(seen: &Gaps) -> u64 {
    let ends: Vec<_> = seen.iter().step_by(5).collect();
    let pieces = ends
        .windows(2)
        .map(|ends| (ends[1].0 - ends[0].0, ends[1].1 - ends[0].1));
    let absent = pieces.filter(|(wall, cpu)| (*cpu as f64) < *wall as f64 * LOAD_PCT / 1000.0);
    absent.map(|(wall, _)| wall).sum()
}

/// A run with a program, and what stops in it.
struct AbsenceRun<'a> {
    place: &'a MachinePlace,
    child: Child,
    program: Pid,
    burner: Pid,
}

impl<'a> AbsenceRun<'a> {
    fn start(place: &'a MachinePlace, options: &str) -> Result<Self> {
        let script = format!("echo $$ > pid; {SPIN}");
        let (child, program) = place.start_ready(options, &script)?;
        let burner = place.burners(1)?[0];
        Ok(Self {
            place,
            child,
            program,
            burner,
        })
    }

    fn pids(&self, roles: &[Role]) -> Vec<Pid> {
        roles
            .iter()
            .flat_map(|role| self.place.ours(*role))
            .collect()
    }

    fn end(self) -> Result<PlaceExit> {
        kill(self.program, Signal::SIGTERM)?;
        finish(self.child)
    }
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Missed, or undecided for what others did on the machine.
const NOT_KEPT: &[i32] = &[3, 4];

/// All at once, or nearly.
fn tell(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = kill(*pid, signal);
    }
}

/// A run of 5 s in which processes are stopped for a while. Returns how it
/// ended, for how long the burner took nothing, and its load by the sampler.
fn stopped(
    place: &MachinePlace,
    roles: &[Role],
    at: u64,
    ms: u64,
) -> Result<(PlaceExit, u64, f64)> {
    let run = AbsenceRun::start(
        place,
        &format!("load {LOAD_PCT} --cpus 0 --strict --force --out r"),
    )?;
    let ends = AtomicBool::new(false);
    let (seen, stolen) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(run.burner, &ends));
        let before = stat::read_cpu(Some(0))?;
        pause(at);
        let victims = run.pids(roles);
        tell(&victims, Signal::SIGSTOP);
        pause(ms);
        tell(&victims, Signal::SIGCONT);
        pause(5000u64.saturating_sub(at + ms));
        ends.store(true, Ordering::Release);
        let stolen_s = stat::read_cpu(Some(0))?.since(before).steal_s;
        let seen = sampler
            .join()
            .map_err(|_| anyhow::anyhow!("the sampler panicked"))?;
        anyhow::Ok((seen?, (stolen_s * 1e9) as u64))
    })?;
    let burners = place.ours(Role::Burner);
    let now = (process(run.burner).schedstat(), burners, run.burner);
    let ended = run.end()?;
    let (first, last) = seen.first().zip(seen.last()).context("nothing was seen")?;
    let wall = (last.0 - first.0).saturating_sub(stolen);
    figure!(
        last.0 - first.0 > 4_500_000_000,
        "the burner was seen for {} ns only; then: {now:?}; {ended:?}",
        last.0 - first.0
    );
    let got_pct = (last.1 - first.1) as f64 * 100.0 / wall as f64;
    Ok((ended, absent_ns(&seen), got_pct))
}

fn a_load_that_stops_beside_its_supervisor_is_not_kept(place: &MachinePlace) -> Result<()> {
    let roles = [Role::Supervisor, Role::Burner];
    let (ended, absent, _) = stopped(place, &roles, 1500, 2500)?;
    figure!(absent > 2_000_000_000, "absent for {absent} ns");
    let ended = ended
        .expect_any(NOT_KEPT)?
        .says(&["supervisor did not run for"])?;
    let record = place.record("r")?;
    figure!(record.cpus[0].got_pct < 40.0, "{record:?}: {ended:?}");
    Ok(())
}

fn stops_of_each_process_are_judged_as_seen_from_outside(_: &MachinePlace) -> Result<()> {
    let mut chance = fastrand::Rng::with_seed(fastrand::u64(..1_000_000));
    case::note(&format!("seed {}", chance.get_seed()));
    let all: &[&[Role]] = &[
        &[Role::Burner],
        &[Role::Supervisor, Role::Burner, Role::Guardian],
        &[Role::Supervisor],
        &[Role::Guardian],
        &[Role::Supervisor, Role::Burner],
    ];
    for roles in &all[..case::rounds(all.len())] {
        let place = MachinePlace::new()?;
        let (at, ms) = (chance.u64(200..2500), chance.u64(300..2200));
        let what = format!("{roles:?} stopped at {at} ms for {ms} ms");
        let (ended, absent, got_pct) = stopped(&place, roles, at, ms)?;
        let ended = if absent >= 300_000_000 {
            ended
                .expect_any(NOT_KEPT)
                .with_context(|| format!("{what}: absent for {absent} ns"))?
        } else {
            ended
        };
        let record = place.record("r")?;
        let said_pct = record.cpus[0].got_pct;
        figure!(
            (said_pct - got_pct).abs() < 4.0,
            "{what}: {said_pct} % of {:.3} s reported, {} holes; {got_pct} % of 5 s seen, absent \
             for {absent} ns: {ended:?}",
            record.length_s,
            record.cpus[0].holes
        );
        place.as_before()?;
    }
    Ok(())
}

/// Waits until all of them are stopped.
fn stand_still(pids: &[Pid]) -> Result<()> {
    wait_until("the pause", || {
        pids.iter().all(|pid| state_of(*pid) == Some('T'))
    })
}

/// A run that is paused as by Ctrl-Z for 2 s, and what is done meanwhile.
fn paused(place: &MachinePlace, meanwhile: impl FnOnce(Pid) -> Result<()>) -> Result<PlaceExit> {
    let run = AbsenceRun::start(
        place,
        &format!("load {LOAD_PCT} --cpus 0 --strict --force --out r"),
    )?;
    pause(1300);
    kill(pid_of(&run.child), Signal::SIGTSTP)?;
    stand_still(&[pid_of(&run.child), run.program])?;
    pause(500);
    meanwhile(run.program)?;
    pause(1500);
    kill(pid_of(&run.child), Signal::SIGCONT)?;
    pause(2000);
    run.end()
}

fn a_pause_of_all_is_no_absence(place: &MachinePlace) -> Result<()> {
    let ended = paused(place, |_| Ok(()))?;
    let record = place.record("r")?;
    figure!(record.cpus[0].holes == 0, "{record:?}: {ended:?}");
    figure!(ended.code() != 3, "{record:?}: {ended:?}");
    figure!((1.5..2.6).contains(&record.paused_s), "{record:?}");
    Ok(())
}

fn a_pause_in_which_the_program_runs_is_an_absence(place: &MachinePlace) -> Result<()> {
    let ended = paused(place, |program| Ok(kill(program, Signal::SIGCONT)?))?;
    let ended = ended.expect_any(NOT_KEPT)?;
    ended.says(&["the program went on while the run was paused"])?;
    Ok(())
}

/// As by `sandbag set --pause`: only sandbag signals the command.
fn a_pause_stops_what_a_script_started(place: &MachinePlace) -> Result<()> {
    let script = format!("sh -c '{SPIN}' & echo $! > pid; wait $!");
    let (run, spinner) = place.start_ready("load 20 --cpus 0 --force --out r", &script)?;
    pause(1300);
    kill(pid_of(&run), Signal::SIGTSTP)?;
    stand_still(&[pid_of(&run), spinner])?;
    let used = || cpu_ns(spinner).context("the spinner is gone");
    let before = used()?;
    pause(500);
    ensure!(used()? == before, "it goes on");
    kill(pid_of(&run), Signal::SIGCONT)?;
    wait_until("the spinner to go on", || {
        used().is_ok_and(|now| now > before)
    })?;
    kill(spinner, Signal::SIGTERM)?;
    finish(run)?;
    figure!(place.record("r")?.cpus[0].holes == 0, "a hole");
    Ok(())
}

fn a_node_whose_throttle_stops_is_not_kept(place: &MachinePlace) -> Result<()> {
    let run = AbsenceRun::start(
        place,
        "slow --cpus 0 --speed 0.5 --method gov --strict --out r",
    )?;
    pause(1500);
    let victims = run.pids(&[Role::Supervisor, Role::Burner]);
    tell(&victims, Signal::SIGSTOP);
    pause(2500);
    tell(&victims, Signal::SIGCONT);
    pause(1000);
    run.end()?.expect_any(NOT_KEPT)?;
    Ok(())
}

fn a_burner_that_is_moved_comes_back(place: &MachinePlace) -> Result<()> {
    let run = place.start("load 50 --cpus 0 -d 4500ms --out r")?;
    let burner = place.burners(1)?[0];
    let number = burner.as_raw().cast_unsigned();
    pause(1500);
    sched::set_affinity(number, &CpuList::from_iter([1]))?;
    wait_for("its return", || {
        let now = sched::affinity(number).ok()?;
        (now == CpuList::from_iter([0])).then_some(())
    })?;
    let ended = finish(run)?;
    ended.says(&["changed the affinity of the burner of CPU 0 (1 times)"])?;
    let record = place.record("r")?;
    let cpu = &record.cpus[0];
    figure!((1..=2).contains(&cpu.holes), "{cpu:?}");
    cpu.expect_near(50.0, 3.0)
}
