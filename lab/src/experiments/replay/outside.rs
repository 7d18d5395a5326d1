// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The error of a replay seen from outside sandbag: by the kernel's own
//! accounts of the burners' threads, which a task on each CPU reads at every
//! multiple of 100 ms of the monotonic clock. Runs begin at one of these.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use sandbag_linux::clock::{self, Nanos};
use sandbag_linux::process::Process;
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, Root};
use sandbag_load::report::AchievedRow;

use crate::bench::tasks::burners;
use crate::row::Row;

const STEP_NS: Nanos = 100_000_000;
/// How often burners are looked for.
const FOUND_EVERY_NS: Nanos = 5 * STEP_NS;
/// Above all ordinary tasks, so that the reading is not late.
const PRIORITY: u32 = 10;

/// CPU time of the burners of one CPU, ns, by the moment of its reading.
type Readings = BTreeMap<Nanos, u64>;

/// Reads until it is asked for the error.
pub struct OutsideMonitor {
    ended: Arc<AtomicBool>,
    cpus: Vec<(u32, JoinHandle<Readings>)>,
}

impl OutsideMonitor {
    /// Watches the burners of a child of this process that runs `sandbag`.
    pub fn start(sandbag: &Path, cpus: &CpuList) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let watch = |cpu: u32| {
            let (ended, sandbag) = (Arc::clone(&ended), sandbag.to_owned());
            (cpu, thread::spawn(move || watch(cpu, &sandbag, &ended)))
        };
        let cpus = cpus.iter().map(watch).collect();
        Self { ended, cpus }
    }

    /// Puts the error per 1 s of the run that began at `began_at` into `row`.
    ///
    /// # Errors
    /// `began_at` is no time, or a thread of the monitor failed.
    pub fn put_error(
        mut self,
        began_at: &str,
        achieved: &[AchievedRow],
        row: &mut Row,
    ) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        let began: Timestamp = began_at.parse().context("when the run began")?;
        let since_ns = Timestamp::now().duration_since(began).as_nanos();
        let begin_ns = clock::monotonic().saturating_sub(u64::try_from(since_ns).unwrap_or(0));
        let begin_ns = begin_ns.saturating_add(STEP_NS / 2) / STEP_NS * STEP_NS;
        let mut errors = Vec::new();
        for (cpu, thread) in std::mem::take(&mut self.cpus) {
            let readings = thread.join().ok().context("the outside monitor")?;
            errors.extend(errors_of(&readings, cpu, begin_ns, achieved));
        }
        if !errors.is_empty() {
            let sum: f64 = errors.iter().map(|error| error.abs()).sum();
            row.put("outside_abs_points", sum / errors.len() as f64);
            let worst = errors.iter().fold(0.0f64, |most, e| most.max(e.abs()));
            row.put("outside_worst_points", worst);
            row.put("outside_windows", errors.len() as f64);
        }
        Ok(())
    }
}

/// A replay that fails has no error, and must not be watched any more.
impl Drop for OutsideMonitor {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Windows of a CPU, each with its error in points; of one shorter than 1 s the part that it
/// is of a second, as in the run's own error.
fn errors_of<'a>(
    readings: &'a Readings,
    cpu: u32,
    begin_ns: Nanos,
    achieved: &'a [AchievedRow],
) -> impl Iterator<Item = f64> + 'a {
    let at = move |s: f64| readings.get(&(begin_ns + (s * 1e9).round() as u64));
    let counts = move |row: &&AchievedRow| row.cpu == cpu && !row.is_hole();
    achieved.iter().filter(counts).filter_map(move |row| {
        let taken_ns = at(row.time_s + row.length_s)?.checked_sub(*at(row.time_s)?)?;
        let got_pct = taken_ns as f64 / 1e9 / row.delivered_s() * 100.0;
        Some((got_pct - row.asked_pct) * row.length_s.min(1.0))
    })
}

/// On the CPU itself, where what the burner has taken so far is booked when
/// this task comes.
fn watch(cpu: u32, sandbag: &Path, ended: &AtomicBool) -> Readings {
    let mut readings = Readings::new();
    // Without them it reads less exactly.
    let _ = sched::set_affinity(0, &CpuList::from_iter([cpu]));
    let _ = sched::set_attributes(0, Attributes::Fifo { priority: PRIORITY });
    // Each with what it had taken when it was last read: one that has ended counts on.
    let mut known: BTreeMap<u32, (Process, u64)> = BTreeMap::new();
    let mut at_ns = clock::monotonic() / STEP_NS * STEP_NS;
    while !ended.load(Ordering::Relaxed) {
        at_ns += STEP_NS;
        clock::sleep_until(at_ns);
        for (burner, taken_ns) in known.values_mut() {
            if let Ok(stat) = burner.schedstat() {
                *taken_ns = stat.exec_ns;
            }
        }
        if !known.is_empty() {
            readings.insert(at_ns, known.values().map(|(_, taken_ns)| taken_ns).sum());
        }
        // Further ones join where a group cannot carry the weight.
        if at_ns.is_multiple_of(FOUND_EVERY_NS) {
            for burner in find(cpu, sandbag) {
                known.entry(burner.pid()).or_insert((burner, 0));
            }
        }
    }
    readings
}

fn find(cpu: u32, sandbag: &Path) -> Vec<Process> {
    let root = Root::default();
    let children = Process::new(&root, std::process::id()).children();
    let all = children.unwrap_or_default().into_iter();
    all.flat_map(|pid| burners(&root, pid, sandbag))
        .filter_map(|(on, burner)| (on == cpu).then_some(burner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_what_was_taken_of_the_delivered_time() {
        let row = AchievedRow {
            time_s: 0.0,
            length_s: 1.0,
            cpu: 1,
            asked_pct: 40.0,
            got_pct: 0.0,
            error_points: 0.0,
            burner_s: 0.0,
            steal_pct: 2.0,
            busy_pct: None,
            command_pct: None,
            hole: 0,
        };
        let hole = AchievedRow {
            hole: 1,
            ..row.clone()
        };
        let other = AchievedRow {
            cpu: 0,
            ..row.clone()
        };
        let readings = Readings::from([(7_000, 5), (1_000_007_000, 490_000_005)]);
        let found: Vec<f64> = errors_of(&readings, 1, 7_000, &[row, hole, other]).collect();
        assert_eq!(found, [10.0]);
    }
}
