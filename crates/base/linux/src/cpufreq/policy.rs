// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Setting the frequency of CPUs.
//!
//! A *policy* is what the kernel sets at once: one CPU or several. Two ways
//! lead to a frequency of one's choice (Documentation/admin-guide/pm/cpufreq.rst):
//! the governor `userspace` with `scaling_setspeed`, where the driver lets
//! governors choose; and lowest and highest frequency at the same value
//! (`scaling_min_freq`, `scaling_max_freq`), which every driver takes, those
//! that choose themselves (intel_pstate, amd-pstate) included.
//!
//! What a user set as lowest and highest is never exceeded. The policy's
//! highest counts as full speed.

use std::path::{Path, PathBuf};

use super::{Frequency, frequency};
use crate::root::{read, write};
use crate::{CpuList, Error, Result, Root};

/// Name of the governor that sets the frequency written to `scaling_setspeed`.
pub const USERSPACE: &str = "userspace";

const GOVERNOR: &str = "scaling_governor";
const SETSPEED: &str = "scaling_setspeed";
const MIN: &str = "scaling_min_freq";
const MAX: &str = "scaling_max_freq";

/// Distance of the steps where a driver names none: the clock that Intel's
/// frequencies are multiples of.
const STEP_KHZ: u64 = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// `scaling_setspeed`, under the governor `userspace`.
    Setspeed,
    /// `scaling_min_freq` and `scaling_max_freq`.
    Bounds,
}

/// CPUs whose frequency is set at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    dir: PathBuf,
    /// Those that were asked for and lie in it.
    pub cpus: CpuList,
    /// All that change with it: by the policy, or in hardware.
    pub domain: CpuList,
    pub knob: Knob,
    /// Frequencies to choose from, kHz, ascending.
    pub steps_khz: Vec<u64>,
    /// The driver named them; else they are multiples of 100 MHz between the
    /// policy's bounds, and those.
    pub steps_are_named: bool,
    /// Lowest and highest when it was read, kHz.
    bounds_khz: (u64, u64),
}

impl Policy {
    /// The policies of these CPUs, each once.
    pub fn of(root: &Root, cpus: &CpuList) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for cpu in cpus.iter() {
            let missing = || Error::Missing {
                what: format!("frequency control of CPU {cpu}"),
                remedy: "no cpufreq driver offers it (virtual machines have none): use a method \
                         that needs no hardware frequencies, such as hogs"
                    .into(),
            };
            let found = frequency(root, cpu)?.ok_or_else(missing)?;
            let dir = root.path(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq"));
            // The CPUs' directories are links to the policy's.
            let dir = dir.canonicalize().unwrap_or(dir);
            match all.iter_mut().find(|policy| policy.dir == dir) {
                Some(policy) => policy.cpus = policy.cpus.iter().chain([cpu]).collect(),
                None => all.push(Self::from(dir, cpu, &found).ok_or_else(missing)?),
            }
        }
        Ok(all)
    }

    fn from(dir: PathBuf, cpu: u32, found: &Frequency) -> Option<Self> {
        let lowest = found.min_khz.or(found.hardware_min_khz)?;
        let highest = found.max_khz.or(found.hardware_max_khz)?;
        let may = found.governors.iter().any(|g| g == USERSPACE);
        let knob = if may || found.governor.as_deref() == Some(USERSPACE) {
            Knob::Setspeed
        } else {
            Knob::Bounds
        };
        let within = |khz: &u64| (lowest..=highest).contains(khz);
        let named: Vec<u64> = found.steps_khz.iter().copied().filter(within).collect();
        let steps_are_named = !named.is_empty();
        Some(Self {
            dir,
            cpus: CpuList::from_iter([cpu]),
            domain: found.related.iter().chain([cpu]).collect(),
            knob,
            steps_khz: if steps_are_named {
                named
            } else {
                multiples(lowest, highest)
            },
            steps_are_named,
            bounds_khz: (lowest, highest),
        })
    }

    pub fn highest_khz(&self) -> u64 {
        self.steps_khz.last().copied().unwrap_or(self.bounds_khz.1)
    }

    pub fn governor_file(&self) -> PathBuf {
        self.dir.join(GOVERNOR)
    }

    /// The files that [`Policy::set`] writes.
    pub fn files(&self) -> Vec<PathBuf> {
        let names: &[&str] = match self.knob {
            Knob::Setspeed => &[SETSPEED],
            Knob::Bounds => &[MIN, MAX],
        };
        names.iter().map(|name| self.dir.join(name)).collect()
    }

    /// Sets the frequency. The governor must be `userspace` where the knob is
    /// [`Knob::Setspeed`]. Drivers round; what came of it is not asked.
    pub fn set(&self, khz: u64) -> Result<()> {
        match self.knob {
            Knob::Setspeed => write(&self.dir.join(SETSPEED), khz),
            Knob::Bounds => self.set_bounds(khz, khz),
        }
    }

    /// Undoes [`Policy::set`]: the bounds as they were read; the highest
    /// frequency where there is only that knob.
    pub fn release(&self) -> Result<()> {
        match self.knob {
            Knob::Setspeed => self.set(self.highest_khz()),
            Knob::Bounds => self.set_bounds(self.bounds_khz.0, self.bounds_khz.1),
        }
    }

    /// The lowest may not exceed the highest at any moment.
    fn set_bounds(&self, lowest: u64, highest: u64) -> Result<()> {
        let (min, max) = (self.dir.join(MIN), self.dir.join(MAX));
        let text = read(&max)?;
        let now: u64 = text
            .trim()
            .parse()
            .map_err(|_| Error::parse(&max, "kHz", &text))?;
        if lowest > now {
            write(&max, highest)?;
            write(&min, lowest)
        } else {
            write(&min, lowest)?;
            write(&max, highest)
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

fn multiples(lowest: u64, highest: u64) -> Vec<u64> {
    let first = (lowest / STEP_KHZ + 1) * STEP_KHZ;
    let between = (first..highest).step_by(STEP_KHZ as usize);
    let mut steps = vec![lowest];
    steps.extend(between);
    if highest > lowest {
        steps.push(highest);
    }
    steps
}

#[cfg(test)]
mod tests;
