// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methods that act on a node as a whole, from what a user asked for.

use super::{Freq, Gov, Lim, Method, NodeCap, Options};
use crate::board::BOUNDARY_NS;

/// Constants that methods here have and others have not.
const OWN: [(&str, &str); 4] = [
    ("variant", "lim"),
    ("interval", "lim"),
    ("frequency domain", "freq gov"),
    ("calibration", "freq gov"),
];

/// Times between two looks that `lim` takes, ns.
const INTERVALS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=BOUNDARY_NS;

/// The method of that name; `on_grid` checks a period, or gives the default.
///
/// # Errors
/// The reason, in words, where there is none, it has no such constant, or the
/// constant cannot be that.
pub fn with_options(
    name: &str,
    options: Options,
    on_grid: impl Fn(u64) -> Result<u64, String>,
) -> Result<Box<dyn Method>, String> {
    Ok(match name {
        "lim" => {
            let own = Lim::of(options.lim.unwrap_or_default());
            let interval_ns = options.interval_ns.unwrap_or(own.interval_ns);
            if !INTERVALS_NS.contains(&interval_ns) {
                return Err("the interval of lim lies between 1 and 100 ms".to_owned());
            }
            Box::new(Lim { interval_ns, ..own })
        }
        "freq" => Box::new(Freq::new(options.frequencies)),
        "gov" => Box::new(Gov::new(
            on_grid(Gov::default().period_ns)?,
            options.frequencies,
        )),
        // A period that no boundary cuts: what was taken is known at its end.
        "cap" => Box::new(NodeCap {
            period_us: on_grid(NodeCap::default().period_us * 1000)? / 1000,
        }),
        _ => return Err(format!("there is no method {name}")),
    })
}

/// Constants that belong to other methods are no silent wishes.
pub fn refuse_what_it_has_not(name: &str, options: Options) -> Result<(), String> {
    let asked = [
        options.lim.is_some(),
        options.interval_ns.is_some(),
        options.frequencies.split_domains,
        options.frequencies.calibrate,
    ];
    for ((constant, owners), asked) in OWN.into_iter().zip(asked) {
        if asked && !owners.split(' ').any(|owner| owner == name) {
            let has = if owners.contains(' ') { "have" } else { "has" };
            let owners = owners.replace(' ', " and ");
            return Err(format!("{name} has no {constant}: {owners} {has}"));
        }
    }
    match name {
        "lim" if options.period_ns.is_some() => {
            Err("lim has no period, but an interval".to_owned())
        }
        "freq" if options.period_ns.is_some() => Err("freq has no period: gov has".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, with_options};
    use crate::frequencies::Wishes;
    use crate::throttle::LimVariant;

    #[test]
    fn constants_that_cannot_be_are_refused() {
        let none = Options::default();
        let interval = |ns| Options {
            interval_ns: Some(ns),
            ..none
        };
        let period = |ns| Options {
            period_ns: Some(ns),
            ..none
        };
        let wrekavoc = Options {
            lim: Some(LimVariant::Wrekavoc),
            ..none
        };
        assert!(with_options("lim", interval(1_000_000)).is_ok());
        assert!(with_options("lim", interval(999_999)).is_err());
        assert!(with_options("lim", interval(200_000_000)).is_err());
        assert!(with_options("lim", period(10_000_000)).is_err());
        assert!(with_options("lim", wrekavoc).is_ok());
        for other in ["hogs", "cap"] {
            assert!(with_options(other, interval(1_000_000)).is_err());
            assert!(with_options(other, wrekavoc).is_err());
        }
        assert!(with_options("cap", period(20_000_000)).is_ok());
        assert!(with_options("cap", period(200_000_000)).is_err());
        assert!(with_options("gov", period(20_000_000)).is_ok());
        assert!(with_options("freq", period(20_000_000)).is_err());
        let split = Options {
            frequencies: Wishes {
                split_domains: true,
                ..Wishes::default()
            },
            ..none
        };
        assert!(with_options("gov", split).is_ok());
        let error = with_options("lim", split).unwrap_err();
        assert_eq!(error, "lim has no frequency domain: freq and gov have");
    }
}
