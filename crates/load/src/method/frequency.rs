// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `freq` and `gov`: slower CPUs by slower clocks (Buchert et al. 2011,
//! CPU-Freq and CPU-Gov).
//!
//! `freq` sets the nearest frequency that the hardware has, and again where
//! another program changed it. `gov` alternates between the two neighbouring
//! ones so that the mean is right: f = (fL*tL + fH*tH) / (tL + tH), both once
//! in 100 ms. Below the lowest frequency the lower neighbour is zero: the
//! node's group is frozen for tL.
//! On a machine without a cpufreq driver `gov` has one frequency, full speed,
//! and zero; `freq` is not possible there.
//!
//! Unlike the publication, a late switch is made up for in the next period, and
//! full speed is the highest frequency that the user's own bounds allow.

use sandbag_linux::sched::Attributes;

use super::{Method, MethodOptions};
use crate::frequencies::{FrequencyNeed, Ladder};
use crate::throttle::Throttling;

/// Above the hogs of other nodes, so that a frozen node is thawed in time.
const PRIORITY: u32 = 2;

pub(super) fn freq(options: &MethodOptions) -> Result<Method, String> {
    options.no_period("freq has no period: gov has")?;
    let wishes = options.frequencies;
    Ok(Method {
        about: "the nearest frequency that the hardware has",
        most: 1.0,
        ..Method::of_node("freq", Throttling::Frequency { wishes })
    })
}

pub(super) fn gov(options: &MethodOptions) -> Result<Method, String> {
    let throttling = Throttling::Governor {
        period_ns: options.period_on_grid("gov", 100_000_000)?,
        wishes: options.frequencies,
    };
    Ok(Method {
        about: "alternates between the two neighbouring frequencies; below the lowest the node is frozen",
        attributes: Attributes::Fifo { priority: PRIORITY },
        parameters: vec![("priority", PRIORITY.to_string())],
        ..Method::of_node("gov", throttling)
    })
}

pub(super) fn parameters(
    ladder: Option<&Ladder>,
    need: FrequencyNeed,
) -> Vec<(&'static str, String)> {
    let Some(ladder) = ladder else {
        let none = "none (no cpufreq driver): full speed, and zero by the freezer";
        return vec![("frequencies_mhz", none.to_owned())];
    };
    let mhz = ladder.steps_khz().iter().map(|khz| khz / 1000);
    let mhz: Vec<String> = mhz.map(|mhz| mhz.to_string()).collect();
    let mut all = vec![
        ("frequencies_mhz", mhz.join(" ")),
        ("set_by", ladder.knob().to_owned()),
        ("split_domains", need.wishes.split_domains.to_string()),
        ("calibrated", need.wishes.calibrate.to_string()),
    ];
    if !need.required {
        let zero = "the freezer, below the lowest frequency";
        all.push(("zero", zero.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{by_name, with_options};
    use super::*;
    use crate::frequencies::tests::{FakePolicy, X5570};
    use sandbag_linux::CpuList;
    use sandbag_run::error::Error;

    fn four() -> CpuList {
        (0..4).collect()
    }

    #[test]
    fn freq_serves_what_the_hardware_has() {
        let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
        let mut freq = by_name("freq").unwrap();
        freq.fit_to(&fake.root, &four()).unwrap();
        // 2.1 of 2.93 GHz: 2.13 is the nearest.
        let served = freq.serves(1.0 - 2.1 / 2.93);
        assert!((served - (1.0 - 2.13 / 2.93)).abs() < 1e-9, "{served}");
        assert!((freq.serves(0.99) - (1.0 - 1.6 / 2.93)).abs() < 1e-9);
        assert_eq!(freq.serves(0.0), 0.0);
        let mhz = &freq.parameters[0].1;
        assert!(
            mhz.starts_with("1600 1730 ") && mhz.ends_with(" 2930"),
            "{mhz}"
        );
    }

    #[test]
    fn without_a_driver_gov_freezes_and_freq_is_refused() {
        let fake = FakePolicy::new(&[]);
        let error = by_name("freq").unwrap().fit_to(&fake.root, &four());
        assert!(matches!(error, Err(Error::NotPossible { .. })));
        let mut gov = by_name("gov").unwrap();
        gov.fit_to(&fake.root, &four()).unwrap();
        assert!((gov.serves(0.7) - 0.7).abs() < 1e-12);
        assert!(gov.parameters[1].1.contains("zero by the freezer"));
    }

    #[test]
    fn a_split_domain_is_refused_by_both_unless_it_is_allowed() {
        let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
        let two: CpuList = (0..2).collect();
        for split in [false, true] {
            let mut options = MethodOptions::default();
            options.frequencies.split_domains = split;
            for name in ["freq", "gov"] {
                let mut method = with_options(name, &options).unwrap();
                assert_eq!(method.fit_to(&fake.root, &two).is_ok(), split, "{name}");
            }
        }
    }
}
