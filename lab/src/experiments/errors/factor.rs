// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is varied, and what one case of it is. Pure.

use crate::condition::{Condition, Tuning};

/// The methods whose defaults these figures justify.
pub const METHODS: [&str; 3] = ["pace", "quota", "hogs"];
/// In the place of a method: an ordinary spinner on each CPU, the reference for
/// latencies. It has neither period nor level.
pub const SPINNERS: &str = "spinners";
pub const BASE_PCT: f64 = 50.0;
pub const BASE_COMPETITORS: f64 = 5.0;

/// What is varied, and its values in the short form and in the full one, ascending.
#[derive(Debug)]
pub struct Factor {
    /// In keys.
    pub name: &'static str,
    pub axis: &'static str,
    unit: &'static str,
    quick: &'static [f64],
    full: &'static [f64],
    /// Whether only pace has it.
    of_pace: bool,
}

pub static FACTORS: [Factor; 5] = [
    Factor {
        name: PERIOD,
        axis: "period, ms",
        unit: " ms",
        quick: &[5.0, 20.0, 100.0],
        full: &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
        of_pace: false,
    },
    Factor {
        name: WEIGHT,
        axis: "weight, in default groups",
        unit: "",
        // What makes room for 50 % beside five is about 8.
        quick: &[1.0, 100.0],
        full: &[0.25, 1.0, 3.0, 8.0, 30.0, 100.0],
        of_pace: true,
    },
    Factor {
        name: SLICE,
        axis: "slice, ms",
        unit: " ms",
        // 0 is the kernel's own.
        quick: &[0.0, 5.0],
        full: &[0.0, 0.1, 1.0, 5.0, 20.0, 100.0],
        of_pace: true,
    },
    Factor {
        name: COMPETITORS,
        axis: "spinning competitors",
        unit: "",
        quick: &[1.0, 5.0, 50.0],
        full: &[1.0, 2.0, 5.0, 20.0, 50.0, 200.0],
        of_pace: false,
    },
    Factor {
        name: LOAD,
        axis: "load asked, %",
        unit: " %",
        quick: &[5.0, 50.0, 95.0],
        full: &[1.0, 2.0, 5.0, 20.0, 50.0, 80.0, 90.0, 95.0],
        of_pace: false,
    },
];

pub const PERIOD: &str = "period";
/// Of pace's group on each CPU.
pub const WEIGHT: &str = "weight";
/// Of pace's tasks.
pub const SLICE: &str = "slice";
pub const COMPETITORS: &str = "competitors";
pub const LOAD: &str = "load";

impl Factor {
    /// A value of it with its unit, where that is a number.
    pub fn named(&self, label: &str) -> String {
        let is_number = label.parse::<f64>().is_ok();
        format!(
            "{} {label}{}",
            self.name,
            if is_number { self.unit } else { "" }
        )
    }

    pub fn label(&self, value: f64) -> String {
        match (self.name, value) {
            (SLICE, 0.0) => "kernel's".to_owned(),
            _ => value.to_string(),
        }
    }

    pub fn values(&self, quick: bool) -> &'static [f64] {
        if quick { self.quick } else { self.full }
    }

    pub fn is_of(&self, method: &str) -> bool {
        !self.of_pace || method == "pace"
    }
}

/// The factor of this name.
pub fn factor(name: &str) -> Option<&'static Factor> {
    FACTORS.iter().find(|factor| factor.name == name)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Name of the factor.
    pub factor: &'static str,
    pub value: f64,
    pub method: String,
}

impl Case {
    pub fn new(factor: &'static str, value: f64, method: &str) -> Self {
        Self {
            factor,
            value,
            method: method.to_owned(),
        }
    }

    /// The base case, with the method's own constants.
    pub fn base(method: &str) -> Self {
        match method {
            SPINNERS => Self::new(COMPETITORS, BASE_COMPETITORS, SPINNERS),
            method => Self::new(LOAD, BASE_PCT, method),
        }
    }

    /// Of its key; `None` if it is none.
    pub fn of(key: &str) -> Option<Self> {
        let mut words = key.splitn(3, '/');
        let factor = factor(words.next()?)?;
        Some(Self::new(
            factor.name,
            words.next()?.parse().ok()?,
            words.next()?,
        ))
    }

    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.factor, self.value, self.method)
    }

    pub fn competitors(&self) -> f64 {
        match self.factor {
            COMPETITORS => self.value,
            _ => BASE_COMPETITORS,
        }
    }

    pub fn condition(&self) -> Condition {
        if self.method == SPINNERS {
            return Condition::Spinners;
        }
        let only = |factor: &str| (self.factor == factor).then_some(self.value);
        Condition::Load {
            method: self.method.clone(),
            pct: only(LOAD).unwrap_or(BASE_PCT),
            tuning: Tuning {
                period_ms: only(PERIOD),
                weight: only(WEIGHT),
                slice_ms: only(SLICE),
                competitor: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_factor_is_varied_at_a_time() {
        let case = Case::of("period/20/pace").unwrap();
        assert_eq!(case, Case::new(PERIOD, 20.0, "pace"));
        assert_eq!(case.condition().name(), "50 % by pace, period 20 ms");
        let slice = Case::of("slice/0/pace").unwrap();
        assert_eq!(slice.condition().name(), "50 % by pace, the kernel's slice");
        assert_eq!(slice.competitors(), BASE_COMPETITORS);
        let load = Case::of("load/95/hogs").unwrap();
        assert_eq!(load.condition(), Condition::load("hogs", 95.0));
        let many = Case::of("competitors/50/spinners").unwrap();
        assert_eq!(
            (many.condition(), many.competitors()),
            (Condition::Spinners, 50.0)
        );
        assert_eq!(Case::of("load/x/pace"), None);
        assert_eq!(Case::of("linpack"), None);
    }

    #[test]
    fn numbers_have_their_unit() {
        let named = |name: &str, label| factor(name).unwrap().named(label);
        assert_eq!(named(SLICE, "100"), "slice 100 ms");
        assert_eq!(named(SLICE, "kernel's"), "slice kernel's");
        assert_eq!(named(WEIGHT, "headroom"), "weight headroom");
    }

    #[test]
    fn the_base_case_is_among_those_measured() {
        for (name, base) in [(LOAD, BASE_PCT), (COMPETITORS, BASE_COMPETITORS)] {
            let factor = factor(name).unwrap();
            assert!(factor.quick.contains(&base) && factor.full.contains(&base));
        }
    }
}
