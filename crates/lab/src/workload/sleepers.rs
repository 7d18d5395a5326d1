// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An ordinary competitor with manners: on each CPU a task that wakes up
//! every millisecond, beside tasks that spin. How late it wakes up is what
//! an interactive or I/O-bound program would feel.

use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sandbag_kernel::{CpuList, clock, sched};

/// Between two wake-ups, ns.
const EVERY_NS: u64 = 1_000_000;
/// The first wake-ups, in which the tasks start, are not counted, ns.
const START_NS: u64 = 200_000_000;

/// How late the sleepers were, ns, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency(Vec<u64>);

impl Latency {
    /// Wake-ups that were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The value that this share of them does not exceed, us.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        Some(self.0[(last as f64 * share).round() as usize] as f64 / 1e3)
    }

    /// By name, for results.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, f64> {
        [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)]
            .into_iter()
            .filter_map(|(name, share)| Some((name.to_owned(), self.quantile_us(share)?)))
            .collect()
    }
}

/// Runs one sleeper on each CPU that we may use, beside `spinning` tasks that
/// the kernel places, for `time`.
///
/// # Errors
/// A sleeper cannot be placed.
pub fn run(spinning: u64, time: Duration) -> Result<Latency> {
    let cpus = sched::affinity(0).context("our CPUs")?;
    let over = AtomicBool::new(false);
    let mut all = Vec::new();
    thread::scope(|scope| -> Result<()> {
        for _ in 0..spinning {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for _ in 0..1000 {
                        spin_loop();
                    }
                }
            });
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
    all.sort_unstable();
    Ok(Latency(all))
}

fn sleeper(cpu: u32, time: Duration) -> Result<Vec<u64>> {
    sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
    let begin = clock::monotonic();
    let end = begin + time.as_nanos() as u64;
    let mut own = Vec::with_capacity((time.as_nanos() as u64 / EVERY_NS) as usize + 1);
    let mut due = begin;
    while due < end {
        due += EVERY_NS;
        clock::sleep_until(due);
        let now = clock::monotonic();
        if due > begin + START_NS {
            own.push(now.saturating_sub(due));
        }
        // Who comes a whole period late does not hurry after.
        due = due.max(now - now.saturating_sub(due) % EVERY_NS);
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let latency = Latency((1..=100).map(|n| n * 1000).collect());
        assert_eq!(latency.quantile_us(0.5), Some(51.0));
        assert_eq!(latency.quantile_us(0.99), Some(99.0));
        assert_eq!(Latency::default().quantile_us(0.5), None);
        assert_eq!(latency.figures().len(), 3);
    }

    #[test]
    fn sleepers_wake_up() {
        let latency = run(1, Duration::from_millis(300)).unwrap();
        assert!(latency.count() >= 5, "{latency:?}");
    }
}
