// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frequencies of a node: which there are, whether they may be changed,
//! and what must be changed before a run.
//!
//! CPUs that change together belong to one node, or the node would change its
//! neighbours' speed; the user can allow it. Nothing of this has run on hardware:
//! it is tested on trees of files as acpi-cpufreq, intel_pstate and amd-pstate
//! show them.

mod calibrate;

use sandbag_linux::cpufreq::{Knob, Policy, USERSPACE};
use sandbag_linux::{CpuList, Error as KernelError, Root, root};
use serde::{Deserialize, Serialize};

use sandbag_run::changes;
use sandbag_run::error::{Error, Result};
use sandbag_run::journal::Journal;

pub use calibrate::{calibrate, on_cpu};

/// Options of `freq` and `gov` about the hardware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct FrequencyOptions {
    /// freq, gov: also where CPUs outside the node then change speed with it
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_value_t = false,
          default_missing_value = "true", require_equals = true,
          action = clap::ArgAction::Set, hide_possible_values = true)]
    pub split_domains: bool,

    /// freq, gov: measure the speed of each frequency before
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_value_t = false,
          default_missing_value = "true", require_equals = true,
          action = clap::ArgAction::Set, hide_possible_values = true)]
    pub calibrate: bool,
}

impl FrequencyOptions {
    /// For each option: given, the methods that have it, what the others lack.
    pub fn option_groups(&self) -> [(bool, &'static [&'static str], &'static str); 2] {
        let owners = &["freq", "gov"];
        [
            (self.split_domains, owners, "no frequency domain"),
            (self.calibrate, owners, "no calibration"),
        ]
    }
}

/// What a method needs of the frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrequencyNeed {
    pub wishes: FrequencyOptions,
    /// Whether it can do nothing without them.
    pub required: bool,
}

/// The steps that all CPUs of a node have.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    policies: Vec<Policy>,
    steps_khz: Vec<u64>,
    speeds: Vec<f64>,
}

impl Ladder {
    /// The steps of these CPUs; `None` where no CPU has a frequency to set.
    pub fn read(
        root: &Root,
        cpus: &[u32],
        wishes: FrequencyOptions,
    ) -> sandbag_linux::Result<Option<Self>> {
        let cpus: CpuList = cpus.iter().copied().collect();
        let has = |cpu: &u32| {
            let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
            root.path(dir).is_dir()
        };
        if !cpus.iter().any(|cpu| has(&cpu)) {
            return Ok(None);
        }
        let policies = Policy::of(root, &cpus)?;
        let Some(first) = policies.first() else {
            return Ok(None);
        };
        for policy in &policies {
            same_steps(first, policy)?;
            if !wishes.split_domains {
                whole_domain(root, policy, &cpus)?;
            }
        }
        let steps_khz = first.steps_khz.clone();
        let highest = first.highest_khz() as f64;
        Ok(Some(Self {
            speeds: steps_khz.iter().map(|khz| *khz as f64 / highest).collect(),
            steps_khz,
            policies,
        }))
    }

    /// With measured speeds ([`mod@calibrate`]) for those that were advertised. A
    /// step that is not faster than the one below it is left out.
    pub fn with_speeds(self, measured: &[f64]) -> Self {
        let mut steps_khz = Vec::new();
        let mut speeds: Vec<f64> = Vec::new();
        for (khz, speed) in self.steps_khz.iter().zip(measured) {
            if speeds.last().is_none_or(|below| speed > below) {
                steps_khz.push(*khz);
                speeds.push(*speed);
            }
        }
        let highest = speeds.last().copied().unwrap_or(1.0);
        Self {
            policies: self.policies,
            steps_khz,
            speeds: speeds.into_iter().map(|speed| speed / highest).collect(),
        }
    }

    pub fn steps_khz(&self) -> &[u64] {
        &self.steps_khz
    }

    /// Speed of each, the highest 1.
    pub fn speeds(&self) -> &[f64] {
        &self.speeds
    }

    pub fn knob(&self) -> &'static str {
        match self.policies.first().map(|policy| policy.knob) {
            Some(Knob::Setspeed) => "scaling_setspeed",
            _ => "scaling_min_freq and scaling_max_freq",
        }
    }

    pub fn set(&self, step: usize) -> sandbag_linux::Result<()> {
        self.set_khz(self.steps_khz[step])
    }

    /// Whether all policies still say what [`Ladder::set`] wrote.
    pub fn holds(&self, step: usize) -> bool {
        let khz = self.steps_khz[step];
        self.policies.iter().all(|policy| holds(policy, khz))
    }

    /// [`Ladder::set`] where another program may have changed the governor, too. Before the run
    /// it was noted, unless it was this one.
    pub fn set_again(&self, step: usize) -> sandbag_linux::Result<()> {
        for policy in &self.policies {
            let governor = policy.governor_file();
            if policy.knob == Knob::Setspeed && root::read(&governor)?.trim() != USERSPACE {
                root::write(&governor, USERSPACE)?;
            }
        }
        self.set(step)
    }

    fn set_khz(&self, khz: u64) -> sandbag_linux::Result<()> {
        self.policies.iter().try_for_each(|policy| policy.set(khz))
    }

    /// Full speed, or the bounds as they were, also of policies after one that fails.
    pub fn release(&self) -> sandbag_linux::Result<()> {
        let outcomes: Vec<_> = self.policies.iter().map(Policy::release).collect();
        outcomes.into_iter().collect()
    }

    /// Measures the speed of each step on the node's first CPU. The calling
    /// thread is on another then; the frequency is left at the highest.
    pub fn calibrate(self) -> sandbag_linux::Result<Self> {
        let Some(cpu) = self.policies.first().and_then(|p| p.cpus.iter().next()) else {
            return Ok(self);
        };
        let measured = on_cpu(cpu, |bench| {
            calibrate(&self.steps_khz, |khz| self.set_khz(khz), bench)
        })?;
        self.release()?;
        Ok(self.with_speeds(&measured))
    }
}

/// Distance of a driver without named steps from what was written, at most, kHz: it rounds.
const ROUNDING_KHZ: u64 = 99_999;

/// Whether a policy says this frequency. What cannot be read, as of a CPU that is offline, does
/// not say another one.
fn holds(policy: &Policy, khz: u64) -> bool {
    let most = if policy.steps_are_named {
        0
    } else {
        ROUNDING_KHZ
    };
    let is_it = |text: String| {
        let now = text.trim().parse::<u64>();
        now.is_ok_and(|now| now.abs_diff(khz) <= most)
    };
    let governs = policy.knob == Knob::Bounds
        || root::read(&policy.governor_file()).map_or(true, |text| text.trim() == USERSPACE);
    let mut files = policy.files().into_iter();
    governs && files.all(|file| root::read(&file).map_or(true, is_it))
}

fn same_steps(first: &Policy, other: &Policy) -> sandbag_linux::Result<()> {
    if first.steps_khz == other.steps_khz {
        Ok(())
    } else {
        Err(KernelError::Missing {
            what: format!(
                "one set of frequencies for CPUs {} (up to {} MHz) and {} (up to {} MHz)",
                first.cpus,
                first.highest_khz() / 1000,
                other.cpus,
                other.highest_khz() / 1000
            ),
            remedy: "make a node of each kind, or use a method that needs no hardware \
                 frequencies, such as hogs"
                .into(),
        })
    }
}

/// Only CPUs that are online run slower for it.
fn whole_domain(root: &Root, policy: &Policy, cpus: &CpuList) -> sandbag_linux::Result<()> {
    let online = root.read("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|text| text.trim().parse::<CpuList>().ok());
    let domain = match online {
        Some(online) => policy.domain.intersection(&online),
        None => policy.domain.clone(),
    };
    let outside = domain.without(cpus);
    if outside.is_empty() {
        Ok(())
    } else {
        Err(KernelError::Missing {
            what: format!(
                "CPUs {outside}, whose frequency changes together with that of CPUs {}, in the \
             node",
                policy.cpus
            ),
            remedy: "add them to the node, allow domains to be split (they change speed, too), \
                 or use a method that needs no hardware frequencies, such as hogs"
                .into(),
        })
    }
}

/// The ladder of a node: `None` where there is none and it is not `required`.
pub fn ladder_for(root: &Root, cpus: &[u32], need: FrequencyNeed) -> Result<Option<Ladder>> {
    let FrequencyNeed { wishes, required } = need;
    let possible = |error| match error {
        KernelError::Missing { what, remedy } => Error::NotPossible {
            what: format!("missing: {what}"),
            remedy,
        },
        other => other.into(),
    };
    let ladder = Ladder::read(root, cpus, wishes).map_err(possible)?;
    if ladder.is_none() && required {
        Err(Error::NotPossible {
            what: "there is no cpufreq driver here, so no frequency can be set".into(),
            remedy: "use hogs, or gov, which then alternates full speed with a standstill".into(),
        })
    } else {
        Ok(ladder)
    }
}

/// Makes the frequencies of a node ready to be set by its worker: what the
/// worker will write is noted in the journal, the governor is set, at full speed. Where none
/// can be set and need not be, it does nothing.
/// [`Error::NotPossible`] before anything is changed; a driver refuses; the
/// journal cannot be written.
pub fn prepare(
    root: &Root,
    journal: &mut Journal,
    cpus: &[u32],
    need: FrequencyNeed,
) -> Result<()> {
    let Some(ladder) = ladder_for(root, cpus, need)? else {
        return Ok(());
    };
    for policy in &ladder.policies {
        // Each is written with what it says, so that it is noted. A speed of
        // a governor that is not in force says nothing and is not.
        for file in policy.files() {
            let now = root::read(&file)?;
            let now = now.trim();
            if !now.starts_with('<') {
                changes::set_cpufreq(journal, &file, now)?;
            }
        }
        let governor = policy.governor_file();
        if policy.knob == Knob::Setspeed && root::read(&governor)?.trim() != USERSPACE {
            changes::set_cpufreq(journal, &governor, USERSPACE)?;
        }
        // That governor keeps whatever frequency it finds, and at full speed no worker sets one.
        if policy.knob == Knob::Setspeed {
            policy.release()?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
