// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From one value per machine to the CPUs of that machine.

use std::str::FromStr;

use crate::number::MAX_CPU;
use crate::{Error, Fault, ProfileCell};

/// How the load of a whole machine, percent of all its CPUs together, is laid
/// on CPUs 0, 1, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// What each CPU gets.
    pub rule: SpreadRule,
    /// How many CPUs; at least 1.
    pub cpus: u32,
}

/// What each CPU gets of a machine's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpreadRule {
    /// All the same: a machine half busy has every CPU half busy.
    #[default]
    Even,
    /// One CPU after the other is filled: of a machine half busy the first
    /// half of the CPUs is busy and the others are idle.
    Pack,
}

impl Default for Spread {
    /// One CPU that stands for the machine.
    fn default() -> Self {
        Self {
            rule: SpreadRule::Even,
            cpus: 1,
        }
    }
}

impl FromStr for Spread {
    type Err = Error;

    /// `4`, `even:4` or `pack:4`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (rule, cpus) = text.split_once(':').unwrap_or(("even", text));
        let rule = match rule {
            "even" => Some(SpreadRule::Even),
            "pack" => Some(SpreadRule::Pack),
            _ => None,
        };
        let cpus = cpus.parse().ok().filter(|n| (1..=MAX_CPU).contains(n));
        match rule.zip(cpus) {
            Some((rule, cpus)) => Ok(Self { rule, cpus }),
            None => Err(Fault::argument(
                "spread",
                text.to_owned(),
                "a number of CPUs, 4, even:4 or pack:4",
            )
            .into()),
        }
    }
}

impl Spread {
    /// The loads of the CPUs of a machine with this load, percent of all of
    /// it.
    pub(crate) fn cells(self, load_pct: f64) -> impl Iterator<Item = ProfileCell> {
        let all_pct = load_pct * f64::from(self.cpus);
        (0..self.cpus).map(move |cpu| {
            ProfileCell::load(match self.rule {
                SpreadRule::Even => load_pct,
                SpreadRule::Pack => (all_pct - 100.0 * f64::from(cpu)).clamp(0.0, 100.0),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rules_keep_the_sum() {
        let cells = |text: &str, pct| -> Vec<f64> {
            let spread: Spread = text.parse().unwrap();
            spread.cells(pct).map(|cell| cell.load_pct).collect()
        };
        assert_eq!(cells("3", 50.0), [50.0; 3]);
        assert_eq!(cells("even:2", 7.5), [7.5; 2]);
        assert_eq!(cells("pack:3", 50.0), [100.0, 50.0, 0.0]);
        assert_eq!(cells("pack:2", 100.0), [100.0; 2]);
        for wrong in ["", "0", "even", "even:", "odd:2", "-1", "pack:1e3"] {
            assert!(wrong.parse::<Spread>().is_err(), "{wrong}");
        }
    }
}
