// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On and off in a recording: which loads are which, and for how long.

use crate::{BoxSteps, Result, Steps};

/// Bins in which loads are collected, a tenth of a point each.
const BINS: usize = 1001;

/// Two levels, all CPUs together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// Mean of what is below the threshold, percent, weighted with its time.
    pub off_pct: f64,
    /// Mean of what is above.
    pub on_pct: f64,
    /// In the middle between them.
    pub threshold_pct: f64,
}

#[derive(Clone, Copy, Default)]
struct LevelPart {
    time_ns: f64,
    load_ns: f64,
}

impl LevelPart {
    fn add(&mut self, other: Self) {
        self.time_ns += other.time_ns;
        self.load_ns += other.load_ns;
    }

    fn mean(self) -> f64 {
        self.load_ns / self.time_ns
    }
}

/// Splits the loads in two where both parts are as narrow as can be: the
/// optimum of 2-means, which in one dimension is found by trying every place
/// (Otsu 1979). `None` where the load does not vary by more than a tenth of a
/// point.
pub fn two_levels(mut steps: BoxSteps) -> Result<Option<Levels>> {
    let mut bins = vec![LevelPart::default(); BINS];
    while let Some(step) = steps.next_step()? {
        let time_ns = step.length_ns() as f64;
        for cell in step.cells.iter().flatten() {
            let bin = libm::round(cell.load_pct * 10.0) as usize;
            bins[bin.min(BINS - 1)].add(LevelPart {
                time_ns,
                load_ns: time_ns * cell.load_pct,
            });
        }
    }
    // What is above each bin; not as a difference, which rounding could leave
    // above nothing.
    let mut above = vec![LevelPart::default(); BINS];
    for bin in (1..BINS).rev() {
        above[bin - 1] = above[bin];
        above[bin - 1].add(bins[bin]);
    }
    let mut best: Option<(f64, Levels)> = None;
    let mut below = LevelPart::default();
    for (bin, above) in bins.iter().zip(above) {
        below.add(*bin);
        if bin.time_ns <= 0.0 || above.time_ns <= 0.0 {
            continue;
        }
        let apart = above.mean() - below.mean();
        let between = below.time_ns * above.time_ns * apart * apart;
        if best.is_none_or(|(most, _)| between > most) {
            let levels = Levels {
                off_pct: below.mean(),
                on_pct: above.mean(),
                threshold_pct: f64::midpoint(below.mean(), above.mean()),
            };
            best = Some((between, levels));
        }
    }
    Ok(best.map(|(_, levels)| levels))
}

/// How long loads stay above and below a threshold, all CPUs together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Mean time above it, s.
    pub on_s: f64,
    /// Mean time below it.
    pub off_s: f64,
    /// How often it was crossed.
    pub changes: u64,
}

#[derive(Clone, Copy, Default)]
struct Stays {
    time_ns: f64,
    ends: u64,
}

impl Stays {
    /// The likeliest mean of exponential times of which the first and the last
    /// were not seen whole.
    fn mean_s(self) -> f64 {
        self.time_ns / 1e9 / self.ends.max(1) as f64
    }
}

/// Measures them. What is unknown is no change. `None` where the
/// threshold is never crossed.
pub fn times(mut steps: BoxSteps, threshold_pct: f64) -> Result<Option<Times>> {
    let mut states: Vec<Option<bool>> = vec![None; steps.header().cpus.len()];
    let (mut on, mut off) = (Stays::default(), Stays::default());
    while let Some(step) = steps.next_step()? {
        let length_ns = step.length_ns() as f64;
        for (state, cell) in states.iter_mut().zip(&step.cells) {
            let now = cell.map(|cell| cell.load_pct > threshold_pct);
            match (*state, now) {
                (Some(true), Some(false)) => on.ends += 1,
                (Some(false), Some(true)) => off.ends += 1,
                _ => {}
            }
            match now {
                Some(true) => on.time_ns += length_ns,
                Some(false) => off.time_ns += length_ns,
                None => {}
            }
            *state = now;
        }
    }
    let changes = on.ends + off.ends;
    Ok((changes > 0).then(|| Times {
        on_s: on.mean_s(),
        off_s: off.mean_s(),
        changes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{OnOff, on_off, piecewise};
    use crate::{NS_PER_S, constant};

    const S: u64 = NS_PER_S;

    #[test]
    fn levels_are_the_means_of_both_parts() {
        let steps = || {
            piecewise(
                &[(10.0, 2 * S), (12.0, 2 * S), (90.0, S), (80.0, S)],
                &[0, 1],
            )
        };
        let levels = two_levels(steps()).unwrap().unwrap();
        assert!((levels.off_pct - 11.0).abs() < 1e-9);
        assert!((levels.on_pct - 85.0).abs() < 1e-9);
        assert!((levels.threshold_pct - 48.0).abs() < 1e-9);
        let times = times(steps(), 48.0).unwrap().unwrap();
        assert_eq!((times.on_s, times.off_s), (4.0, 4.0));
        assert_eq!(times.changes, 2);
        assert_eq!(super::times(steps(), 95.0).unwrap(), None);
        assert_eq!(two_levels(constant(&[0], 50.0, S)).unwrap(), None);
    }

    const MODEL: OnOff = OnOff {
        on_pct: 80.0,
        off_pct: 10.0,
        on_s: 3.0,
        off_s: 9.0,
        seed: 1,
    };

    #[test]
    fn a_chain_gives_its_levels_and_times_back() {
        let steps = || on_off(MODEL, &[0, 1], 50_000 * S).unwrap();
        let levels = two_levels(steps()).unwrap().unwrap();
        assert!((levels.off_pct - 10.0).abs() < 1e-6 && (levels.on_pct - 80.0).abs() < 1e-6);
        // Four standard deviations of the mean of that number of exponential times.
        let times = times(steps(), levels.threshold_pct).unwrap().unwrap();
        let within = 4.0 / (times.changes as f64 / 2.0).sqrt();
        assert!((times.on_s / MODEL.on_s - 1.0).abs() < within, "{times:?}");
        assert!(
            (times.off_s / MODEL.off_s - 1.0).abs() < within,
            "{times:?}"
        );
    }
}
