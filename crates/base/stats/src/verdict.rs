// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on a load: one rule for runs and benchmarks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Accuracy, Window};

/// Steal above this share of a window makes the window noisy, percent.
pub const NOISY_STEAL_PCT: f64 = 3.0;
/// Unplanned foreign load above this makes a window noisy, percent.
pub const NOISY_FOREIGN_PCT: f64 = 2.0;
/// More than this share of noisy windows makes a miss undecided.
pub const NOISY_SHARE: f64 = 0.1;
/// This share of the windows must lie within [`Tolerance::window_points`].
pub const WINDOW_SHARE: f64 = 0.99;
/// So must this share of the windows of each CPU: one without its load is lost
/// among a hundred that had theirs. Up to 50 CPUs [`WINDOW_SHARE`] is stricter.
pub const CPU_SHARE: f64 = 0.5;
/// In no more than this share of a CPU's windows may half of its load be absent: that is no
/// error of a method but a load that was not there, for a part of the run. Up to 10 CPUs
/// [`WINDOW_SHARE`] is stricter.
pub const ABSENT_SHARE: f64 = 0.1;

/// Length of a window that counts in full, ns.
const WINDOW_NS: f64 = 1e9;

/// What counts as kept; `--tolerance MEAN[,WINDOW]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Largest mean absolute error, points.
    pub mean_points: f64,
    /// 99 % of the windows must be within this, points.
    pub window_points: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            mean_points: 1.0,
            window_points: 3.0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The asked load was there.
    Kept,
    /// It was not, and the machine was quiet enough to say so.
    Missed,
    /// It was not, but more than [`NOISY_SHARE`] of the windows were disturbed
    /// from outside, so the cause may not be the method.
    Undecided,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kept => "kept",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
        })
    }
}

/// The windows of one CPU.
#[derive(Debug, Clone, Default)]
struct CpuCounter {
    /// Windows that are not holes; those without delivered time have no error.
    windows: u64,
    errors: Accuracy,
    /// Errors of the windows with less than half of the asked load.
    absent: Accuracy,
    /// Windows that were disturbed from outside.
    noisy: u64,
}

impl CpuCounter {
    /// Whether too many of them were off, or none had delivered time.
    fn is_lost(&self, tolerance: Tolerance) -> bool {
        let within = |errors: &Accuracy| errors.share_within(tolerance.window_points);
        let absent = self.absent.count() as f64 * (1.0 - within(&self.absent));
        self.errors.count() == 0
            || within(&self.errors) < CPU_SHARE
            || absent > ABSENT_SHARE * self.errors.count() as f64
    }
}

/// Collects windows and gives the verdict.
#[derive(Debug, Clone, Default)]
pub struct VerdictCounter {
    accuracy: Accuracy,
    cpus: BTreeMap<u32, CpuCounter>,
    windows: u64,
    noisy: u64,
    holes: u64,
}

impl VerdictCounter {
    /// Adds one window. `foreign_pct`: load that is neither ours nor the command's; `None`
    /// where it is not known, or was expected (there is no command, so the machine's other
    /// work is the point of the exercise). Returns the error that it counts, points; a hole
    /// has none.
    pub fn add(&mut self, window: &Window, foreign_pct: Option<f64>) -> Option<f64> {
        self.windows += 1;
        if window.hole {
            self.holes += 1;
            return None;
        }
        // A last window that is shorter counts as the part of a second that it
        // is: a tick of steal is a lot of it, and so is a load that is absent.
        // The only one of its CPU counts in full.
        let own = self.cpus.entry(window.cpu).or_default();
        own.windows += 1;
        let error = match own.errors.count() {
            0 => window.error_points(),
            _ => window.error_points() * (window.length_ns as f64 / WINDOW_NS).min(1.0),
        };
        self.accuracy.add(error);
        own.errors.add(error);
        if error < -window.asked_pct / 2.0 {
            own.absent.add(error);
        }
        let is_disturbed = foreign_pct.is_some_and(|pct| pct > NOISY_FOREIGN_PCT);
        if window.steal_pct() > NOISY_STEAL_PCT || is_disturbed {
            self.noisy += 1;
            own.noisy += 1;
        }
        Some(error)
    }

    /// The errors of the windows that are not holes.
    pub fn accuracy(&self) -> &Accuracy {
        &self.accuracy
    }

    /// Windows in which the load was absent for a reason outside the method.
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// Share of the windows that were disturbed from outside, 0 to 1.
    pub fn noisy_share(&self) -> f64 {
        if self.windows == 0 {
            0.0
        } else {
            self.noisy as f64 / self.windows as f64
        }
    }

    /// Whether the windows of all CPUs together are within the tolerance. Windows of which none
    /// had delivered time are not.
    fn is_within(&self, tolerance: Tolerance) -> bool {
        let is_mean_within = match self.accuracy.stats() {
            Some(stats) => stats.mean_abs_points <= tolerance.mean_points,
            None => self.windows == 0,
        };
        is_mean_within && self.accuracy.share_within(tolerance.window_points) >= WINDOW_SHARE
    }

    /// The CPU with too many windows that were off although all CPUs together are
    /// within the tolerance, and its mean absolute error, points; the one with
    /// the greatest.
    pub fn lost_cpu(&self, tolerance: Tolerance) -> Option<(u32, f64)> {
        if !self.is_within(tolerance) {
            return None;
        }
        self.lost(tolerance)
            .filter_map(|(cpu, own)| Some((cpu, own.errors.stats()?.mean_abs_points)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The CPUs with too many windows that were off.
    fn lost(&self, tolerance: Tolerance) -> impl Iterator<Item = (u32, &CpuCounter)> {
        let all = self.cpus.iter().map(|(cpu, own)| (*cpu, own));
        all.filter(move |(_, own)| own.is_lost(tolerance))
    }

    /// Holes are a miss whatever the rest looks like; no windows at all (no
    /// load was asked) are kept.
    pub fn verdict(&self, tolerance: Tolerance) -> Verdict {
        if self.holes > 0 {
            return Verdict::Missed;
        }
        let is_within = self.is_within(tolerance);
        let mut lost = self.lost(tolerance).peekable();
        if is_within && lost.peek().is_none() {
            return Verdict::Kept;
        }
        let is_noisy = if is_within {
            // Among many CPUs the noise of one is little.
            lost.all(|(_, own)| own.noisy as f64 > NOISY_SHARE * own.windows as f64)
        } else {
            self.noisy_share() > NOISY_SHARE
        };
        if is_noisy {
            Verdict::Undecided
        } else {
            Verdict::Missed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(asked_pct: f64, got_pct: f64, steal_pct: f64) -> Window {
        let length_ns = 1_000_000_000;
        let steal_ns = (steal_pct * 1e7) as u64;
        Window {
            cpu: 0,
            start_ns: 0,
            length_ns,
            asked_pct,
            burner_ns: ((length_ns - steal_ns) as f64 * got_pct / 100.0) as u64,
            steal_ns,
            busy_ns: None,
            command_ns: None,
            hole: false,
        }
    }

    fn verdict(windows: &[Window]) -> Verdict {
        let mut c = VerdictCounter::default();
        for w in windows {
            c.add(w, None);
        }
        c.verdict(Tolerance::default())
    }

    #[test]
    fn a_load_within_a_point_is_kept_even_on_a_noisy_machine() {
        assert_eq!(verdict(&vec![window(50.0, 50.9, 10.0); 10]), Verdict::Kept);
    }

    #[test]
    fn the_published_formula_on_two_cpus_is_missed() {
        assert_eq!(verdict(&vec![window(50.0, 66.7, 0.0); 10]), Verdict::Missed);
    }

    #[test]
    fn a_miss_under_steal_is_undecided() {
        let mut all = vec![window(50.0, 54.0, 0.0); 8];
        all.extend(vec![window(50.0, 54.0, 5.0); 2]);
        assert_eq!(verdict(&all), Verdict::Undecided);
    }

    #[test]
    fn one_window_in_ten_is_not_enough_to_be_undecided() {
        let mut all = vec![window(50.0, 54.0, 0.0); 9];
        all.push(window(50.0, 54.0, 5.0));
        assert_eq!(verdict(&all), Verdict::Missed);
    }

    #[test]
    fn a_load_that_is_absent_from_a_short_last_window_is_missed() {
        let rest = |length_ns, got_pct| Window {
            length_ns,
            burner_ns: (length_ns as f64 * got_pct / 100.0) as u64,
            ..window(50.0, 50.0, 0.0)
        };
        let with = |last| {
            let mut all = vec![window(50.0, 50.0, 0.0); 7];
            all.push(last);
            verdict(&all)
        };
        assert_eq!(with(rest(400_000_000, 0.0)), Verdict::Missed);
        // A tick more or less of a tenth of a second.
        assert_eq!(with(rest(100_000_000, 45.0)), Verdict::Kept);
        assert_eq!(verdict(&[rest(100_000_000, 45.0)]), Verdict::Missed);
    }

    #[test]
    fn a_cpu_without_its_load_is_missed_among_many() {
        // One of 128 CPUs has another load in this number of its 20 windows.
        let with = |off: u32, off_pct: f64, steal_pct: f64| {
            let all = (0..128).flat_map(|cpu| (0..20).map(move |second| (cpu, second)));
            let all: Vec<Window> = all
                .map(|(cpu, second)| {
                    let is_off = cpu == 7 && second < off;
                    let got_pct = if is_off { off_pct } else { 50.0 };
                    let steal_pct = if cpu == 7 { steal_pct } else { 0.0 };
                    Window {
                        cpu,
                        ..window(50.0, got_pct, steal_pct)
                    }
                })
                .collect();
            verdict(&all)
        };
        assert_eq!(with(20, 0.0, 0.0), Verdict::Missed);
        assert_eq!(with(3, 0.0, 0.0), Verdict::Missed);
        assert_eq!(with(2, 0.0, 0.0), Verdict::Kept);
        // Not absent, but inexact.
        assert_eq!(with(11, 45.0, 0.0), Verdict::Missed);
        assert_eq!(with(10, 45.0, 0.0), Verdict::Kept);
        // The host took it.
        assert_eq!(with(20, 0.0, 40.0), Verdict::Undecided);
    }

    #[test]
    fn a_cpu_without_its_load_is_missed_in_a_short_run_too() {
        let short = |cpu| Window {
            cpu,
            length_ns: 50_000_000,
            burner_ns: if cpu == 7 { 0 } else { 25_000_000 },
            ..window(50.0, 50.0, 0.0)
        };
        let all: Vec<Window> = (0..1024).map(short).collect();
        assert_eq!(verdict(&all), Verdict::Missed);
    }

    #[test]
    fn in_a_short_run_each_cpu_counts_in_full() {
        let short = |cpu| Window {
            cpu,
            length_ns: 200_000_000,
            burner_ns: 105_800_000,
            ..window(50.0, 50.0, 0.0)
        };
        let all: Vec<Window> = (0..8).map(short).collect();
        for count in [1, 2, 8] {
            assert_eq!(verdict(&all[..count]), Verdict::Missed, "{count} CPUs");
        }
    }

    #[test]
    fn a_window_without_delivered_time_says_nothing() {
        let (kept, stolen) = (window(50.0, 50.0, 0.0), window(50.0, 0.0, 100.0));
        let mut all = vec![kept.clone(); 9];
        all.push(stolen.clone());
        assert_eq!(verdict(&all), Verdict::Kept);
        // Of a run, or a CPU, with no other window nothing is known.
        assert_eq!(verdict(std::slice::from_ref(&stolen)), Verdict::Undecided);
        let other = Window { cpu: 1, ..stolen };
        assert_eq!(verdict(&[kept, other]), Verdict::Undecided);
    }

    #[test]
    fn a_hole_is_a_miss() {
        let mut hole = window(50.0, 0.0, 0.0);
        hole.hole = true;
        assert_eq!(verdict(&[window(50.0, 50.0, 0.0), hole]), Verdict::Missed);
    }
}
