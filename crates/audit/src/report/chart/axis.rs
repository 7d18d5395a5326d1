// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An ordinate: its ends, and round figures between them. Of our own, so that no
//! figure of a damaged file makes it endless.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Figures beyond this stand at the edge.
const MOST: f64 = 1e15;
/// Round figures on an axis, about.
const TICKS: f64 = 5.0;
/// A range narrower than this share of its figures would be lost in their digits.
const LEAST_SHARE: f64 = 1e-9;

/// An ordinate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Lower and upper end.
    pub ends: (f64, f64),
    /// Round figures within.
    pub ticks: Vec<f64>,
    /// Of what ticks are multiples.
    step: f64,
}

impl Axis {
    /// For these values; `None` if there is none that could be drawn.
    pub(super) fn of(values: &[f64], from_zero: bool) -> Option<Self> {
        let known = values.iter().filter(|value| value.is_finite());
        let known: Vec<f64> = known.map(|value| value.clamp(-MOST, MOST)).collect();
        let mut low = known.iter().copied().reduce(f64::min)?;
        let mut high = known.iter().copied().reduce(f64::max)?;
        if from_zero {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        // All of it nothing.
        if low == 0.0 && high == 0.0 {
            high = 1.0;
        }
        let least = (low.abs().max(high.abs()) * LEAST_SHARE).max(1e-9);
        if high - low < least {
            let half = (low.abs() * 0.05).max(least);
            (low, high) = (low - half, high + half);
        }
        let air = (high - low) * 0.06;
        // Nothing lies below a zero at which the axis begins.
        let low = if from_zero && low == 0.0 {
            0.0
        } else {
            low - air
        };
        let high = high + air;
        let step = round_up((high - low) / TICKS);
        let first = (low / step).ceil() as i64;
        let ticks = (0..20).map(|i| (first + i) as f64 * step);
        Some(Self {
            ends: (low, high),
            ticks: ticks.take_while(|tick| *tick <= high).collect(),
            step,
        })
    }

    /// As it stands beside the axis.
    pub(super) fn label(&self, value: f64) -> String {
        let digits = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = match value.abs() {
            size if size >= 1e6 => return format!("{value:.1e}"),
            _ => format!("{value:.digits$}"),
        };
        match text.trim_matches(['-', '0', '.']) {
            "" => "0".to_owned(),
            _ => text,
        }
    }
}

/// A scale with marks where we want them.
pub(super) struct MarkedScale {
    /// Lower and upper end.
    pub ends: (f64, f64),
    /// Where there is something to read.
    pub marks: Vec<f64>,
}

impl Ranged for MarkedScale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        let (low, high) = self.ends;
        // What lies far outside stands at the edge.
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        pixels.0 + (share * f64::from(pixels.1 - pixels.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

/// The next of 1, 2, 5, 10 and so on.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let found = steps.iter().find(|step| **step * power >= value);
    found.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        let axis = Axis::of(&[0.0, 203.0], true).unwrap();
        assert_eq!(axis.ticks, [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(axis.label(150.0), "150");
        let axis = Axis::of(&[-0.2, 3.1], false).unwrap();
        assert_eq!(axis.ticks, [0.0, 1.0, 2.0, 3.0]);
        let axis = Axis::of(&[0.11, 0.13], false).unwrap();
        assert_eq!(axis.label(axis.ticks[0]), "0.110");
    }

    proptest! {
        #[test]
        fn every_axis_is_finite(values in prop::collection::vec(any::<f64>(), 0..6), zero in any::<bool>()) {
            if let Some(axis) = Axis::of(&values, zero) {
                let (low, high) = axis.ends;
                prop_assert!(low.is_finite() && high.is_finite() && low < high);
                prop_assert!(axis.ticks.len() <= 20);
                prop_assert!(axis.ticks.iter().all(|tick| (low..=high).contains(tick)));
            }
        }
    }
}
