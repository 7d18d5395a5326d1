// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `freq` and `gov`: slower CPUs by slower clocks (Buchert et al. 2011,
//! CPU-Freq and CPU-Gov).
//!
//! [`Freq`] sets the nearest frequency that the hardware has, once. [`Gov`]
//! alternates between the two neighbouring ones so that the mean is right:
//! f = (fL*tL + fH*tH) / (tL + tH), both once in 100 ms. Below the lowest
//! frequency the lower neighbour is zero: the node's group is frozen for tL.
//!
//! On a machine without a cpufreq driver `gov` has one frequency, full speed,
//! and zero: the node is frozen for 1-mu of every period, from the point of
//! the common grid on. `freq` is not possible there.
//!
//! # Published flaws, kept
//! - `freq` knows few speeds, and none below the lowest frequency.
//! - Frequencies belong to domains: neighbours of a node on the same domain
//!   would be slower, too. Such nodes are refused unless the user insists.
//! - The advertised frequency need not be the real one (boost, heat); they can
//!   be measured first.
//! - Memory and devices are not slower. HPCC found memory-bound programs under
//!   `gov` to be predictable, but without relation to the speed.
//! - 100 ms are long for a program that waits for others in between: it runs
//!   at one speed or the other.
//! - Frozen, a program does not answer: for 1-mu of every period, up to 99 ms.
//!   Sleeps that end meanwhile end with the period's frozen part.
//!
//! What a program can see: its own CPU time is right under `gov` alone.
//!
//! # What differs from the publication
//! A late switch is made up for in the next period, so that the mean is right.
//! Full speed is the highest frequency that the user's own bounds allow.
//!
//! Frequencies have never been set on hardware by this program; see
//! [`crate::frequencies`].

use sandbag_linux::sched::Attributes;
use sandbag_linux::{CpuList, Root};

use super::{MachineNeed, Method, MethodOptions, Scope};
use crate::burn::Duty;
use crate::frequencies::{self, FrequencyNeed, FrequencyOptions, Ladder};
use crate::throttle::{Throttling, nearest};
use sandbag_run::error::Result as Outcome;

/// Before the hogs of other nodes, so that a frozen node is thawed in time.
const PRIORITY: u32 = 2;

/// Lowest speed of `gov`, 0.01.
const MOST: f64 = 0.99;

/// The nearest frequency.
#[derive(Debug, Clone, Default)]
pub struct Freq {
    /// About the hardware.
    pub wishes: FrequencyOptions,
    ladder: Option<Ladder>,
}

/// Two neighbouring frequencies in turn.
#[derive(Debug, Clone)]
pub struct Gov {
    /// Both once, ns.
    pub period_ns: u64,
    /// About the hardware.
    pub wishes: FrequencyOptions,
    ladder: Option<Ladder>,
}

impl Default for Gov {
    fn default() -> Self {
        Self {
            period_ns: 100_000_000,
            wishes: FrequencyOptions::default(),
            ladder: None,
        }
    }
}

/// The frequencies of a node for its report.
fn describe(ladder: Option<&Ladder>, wishes: FrequencyOptions) -> Vec<(&'static str, String)> {
    let Some(ladder) = ladder else {
        return Vec::new();
    };
    let mhz: Vec<String> = ladder
        .steps_khz()
        .iter()
        .map(|khz| (khz / 1000).to_string())
        .collect();
    vec![
        ("frequencies_mhz", mhz.join(" ")),
        ("set_by", ladder.knob().to_owned()),
        ("split_domains", wishes.split_domains.to_string()),
        ("calibrated", wishes.calibrate.to_string()),
    ]
}

fn cpus_of(cpus: &CpuList) -> Vec<u32> {
    cpus.iter().collect()
}

impl Freq {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        options.no_period("freq has no period: gov has")?;
        Ok(Self {
            wishes: options.frequencies,
            ladder: None,
        })
    }

    fn need(&self) -> FrequencyNeed {
        FrequencyNeed {
            wishes: self.wishes,
            required: true,
        }
    }

    fn throttling(&self) -> Throttling {
        Throttling::Frequency {
            wishes: self.wishes,
        }
    }
}

impl Method for Freq {
    fn name(&self) -> &'static str {
        "freq"
    }

    fn about(&self) -> &'static str {
        "the nearest frequency that the hardware has"
    }

    fn fit_to(&mut self, root: &Root, cpus: &CpuList) -> Outcome<()> {
        self.ladder = frequencies::ladder_for(root, &cpus_of(cpus), self.need())?;
        Ok(())
    }

    fn duty(&self) -> Duty {
        Duty::Throttle(self.throttling())
    }

    /// By the advertised frequencies.
    fn serves(&self, asked: f64) -> f64 {
        match &self.ladder {
            Some(ladder) => 1.0 - ladder.speeds()[nearest(ladder.speeds(), 1.0 - asked)],
            None => asked,
        }
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn machine_needs(&self) -> &'static [MachineNeed] {
        &[MachineNeed::Frequencies]
    }

    fn settles(&self) -> bool {
        false
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        describe(self.ladder.as_ref(), self.wishes)
    }
}

impl Gov {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        Ok(Self {
            period_ns: options.period_on_grid("gov", Self::default().period_ns)?,
            wishes: options.frequencies,
            ladder: None,
        })
    }

    fn need(&self) -> FrequencyNeed {
        FrequencyNeed {
            wishes: self.wishes,
            required: false,
        }
    }

    fn throttling(&self) -> Throttling {
        Throttling::Governor {
            period_ns: self.period_ns,
            wishes: self.wishes,
        }
    }
}

impl Method for Gov {
    fn name(&self) -> &'static str {
        "gov"
    }

    fn about(&self) -> &'static str {
        "alternates between the two neighbouring frequencies; below the lowest the node is frozen"
    }

    fn fit_to(&mut self, root: &Root, cpus: &CpuList) -> Outcome<()> {
        self.ladder = frequencies::ladder_for(root, &cpus_of(cpus), self.need())?;
        Ok(())
    }

    fn duty(&self) -> Duty {
        Duty::Throttle(self.throttling())
    }

    fn attributes(&self) -> Attributes {
        Attributes::Fifo { priority: PRIORITY }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST)
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn machine_needs(&self) -> &'static [MachineNeed] {
        &[MachineNeed::Frequencies]
    }

    fn settles(&self) -> bool {
        false
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("priority", PRIORITY.to_string())];
        match &self.ladder {
            Some(ladder) => {
                all.extend(describe(Some(ladder), self.wishes));
                all.push(("zero", "the freezer, below the lowest frequency".into()));
            }
            None => all.push((
                "frequencies_mhz",
                "none (no cpufreq driver): full speed, and zero by the freezer".into(),
            )),
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frequencies::tests::{FakePolicy, X5570};
    use sandbag_run::error::Error;

    fn four() -> CpuList {
        (0..4).collect()
    }

    #[test]
    fn freq_serves_what_the_hardware_has() {
        let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
        let mut freq = Freq::default();
        freq.fit_to(&fake.root, &four()).unwrap();
        // 2.1 of 2.93 GHz: 2.13 is the nearest.
        let served = freq.serves(1.0 - 2.1 / 2.93);
        assert!((served - (1.0 - 2.13 / 2.93)).abs() < 1e-9, "{served}");
        assert!((freq.serves(0.99) - (1.0 - 1.6 / 2.93)).abs() < 1e-9);
        assert_eq!(freq.serves(0.0), 0.0);
        let mhz = &freq.parameters()[0].1;
        assert!(
            mhz.starts_with("1600 1730 ") && mhz.ends_with(" 2930"),
            "{mhz}"
        );
    }

    #[test]
    fn without_a_driver_gov_says_what_it_does_instead() {
        let fake = FakePolicy::new(&[]);
        let error = Freq::default().fit_to(&fake.root, &four()).unwrap_err();
        assert!(matches!(error, Error::NotPossible { .. }));
        let mut gov = Gov::default();
        gov.fit_to(&fake.root, &four()).unwrap();
        assert!((gov.serves(0.7) - 0.7).abs() < 1e-12);
        let parameters = gov.parameters();
        assert!(
            parameters
                .iter()
                .any(|(_, text)| text.contains("zero by the freezer"))
        );
    }

    #[test]
    fn a_split_domain_is_refused_by_both() {
        let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
        let two: CpuList = (0..2).collect();
        assert!(Freq::default().fit_to(&fake.root, &two).is_err());
        assert!(Gov::default().fit_to(&fake.root, &two).is_err());
        let mut insist = MethodOptions::default();
        insist.frequencies.split_domains = true;
        for name in ["freq", "gov"] {
            let mut method = super::super::with_options(name, &insist).unwrap();
            assert!(method.fit_to(&fake.root, &two).is_ok());
        }
    }
}
