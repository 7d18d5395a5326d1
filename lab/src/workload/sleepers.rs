// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On each CPU a task that wakes up every millisecond, beside tasks that spin. Its wake-up
//! latency is that of an interactive or I/O-bound program.

use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sandbag_linux::{CpuList, clock, sched};

use super::latency;

/// Between two wake-ups, ns.
const EVERY_NS: u64 = 1_000_000;
/// The first wake-ups, in which the tasks start, are not counted, ns.
const START_NS: u64 = 200_000_000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SleeperLateness {
    /// How late the sleepers were, ns.
    late_ns: Vec<u64>,
    /// How often a spinning task found itself on another CPU, per second of
    /// all of them together.
    migrations_per_s: f64,
}

impl SleeperLateness {
    pub fn count(&self) -> u64 {
        self.late_ns.len() as u64
    }

    pub fn figures(self) -> BTreeMap<String, f64> {
        let mut figures = latency::figures(self.late_ns);
        figures.insert("migrations_per_s".to_owned(), self.migrations_per_s);
        figures
    }
}

/// Runs one sleeper on each CPU that we may use, beside `spinning` tasks that
/// the kernel places, for `time`.
pub fn run(spinning: u64, time: Duration) -> Result<SleeperLateness> {
    let cpus = sched::affinity(0).context("our CPUs")?;
    let over = AtomicBool::new(false);
    let migrations = AtomicU64::new(0);
    let mut all = Vec::new();
    thread::scope(|scope| -> Result<()> {
        for _ in 0..spinning {
            scope.spawn(|| migrations.fetch_add(spin(&over), Ordering::Relaxed));
        }
        let sleepers: Vec<_> = cpus
            .iter()
            .map(|cpu| scope.spawn(move || sleeper(cpu, time)))
            .collect();
        let mut result = Ok(());
        for sleeper in sleepers {
            match sleeper.join() {
                Ok(Ok(own)) => all.extend(own),
                Ok(Err(error)) => result = Err(error),
                Err(_) => result = Err(anyhow::anyhow!("a sleeper failed")),
            }
        }
        over.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(SleeperLateness {
        late_ns: all,
        migrations_per_s: migrations.into_inner() as f64 / time.as_secs_f64(),
    })
}

/// Spins until it is over; returns how often the kernel moved the task. Looks
/// every 20 us or so of its own time, so that hardly a move is missed.
fn spin(over: &AtomicBool) -> u64 {
    let (mut cpu, mut moves) = (sched::current_cpu(), 0);
    while !over.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            spin_loop();
        }
        let now = sched::current_cpu();
        moves += u64::from(now != cpu);
        cpu = now;
    }
    moves
}

fn sleeper(cpu: u32, time: Duration) -> Result<Vec<u64>> {
    sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
    let begin = clock::monotonic();
    let end = begin + time.as_nanos() as u64;
    let mut own = Vec::with_capacity((time.as_nanos() as u64 / EVERY_NS) as usize + 1);
    wake_up_until(end, |due, late| {
        if due > begin + START_NS {
            own.push(late);
        }
    });
    Ok(own)
}

/// Wakes up every millisecond until `end_ns` of the monotonic clock, and tells
/// when it was due and how late it is, ns. A deadline that has passed meanwhile
/// is skipped, not made up for.
fn wake_up_until(end_ns: u64, mut woken: impl FnMut(u64, u64)) {
    let mut due = clock::monotonic() + EVERY_NS;
    while due < end_ns {
        clock::sleep_until(due);
        woken(due, clock::monotonic().saturating_sub(due));
        due += EVERY_NS * (1 + clock::monotonic().saturating_sub(due) / EVERY_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::repeat_until;

    #[test]
    fn sleepers_wake_up() {
        // Again while other programs have the CPUs.
        let seen = repeat_until(
            || run(1, Duration::from_millis(300)).unwrap(),
            |seen| seen.count() >= 5,
        );
        assert!(seen.count() >= 5, "{seen:?}");
    }
}
