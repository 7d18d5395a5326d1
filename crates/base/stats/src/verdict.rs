// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on a load: one rule for runs and benchmarks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::accuracy::BIN_POINTS;
use crate::{Accuracy, Window};

/// Steal above this share of a window makes the window noisy, percent.
pub const NOISY_STEAL_PCT: f64 = 3.0;
/// Unplanned foreign load above this makes a window noisy, percent.
pub const NOISY_FOREIGN_PCT: f64 = 2.0;
/// More than this share of noisy windows makes a miss undecided.
pub const NOISY_SHARE: f64 = 0.1;
/// This share of the windows must lie within [`Tolerance::window_points`].
pub const WINDOW_SHARE: f64 = 0.99;
/// So must this share of the windows of each CPU, and of the load that was asked of it: a CPU
/// without its load is lost among a hundred that had theirs, and a short load among windows that
/// ask for none. Of windows that ask for the same, [`WINDOW_SHARE`] is stricter up to 50 CPUs.
pub const CPU_SHARE: f64 = 0.5;
/// In no more than this share of a CPU's windows, and of the load that was asked of it, may half
/// be absent: that is no error of a method but a load that was not there, for a part of the run.
/// Of windows that ask for the same, [`WINDOW_SHARE`] is stricter up to 10 CPUs.
pub const ABSENT_SHARE: f64 = 0.1;

/// Length of a window that counts in full, ns.
const WINDOW_NS: f64 = 1e9;

/// The asked load of a CPU is judged from this on: a start that is late by 50 ms is a large part
/// of a shorter one.
const LEAST_ASKED_NS: f64 = 1e8;

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
    /// By the magnitude of the error of the window, in bins of [`BIN_POINTS`]; `None`: of
    /// windows without delivered time.
    asked: BTreeMap<Option<u32>, AskedTime>,
}

/// Load that was asked in windows of a CPU, ns of CPU time.
#[derive(Debug, Clone, Copy, Default)]
struct AskedTime {
    all_ns: u64,
    /// In windows with less than half of it.
    absent_ns: u64,
    /// In windows that were disturbed from outside.
    noisy_ns: u64,
}

/// The bin of an error.
fn bin(points: f64) -> u32 {
    (points.abs() / BIN_POINTS).round() as u32
}

impl CpuCounter {
    fn is_lost(&self, tolerance: Tolerance) -> bool {
        self.is_off(tolerance) || self.is_diluted(tolerance)
    }

    /// Whether too many windows were off, or none had delivered time.
    fn is_off(&self, tolerance: Tolerance) -> bool {
        let within = |errors: &Accuracy| errors.share_within(tolerance.window_points);
        let absent = self.absent.count() as f64 * (1.0 - within(&self.absent));
        self.errors.count() == 0
            || within(&self.errors) < CPU_SHARE
            || absent > ABSENT_SHARE * self.errors.count() as f64
    }

    /// The same of the load that was asked: a burner that does nothing keeps windows that ask
    /// for none. By load, as a window at the edge of one asks for little and is off easily; and of
    /// [`LEAST_ASKED_NS`] of it, as there may be nothing but the edge.
    fn is_diluted(&self, tolerance: Tolerance) -> bool {
        let known_ns = self.asked(Some(0)).all_ns as f64;
        let off = self.asked(Some(bin(tolerance.window_points) + 1));
        if known_ns < LEAST_ASKED_NS {
            return known_ns == 0.0 && self.asked(None).all_ns > 0;
        }
        off.all_ns as f64 > (1.0 - CPU_SHARE) * known_ns
            || off.absent_ns as f64 > ABSENT_SHARE * known_ns
    }

    /// Load in windows whose errors are in this bin or above.
    fn asked(&self, from: Option<u32>) -> AskedTime {
        let mut sum = AskedTime::default();
        for asked in self.asked.range(from..).map(|(_, asked)| asked) {
            sum.all_ns += asked.all_ns;
            sum.absent_ns += asked.absent_ns;
            sum.noisy_ns += asked.noisy_ns;
        }
        sum
    }

    /// See [`LostCpu::noisy_share`].
    fn noisy_share(&self, tolerance: Tolerance) -> f64 {
        if self.is_off(tolerance) {
            self.noisy as f64 / self.windows as f64
        } else {
            let all = self.asked(None);
            all.noisy_ns as f64 / all.all_ns.max(1) as f64
        }
    }
}

/// A CPU that makes a run missed or undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LostCpu {
    pub cpu: u32,
    /// Mean absolute error of its windows, points.
    pub mean_abs_points: f64,
    /// Enough of its windows were right, but not those that had the load.
    pub is_diluted: bool,
    /// Share of its windows, or of its load if it is diluted, that was disturbed from
    /// outside, 0 to 1.
    pub noisy_share: f64,
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
        let is_absent = error < -window.asked_pct / 2.0;
        if is_absent {
            own.absent.add(error);
        }
        let is_disturbed = foreign_pct.is_some_and(|pct| pct > NOISY_FOREIGN_PCT);
        let is_noisy = window.steal_pct() > NOISY_STEAL_PCT || is_disturbed;
        if is_noisy {
            self.noisy += 1;
            own.noisy += 1;
        }
        let asked_ns = (window.asked_pct / 100.0 * window.length_ns as f64) as u64;
        let key = (!error.is_nan()).then(|| bin(error));
        let asked = own.asked.entry(key).or_default();
        asked.all_ns += asked_ns;
        asked.absent_ns += asked_ns * u64::from(is_absent);
        asked.noisy_ns += asked_ns * u64::from(is_noisy);
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
    /// within the tolerance; the one with the greatest error.
    pub fn lost_cpu(&self, tolerance: Tolerance) -> Option<LostCpu> {
        if !self.is_within(tolerance) {
            return None;
        }
        let of = |(cpu, own): (u32, &CpuCounter)| {
            Some(LostCpu {
                cpu,
                mean_abs_points: own.errors.stats()?.mean_abs_points,
                is_diluted: !own.is_off(tolerance),
                noisy_share: own.noisy_share(tolerance),
            })
        };
        self.lost(tolerance)
            .filter_map(of)
            .max_by(|a, b| a.mean_abs_points.total_cmp(&b.mean_abs_points))
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
            lost.all(|(_, own)| own.noisy_share(tolerance) > NOISY_SHARE)
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

    /// The load that is asked in a second, percent.
    type Profile = fn(u32) -> f64;

    /// 600 s in which one CPU of `cpus` is asked for `asked_pct`, by second, and gets `got_pct`.
    fn burst(cpus: u32, asked_pct: Profile, got_pct: fn(f64) -> f64, steal_pct: f64) -> Verdict {
        let all = (0..cpus).flat_map(|cpu| (0..600).map(move |second| (cpu, second)));
        let all: Vec<Window> = all
            .map(|(cpu, second)| {
                let asked_pct = if cpu == 3 % cpus {
                    asked_pct(second)
                } else {
                    0.0
                };
                let steal_pct = if asked_pct > 0.0 { steal_pct } else { 0.0 };
                Window {
                    cpu,
                    ..window(asked_pct, got_pct(asked_pct), steal_pct)
                }
            })
            .collect();
        verdict(&all)
    }

    #[test]
    fn windows_without_a_load_do_not_hide_that_the_only_one_was_absent() {
        fn minute(second: u32) -> f64 {
            if second < 60 { 100.0 } else { 0.0 }
        }
        fn six_seconds(second: u32) -> f64 {
            if second < 6 { 100.0 } else { 0.0 }
        }
        // A machine that is never quite idle.
        fn with_idle(second: u32) -> f64 {
            if second < 6 { 100.0 } else { 2.0 }
        }
        let profiles: [(u32, Profile); 2] = [(16, minute), (1, six_seconds)];
        for (cpus, asked_pct) in profiles {
            assert_eq!(burst(cpus, asked_pct, |_| 0.0, 0.0), Verdict::Missed);
            assert_eq!(burst(cpus, asked_pct, |_| 0.0, 40.0), Verdict::Undecided);
            // Nothing is known of it.
            assert_eq!(burst(cpus, asked_pct, |_| 0.0, 100.0), Verdict::Undecided);
            assert_eq!(burst(cpus, asked_pct, |asked| asked, 0.0), Verdict::Kept);
            // There, but another one.
            assert_eq!(
                burst(cpus, asked_pct, |asked| asked * 0.9, 0.0),
                Verdict::Missed
            );
        }
        let got = |asked: f64| asked.min(2.0);
        assert_eq!(burst(1, with_idle, got, 0.0), Verdict::Missed);
    }

    #[test]
    fn the_edge_of_a_short_load_counts_as_the_little_that_it_is() {
        // It begins late by 40 ms of the 50 ms that its first window has.
        let asked_pct = |second: u32| match second {
            0 => 5.0,
            1 => 95.0,
            _ => 0.0,
        };
        let got_pct = |asked: f64| if asked < 10.0 { asked / 5.0 } else { asked };
        assert_eq!(burst(1, asked_pct, got_pct, 0.0), Verdict::Kept);
    }

    #[test]
    fn a_pulse_alone_makes_no_run_missed_and_a_short_load_does() {
        let of = |asked_pct: Profile| burst(1, asked_pct, |asked| asked / 5.0, 0.0);
        let pulse: Profile = |second| if second == 0 { 5.0 } else { 0.0 };
        assert_eq!(of(pulse), Verdict::Kept);
        let short: Profile = |second| if second == 0 { 20.0 } else { 0.0 };
        assert_eq!(of(short), Verdict::Missed);
    }

    #[test]
    fn the_cpu_whose_load_was_hidden_is_named() {
        let mut counter = VerdictCounter::default();
        for second in 0..200 {
            for cpu in 0..2 {
                let asked_pct = if cpu == 1 && second < 2 { 90.0 } else { 0.0 };
                let window = Window {
                    cpu,
                    ..window(asked_pct, 0.0, 0.0)
                };
                counter.add(&window, None);
            }
        }
        let lost = counter.lost_cpu(Tolerance::default()).unwrap();
        assert!(lost.cpu == 1 && lost.is_diluted, "{lost:?}");
        assert!((lost.mean_abs_points - 0.9).abs() < 1e-9, "{lost:?}");
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
