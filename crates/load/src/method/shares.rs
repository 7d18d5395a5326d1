// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `shares`: the formula of KRASH and Fracas as published (the layout of the
//! groups is ours). It is wrong on current kernels, and here to show by how much.
//!
//! A spinning burner in a group of its own has weight w = base * L/(1-L),
//! where base is the weight of the group that holds the program (Perarnau &
//! Huard 2010, section IV; Buchert et al. 2011, section III for Fracas). KRASH
//! keeps all tasks of the machine in the base group; sandbag moves no foreign
//! tasks, so base is the wrapped command's group.
//!
//! With a weight that the user chooses it is a competitor as other programs are: a
//! task on each CPU that never sleeps. Its share is then what the kernel makes of
//! that weight.

use clap::Args;
use sandbag_linux::cgroup::Weight;

use super::{DemandRule, Method, MethodOptions, OptionGroup, WEIGHTS};

/// Constants of `shares` in place of its own. In `--help`, not in `-h`.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct SharesOptions {
    /// shares: weight of its group on each CPU, 0.01 to 100 default weights
    /// [default: L/(1-L)]
    ///
    /// A competitor that never sleeps, of this weight; the load that it makes is
    /// what the kernel gives it. For experiments.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub shares_weight: Option<f64>,
}

impl SharesOptions {
    pub(super) fn option_group(&self) -> OptionGroup {
        let given = self.shares_weight.is_some();
        (given, &["shares"], "no weight of a competitor to choose")
    }
}

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    options.no_period("shares has no period")?;
    let weight = options.shares.shares_weight;
    if weight.is_some_and(|weight| !WEIGHTS.contains(&weight)) {
        return Err("the weight of shares lies between 0.01 and 100 default weights".to_owned());
    }
    let (name, value, demand) = match weight {
        None => ("base_weight", "1".to_owned(), DemandRule::Shares),
        Some(weight) => (
            "weight",
            format!("{weight}, as asked"),
            DemandRule::Fixed(Weight(weight)),
        ),
    };
    Ok(Method {
        about: "the published weight formula (KRASH, Fracas), for comparison; too high on current kernels",
        demand,
        // KRASH silently makes 99 of 100.
        most: 0.99,
        settles: false,
        grouped: true,
        parameters: vec![(name, value)],
        ..Method::named("shares")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_that_is_asked_for_does_not_follow_the_level() {
        let with = |weight| {
            let mut options = MethodOptions::default();
            options.shares.shares_weight = Some(weight);
            method(&options)
        };
        let competitor = with(3.0).unwrap();
        for level in [0.2, 0.9] {
            assert_eq!(competitor.demand(level, 7.0).weight, Weight(3.0));
        }
        assert!(with(0.001).is_err() && with(f64::NAN).is_err());
    }
}
