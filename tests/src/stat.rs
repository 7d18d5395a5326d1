// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU times of `/proc/stat`, read without sandbag's own code.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

/// Clock ticks of `/proc/stat` in a second (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// Times of one CPU, or of all, since boot or since another reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTime {
    pub busy_s: f64,
    /// With the time that it waited for input or output.
    pub idle_s: f64,
    pub steal_s: f64,
    /// Of the busy time that of interrupts and soft interrupts, which belongs to no task
    /// where the kernel accounts for it.
    pub irq_s: f64,
}

impl CpuTime {
    /// Time that the hypervisor did not take.
    #[must_use]
    pub fn delivered_s(self) -> f64 {
        self.busy_s + self.idle_s
    }

    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            busy_s: self.busy_s - before.busy_s,
            idle_s: self.idle_s - before.idle_s,
            steal_s: self.steal_s - before.steal_s,
            irq_s: self.irq_s - before.irq_s,
        }
    }
}

/// All CPUs together (`None`) and each by its number.
pub type CpuTimes = BTreeMap<Option<u32>, CpuTime>;

/// Reads them now.
///
/// # Errors
/// If `/proc/stat` cannot be read or understood.
pub fn read() -> anyhow::Result<CpuTimes> {
    parse(&std::fs::read_to_string("/proc/stat").context("/proc/stat")?)
}

/// Reads the time of one CPU, or of all, now.
///
/// # Errors
/// As [`read`], and if there is no such CPU.
pub fn read_cpu(cpu: Option<u32>) -> anyhow::Result<CpuTime> {
    let all = read()?;
    let time = all.get(&cpu).copied();
    time.with_context(|| format!("/proc/stat has no CPU {cpu:?}"))
}

/// Share of the CPUs that is busy during the next second.
///
/// # Errors
/// As [`read`].
pub fn busy_share() -> anyhow::Result<f64> {
    let before = read_cpu(None)?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let time = read_cpu(None)?.since(before);
    Ok(time.busy_s / time.delivered_s().max(0.01))
}

/// The lines of CPUs (proc(5)): user nice system idle iowait irq softirq
/// steal; guest time is already in user.
fn parse(stat: &str) -> anyhow::Result<CpuTimes> {
    let mut cpus = CpuTimes::new();
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let cpu = match fields.next().and_then(|name| name.strip_prefix("cpu")) {
            None => continue,
            Some("") => None,
            Some(number) => Some(number.parse().with_context(|| line.to_owned())?),
        };
        let ticks: Result<Vec<f64>, _> = fields.map(str::parse).collect();
        let ticks = ticks.with_context(|| format!("/proc/stat: {line:?}"))?;
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            bail!("/proc/stat: {line:?} has too few fields");
        };
        let time = CpuTime {
            busy_s: (user + nice + system + irq + softirq) / TICKS_PER_S,
            idle_s: (idle + iowait) / TICKS_PER_S,
            steal_s: steal / TICKS_PER_S,
            irq_s: (irq + softirq) / TICKS_PER_S,
        };
        cpus.insert(cpu, time);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cpus_are_read_others_are_not() {
        let cpus = parse("cpu  100 1 20 500 50 2 3 4 9 9\ncpu0 1 0 0 2 0 0 0 3\nctxt 5\n").unwrap();
        assert_eq!(cpus.len(), 2);
        let all = cpus[&None];
        assert_eq!((all.busy_s, all.idle_s, all.steal_s), (1.26, 5.5, 0.04));
        assert_eq!(all.irq_s, 0.05);
        assert_eq!(cpus[&Some(0)].delivered_s(), 0.03);
        assert_eq!(all.since(cpus[&Some(0)]).idle_s, 5.48);
        assert!(parse("cpu0 1 2 3\n").is_err());
    }
}
