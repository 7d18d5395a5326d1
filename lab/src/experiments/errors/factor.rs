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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factor {
    /// The method's period, ms.
    Period,
    /// Weight of pace's group on each CPU, in those of a default group.
    Weight,
    /// Slice of pace's tasks, ms; 0 is the kernel's own.
    Slice,
    Competitors,
    /// Load asked, percent.
    Load,
}

impl Factor {
    pub const ALL: [Self; 5] = [
        Self::Period,
        Self::Weight,
        Self::Slice,
        Self::Competitors,
        Self::Load,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Period => "period",
            Self::Weight => "weight",
            Self::Slice => "slice",
            Self::Competitors => "competitors",
            Self::Load => "load",
        }
    }

    /// What the abscissa is.
    pub fn axis(self) -> &'static str {
        match self {
            Self::Period => "period, ms",
            Self::Weight => "weight, in default groups",
            Self::Slice => "slice, ms",
            Self::Competitors => "spinning competitors",
            Self::Load => "load asked, %",
        }
    }

    /// A value of it with its unit, where that is a number.
    pub fn named(self, label: &str) -> String {
        let unit = match self {
            Self::Period | Self::Slice => " ms",
            Self::Load => " %",
            Self::Weight | Self::Competitors => "",
        };
        let is_number = label.parse::<f64>().is_ok();
        format!(
            "{} {label}{}",
            self.name(),
            if is_number { unit } else { "" }
        )
    }

    /// A value on the abscissa.
    pub fn label(self, value: f64) -> String {
        match (self, value) {
            (Self::Slice, 0.0) => "kernel's".to_owned(),
            _ => value.to_string(),
        }
    }

    /// The values that are measured, ascending.
    pub fn values(self, quick: bool) -> &'static [f64] {
        match (self, quick) {
            (Self::Period, true) => &[5.0, 20.0, 100.0],
            (Self::Period, false) => &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
            // What makes room for 50 % beside five is about 8.
            (Self::Weight, true) => &[1.0, 100.0],
            (Self::Weight, false) => &[0.25, 1.0, 3.0, 8.0, 30.0, 100.0],
            (Self::Slice, true) => &[0.0, 5.0],
            (Self::Slice, false) => &[0.0, 0.1, 1.0, 5.0, 20.0, 100.0],
            (Self::Competitors, true) => &[1.0, 5.0, 50.0],
            (Self::Competitors, false) => &[1.0, 2.0, 5.0, 20.0, 50.0, 200.0],
            (Self::Load, true) => &[5.0, 50.0, 95.0],
            (Self::Load, false) => &[1.0, 2.0, 5.0, 20.0, 50.0, 80.0, 90.0, 95.0],
        }
    }

    /// Whether a method has it.
    pub fn is_of(self, method: &str) -> bool {
        match self {
            Self::Weight | Self::Slice => method == "pace",
            Self::Period | Self::Competitors | Self::Load => true,
        }
    }
}

/// A factor, its value, and the method.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub factor: Factor,
    pub value: f64,
    pub method: String,
}

impl Case {
    pub fn new(factor: Factor, value: f64, method: &str) -> Self {
        Self {
            factor,
            value,
            method: method.to_owned(),
        }
    }

    /// The base case, with the method's own constants.
    pub fn base(method: &str) -> Self {
        match method {
            SPINNERS => Self::new(Factor::Competitors, BASE_COMPETITORS, SPINNERS),
            method => Self::new(Factor::Load, BASE_PCT, method),
        }
    }

    /// Of its key; `None` if it is none.
    pub fn of(key: &str) -> Option<Self> {
        let mut words = key.splitn(3, '/');
        let name = words.next()?;
        let factor = Factor::ALL.into_iter().find(|f| f.name() == name)?;
        Some(Self::new(
            factor,
            words.next()?.parse().ok()?,
            words.next()?,
        ))
    }

    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.factor.name(), self.value, self.method)
    }

    pub fn competitors(&self) -> f64 {
        match self.factor {
            Factor::Competitors => self.value,
            _ => BASE_COMPETITORS,
        }
    }

    pub fn condition(&self) -> Condition {
        if self.method == SPINNERS {
            return Condition::Spinners;
        }
        let only = |factor| (self.factor == factor).then_some(self.value);
        Condition::Load {
            method: self.method.clone(),
            pct: only(Factor::Load).unwrap_or(BASE_PCT),
            tuning: Tuning {
                period_ms: only(Factor::Period),
                weight: only(Factor::Weight),
                slice_ms: only(Factor::Slice),
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
        assert_eq!(case, Case::new(Factor::Period, 20.0, "pace"));
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
        assert_eq!(Factor::Slice.named("100"), "slice 100 ms");
        assert_eq!(Factor::Slice.named("kernel's"), "slice kernel's");
        assert_eq!(Factor::Weight.named("headroom"), "weight headroom");
    }

    #[test]
    fn the_base_case_is_among_those_measured() {
        for quick in [true, false] {
            assert!(Factor::Load.values(quick).contains(&BASE_PCT));
            assert!(
                Factor::Competitors
                    .values(quick)
                    .contains(&BASE_COMPETITORS)
            );
        }
    }
}
