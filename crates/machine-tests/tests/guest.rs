// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests in virtual machines with cgroup v2 and CFS, on 4 and 8 CPUs, and with
//! systemd as PID 1. What they need and what they can show: `docs/testing.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use sandbag_machine_tests::case::{self, Case};
use sandbag_machine_tests::guest::{self, Guest, Kind, Outcome};
use sandbag_machine_tests::killing::Restored;
use sandbag_machine_tests::spinner::Spun;
use serde::Deserialize;

/// What is asked for in all of these, percent of each CPU.
const ASKED_PCT: f64 = 50.0;
/// How far `pace` may be off, points.
const PACE_POINTS: f64 = 2.0;
/// How far `quota` may be off, points: enforced at the tick, and ticks of an
/// emulated CPU come late.
const QUOTA_POINTS: f64 = 5.0;
/// How far what is left on one CPU may be off in any case, points: the emulated
/// CPUs take turns on few real ones, so a competitor may begin a tenth of a
/// second late. Over all CPUs that averages out.
const LEFT_POINTS: f64 = 5.0;
/// How far the published formula must be off at least, points. It would be 30
/// on 4 CPUs and 39 on 8; if it is not, the guest does not show what it must.
const PUBLISHED_POINTS: f64 = 15.0;
/// What `systemd.sh` asks for while it measures, by CPU.
const REPLAYED_PCT: [f64; 4] = [50.0, 20.0, 80.0, 35.0];
/// How often `systemd.sh` compares: after the replay, after two rounds of
/// three kills, and after two ways to undo.
const COMPARISONS: usize = 1 + 2 * 3 + 2;
/// A competitor that begins later than this was not there to compete, seconds.
const LATE_S: f64 = 0.5;

/// Bounds that only a guest that hangs reaches: all takes a minute or less.
const TIMEOUT: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    case::run(&[
        Case {
            name: "guest_4cpu_published_formula_by_hand",
            can_run: bare,
            run: published_formula_by_hand,
        },
        Case {
            name: "guest_4cpu_pace",
            can_run: bare_with_sandbag,
            run: pace::<4>,
        },
        Case {
            name: "guest_4cpu_pace_against_tasks_outside",
            can_run: bare_with_sandbag,
            run: pace_against_tasks_outside::<4>,
        },
        Case {
            name: "guest_4cpu_quota",
            can_run: bare_with_sandbag,
            run: quota::<4>,
        },
        Case {
            name: "guest_4cpu_shares_are_off",
            can_run: bare_with_sandbag,
            run: shares_are_off::<4>,
        },
        Case {
            name: "guest_8cpu_pace",
            can_run: bare_with_sandbag,
            run: pace::<8>,
        },
        Case {
            name: "guest_8cpu_pace_against_tasks_outside",
            can_run: bare_with_sandbag,
            run: pace_against_tasks_outside::<8>,
        },
        Case {
            name: "guest_8cpu_quota",
            can_run: bare_with_sandbag,
            run: quota::<8>,
        },
        Case {
            name: "guest_8cpu_shares_are_off",
            can_run: bare_with_sandbag,
            run: shares_are_off::<8>,
        },
        Case {
            name: "guest_systemd_replay_beside_busy_units",
            can_run: systemd,
            run: || twice(replay_beside_busy_units),
        },
        Case {
            name: "guest_systemd_all_is_as_before_after_replay_kills_and_restore",
            can_run: systemd,
            run: all_is_as_before,
        },
    ])
}

fn bare() -> Result<(), String> {
    guest::prepare(Kind::Bare)
}

fn bare_with_sandbag() -> Result<(), String> {
    guest::sandbag()?;
    bare()
}

fn systemd() -> Result<(), String> {
    guest::sandbag()?;
    guest::prepare(Kind::Systemd)
}

/// Shows that the machinery measures: the share that the kernel's rule gives
/// to the published groups is known.
fn published_formula_by_hand() -> anyhow::Result<()> {
    let outcome = boot(Kind::Bare, 4, "published-formula.sh", vec![spinner()])?;
    let left: Spun = outcome.result("left")?;
    off_by_at_least(PUBLISHED_POINTS, &left)?;
    ensure!(outcome.results::<Spun>("burner")?.len() == 4);
    Ok(())
}

/// Which boot of a scenario is looked at: the first, or the second.
static ROUND: AtomicUsize = AtomicUsize::new(0);

/// Judges figures, and those of a second boot if the first are off. The real
/// CPUs are shared with whatever else the host does, and a guest cannot tell
/// when its own were taken away; a wrong formula is wrong twice. What a run
/// leaves behind is never judged like this.
fn twice(judge: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    ROUND.store(0, Ordering::Relaxed);
    let first = judge();
    let Err(error) = first else {
        return first;
    };
    case::note(&format!("again in another guest, because: {error:#}"));
    ROUND.store(1, Ordering::Relaxed);
    let second = judge();
    ROUND.store(0, Ordering::Relaxed);
    second
}

fn pace<const CPUS: u32>() -> anyhow::Result<()> {
    twice(|| held_within(PACE_POINTS, CPUS, "pace"))
}

fn pace_against_tasks_outside<const CPUS: u32>() -> anyhow::Result<()> {
    twice(|| held_within(PACE_POINTS, CPUS, "pace-outside"))
}

fn quota<const CPUS: u32>() -> anyhow::Result<()> {
    twice(|| held_within(QUOTA_POINTS, CPUS, "quota"))
}

fn shares_are_off<const CPUS: u32>() -> anyhow::Result<()> {
    let left: Spun = held(CPUS)?.result("left-shares")?;
    off_by_at_least(PUBLISHED_POINTS, &left)
}

/// Each CPU has a level of its own; what the groups used is the kernel's
/// account of them, and no clock of sandbag's.
fn replay_beside_busy_units() -> anyhow::Result<()> {
    let outcome = under_systemd()?;
    let run: RunJson = outcome.result("run-replay")?;
    let used: Vec<f64> = outcome.result("used-replay")?;
    let shown: Vec<String> = run
        .cpus
        .iter()
        .map(|cpu| format!("{:.1} for {:.1}", cpu.got_pct, cpu.asked_pct))
        .collect();
    case::note(&format!("replay: got {}", shown.join(", ")));
    case::note(&format!("replay: the groups used {used:.1?}"));
    ensure!(run.cpus.len() == 4, "{} CPUs in run.json", run.cpus.len());
    for cpu in &run.cpus {
        ensure!(
            (cpu.got_pct - cpu.asked_pct).abs() <= PACE_POINTS,
            "CPU {}: got {:.1}, asked for {:.1}",
            cpu.cpu,
            cpu.got_pct,
            cpu.asked_pct
        );
    }
    ensure!(used.len() == REPLAYED_PCT.len(), "{} CPUs", used.len());
    for (cpu, (used, asked)) in used.iter().zip(REPLAYED_PCT).enumerate() {
        ensure!(
            (used - asked).abs() <= PACE_POINTS,
            "CPU {cpu}: its groups used {used:.1} %, {asked} were asked for"
        );
    }
    Ok(())
}

/// After the replay, after each kill and after each way to undo.
fn all_is_as_before() -> anyhow::Result<()> {
    let outcome = under_systemd()?;
    let restored: Vec<Restored> = outcome.results("restored")?;
    let slowest = restored.iter().map(|r| r.seconds).fold(0.0, f64::max);
    case::note(&format!(
        "{} times as before, after {slowest:.1} s at most",
        restored.len()
    ));
    for one in &restored {
        ensure!(
            one.processes == 0 && one.difference.is_empty(),
            "{}: not as before after {:.1} s: {} processes, {:#?}",
            one.after,
            one.seconds,
            one.processes,
            one.difference
        );
    }
    ensure!(
        restored.len() == COMPARISONS,
        "{} comparisons, {COMPARISONS} expected:\n{}",
        restored.len(),
        outcome.said()
    );
    Ok(())
}

/// Both views of a run: what sandbag says it took, and what was left.
fn held_within(points: f64, cpus: u32, name: &str) -> anyhow::Result<()> {
    let outcome = held(cpus)?;
    let left: Spun = outcome.result(&format!("left-{name}"))?;
    let run: RunJson = outcome.result(&format!("run-{name}"))?;
    let got_pct: BTreeMap<u32, f64> = run.cpus.iter().map(|c| (c.cpu, c.got_pct)).collect();
    case::note(&format!("{cpus} CPUs, {name}: got {}", percent(&got_pct)));
    case::note(&format!(
        "{cpus} CPUs, {name}: left {}",
        percent(&left.left_pct())
    ));
    ensure!(
        run.cpus.len() == usize::try_from(cpus)?,
        "{} CPUs in run.json, {cpus} loaded",
        run.cpus.len()
    );
    for cpu in &run.cpus {
        ensure!(
            cpu.asked_pct == ASKED_PCT,
            "CPU {}: asked for {ASKED_PCT}, run.json says {}",
            cpu.cpu,
            cpu.asked_pct
        );
    }
    within(points, "got", &got_pct)?;
    not_late(&left)?;
    let left_pct = left.left_pct();
    within(LEFT_POINTS, "left", &left_pct)?;
    let mean = left_pct.values().sum::<f64>() / f64::from(cpus);
    ensure!(
        (mean - ASKED_PCT).abs() <= points,
        "left {mean:.1} % in the mean, more than {points} points from {ASKED_PCT}; all: {}",
        percent(&left_pct)
    );
    Ok(())
}

/// The part of `run.json` that is checked, by the names in the file and not
/// by sandbag's own types: who reads these files does the same.
#[derive(Debug, Deserialize)]
struct RunJson {
    cpus: Vec<CpuJson>,
}

#[derive(Debug, Deserialize)]
struct CpuJson {
    cpu: u32,
    asked_pct: f64,
    got_pct: f64,
}

fn within(points: f64, what: &str, shares: &BTreeMap<u32, f64>) -> anyhow::Result<()> {
    for (cpu, pct) in shares {
        ensure!(
            (pct - ASKED_PCT).abs() <= points,
            "CPU {cpu}: {what} {pct:.1} %, more than {points} points from {ASKED_PCT}; all: {}",
            percent(shares)
        );
    }
    Ok(())
}

fn off_by_at_least(points: f64, left: &Spun) -> anyhow::Result<()> {
    let shares = left.left_pct();
    case::note(&format!("published formula: left {}", percent(&shares)));
    not_late(left)?;
    for (cpu, pct) in &shares {
        ensure!(
            ASKED_PCT - pct > points,
            "CPU {cpu}: left {pct:.1} %, not {points} points below {ASKED_PCT}; all: {}",
            percent(&shares)
        );
    }
    Ok(())
}

fn not_late(left: &Spun) -> anyhow::Result<()> {
    ensure!(
        left.late_s() <= LATE_S,
        "a competitor began {:.1} s late, so its share says nothing",
        left.late_s()
    );
    Ok(())
}

fn percent(shares: &BTreeMap<u32, f64>) -> String {
    let each: Vec<String> = shares.values().map(|pct| format!("{pct:.1}")).collect();
    each.join(" ")
}

/// The measurements of `hold.sh`, made once per number of CPUs.
fn held(cpus: u32) -> anyhow::Result<&'static Outcome> {
    static FOUR: Boots = [const { OnceLock::new() }; 2];
    static EIGHT: Boots = [const { OnceLock::new() }; 2];
    let boots = if cpus == 4 { &FOUR } else { &EIGHT };
    booted(boots, Kind::Bare, cpus, "hold.sh")
}

fn under_systemd() -> anyhow::Result<&'static Outcome> {
    static SYSTEMD: Boots = [const { OnceLock::new() }; 2];
    booted(&SYSTEMD, Kind::Systemd, 4, "systemd.sh")
}

/// The outcomes of the first and of the second boot of a scenario.
type Boots = [OnceLock<Result<Outcome, String>>; 2];

/// The outcome of a scenario that several cases look at.
fn booted(
    boots: &'static Boots,
    kind: Kind,
    cpus: u32,
    scenario: &str,
) -> anyhow::Result<&'static Outcome> {
    boots[ROUND.load(Ordering::Relaxed)]
        .get_or_init(|| {
            let sandbag = guest::sandbag()?;
            boot(kind, cpus, scenario, vec![spinner(), killer(), sandbag])
                .map_err(|error| format!("{error:#}"))
        })
        .as_ref()
        .map_err(|error| anyhow::anyhow!("{error}"))
}

fn boot(kind: Kind, cpus: u32, scenario: &str, programs: Vec<PathBuf>) -> anyhow::Result<Outcome> {
    let guest = Guest {
        kind,
        cpus,
        timeout: TIMEOUT,
        programs,
    };
    let outcome = guest
        .run(&guest::file("scenarios").join(scenario))
        .with_context(|| format!("{scenario} on {cpus} CPUs"))?;
    case::note(&format!(
        "{scenario} on {cpus} CPUs: up after {:.1} s, {:.1} s in all",
        outcome.boot.as_secs_f64(),
        outcome.total.as_secs_f64()
    ));
    ensure!(
        outcome.status == 0,
        "{scenario} ended with status {}:\n{}",
        outcome.status,
        outcome.said()
    );
    Ok(outcome)
}

fn spinner() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_spinner"))
}

fn killer() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_killer"))
}
