// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Were the loads the same? Pure.
//!
//! Programs take different times, and a profile changes: what two runs got on
//! the mean is compared over the windows that all of them have, which are
//! asked the same. Programs that end within the first second have none; then
//! what is compared is got minus asked.

use std::collections::BTreeMap;

use crate::report::achieved::AchievedRow;
use sandbag_stats::Verdict;
use sandbag_ui::text::beside_limit;
use serde::{Deserialize, Serialize};

/// One CPU in the runs of both programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuLoads {
    pub cpu: u32,
    pub a_asked_pct: f64,
    pub a_got_pct: f64,
    pub b_asked_pct: f64,
    pub b_got_pct: f64,
    /// Error of A minus error of B, points.
    pub difference_points: f64,
}

/// A window that was cut short by the end of its run.
fn is_whole(row: &AchievedRow) -> bool {
    row.length_s > 0.999
}

/// Windows of 1 s that every run has.
pub fn common_windows<'a>(runs: impl IntoIterator<Item = &'a Vec<AchievedRow>>) -> u64 {
    let whole = |run: &Vec<AchievedRow>| {
        let ends = run.iter().filter(|row| is_whole(row));
        ends.map(|row| row.time_s.round() as u64 + 1)
            .max()
            .unwrap_or(0)
    };
    runs.into_iter().map(whole).min().unwrap_or(0)
}

/// Loads of the runs per CPU over the first `windows` seconds, or all if that is 0.
/// Means over the delivered time, of which a load is a share: a second that was
/// stolen has no load, and is no difference.
pub fn loads(a: &[Vec<AchievedRow>], b: &[Vec<AchievedRow>], windows: u64) -> Vec<CpuLoads> {
    let means = |runs: &[Vec<AchievedRow>]| {
        let mut sums: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
        let counts = |row: &&AchievedRow| {
            windows == 0 || (is_whole(row) && row.time_s + 0.5 < windows as f64)
        };
        for row in runs.iter().flatten().filter(counts) {
            let (delivered, asked, got) = sums.entry(row.cpu).or_default();
            let delivered_s = row.delivered_s();
            *delivered += delivered_s;
            *asked += row.asked_pct * delivered_s;
            *got += row.got_pct * delivered_s;
        }
        sums
    };
    let (a, b) = (means(a), means(b));
    let both = a
        .into_iter()
        .filter_map(|(cpu, a)| Some((cpu, a, *b.get(&cpu)?)));
    both.map(|(cpu, a, b)| {
        let mean = |sum: f64, delivered: f64| sum / delivered.max(f64::MIN_POSITIVE);
        let (a_asked_pct, a_got_pct) = (mean(a.1, a.0), mean(a.2, a.0));
        let (b_asked_pct, b_got_pct) = (mean(b.1, b.0), mean(b.2, b.0));
        CpuLoads {
            cpu,
            a_asked_pct,
            a_got_pct,
            b_asked_pct,
            b_got_pct,
            difference_points: (a_got_pct - a_asked_pct) - (b_got_pct - b_asked_pct),
        }
    })
    .collect()
}

/// What the loads say, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SameLoad {
    pub verdict: Verdict,
    pub reason: String,
    pub largest_points: Option<f64>,
    pub limit_points: f64,
    /// Windows of 1 s compared in each run; 0 if the programs ended before.
    pub windows: u64,
    pub cpus: Vec<CpuLoads>,
}

/// Judges: `counted` of `wanted` pairs were kept on both sides; the others
/// have `spoilt` verdicts.
pub fn judge(
    counted: usize,
    wanted: usize,
    spoilt: &[Verdict],
    cpus: Vec<CpuLoads>,
    windows: u64,
    limit_points: f64,
) -> SameLoad {
    let largest = cpus.iter().map(|cpu| cpu.difference_points.abs());
    let largest_points = largest.max_by(f64::total_cmp);
    let (verdict, reason) = match largest_points {
        Some(points) if points > limit_points => (
            Verdict::Missed,
            format!(
                "the loads differ by {} points (limit {limit_points})",
                beside_limit(points, limit_points, 2)
            ),
        ),
        _ if counted < wanted => {
            let verdict = if spoilt.contains(&Verdict::Missed) {
                Verdict::Missed
            } else {
                Verdict::Undecided
            };
            (
                verdict,
                format!(
                    "only {counted} of {wanted} pairs count: the load kept for both programs, and \
                     both succeeded"
                ),
            )
        }
        Some(points) => (
            Verdict::Kept,
            format!(
                "kept in both runs of {counted} pairs; on no CPU do they differ by more than \
                 {} points (limit {limit_points})",
                beside_limit(points, limit_points, 3)
            ),
        ),
        None => (
            Verdict::Undecided,
            "the programs ended before any load was measured".to_owned(),
        ),
    };
    SameLoad {
        verdict,
        reason,
        largest_points,
        limit_points,
        windows,
        cpus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::row;

    /// A profile that steps from 20 to 80 after 2 s, held with an error.
    fn stepping(seconds: f64, error: f64) -> Vec<AchievedRow> {
        let asked = |second: u32| if second < 2 { 20.0 } else { 80.0 };
        let whole =
            (0..seconds as u32).map(|n| row(0, f64::from(n), 1.0, asked(n), asked(n) + error));
        let rest = row(0, seconds.floor(), seconds.fract(), 80.0, 99.0);
        whole
            .chain((seconds.fract() > 0.0).then_some(rest))
            .collect()
    }

    #[test]
    fn runs_of_different_length_are_compared_where_both_ran() {
        let (a, b) = (vec![stepping(4.5, 0.1)], vec![stepping(9.3, -0.1)]);
        let windows = common_windows(a.iter().chain(&b));
        assert_eq!(windows, 4);
        let cpus = loads(&a, &b, windows);
        assert_eq!(cpus.len(), 1);
        assert!((cpus[0].a_asked_pct - 50.0).abs() < 1e-9);
        assert!((cpus[0].b_asked_pct - 50.0).abs() < 1e-9);
        assert!((cpus[0].difference_points - 0.2).abs() < 1e-9);
    }

    #[test]
    fn programs_of_less_than_a_second_are_compared_by_their_errors() {
        let a = vec![vec![row(1, 0.0, 0.4, 50.0, 50.5)]];
        let b = vec![vec![row(1, 0.0, 0.7, 40.0, 40.2)]];
        assert_eq!(common_windows(a.iter().chain(&b)), 0);
        let cpus = loads(&a, &b, 0);
        assert!((cpus[0].difference_points - 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_second_that_was_stolen_is_no_difference() {
        let held = |second: u32| row(0, f64::from(second), 1.0, 50.0, 50.0);
        let stolen = AchievedRow {
            steal_pct: 100.0,
            error_points: f64::NAN,
            ..row(0, 3.0, 1.0, 50.0, 0.0)
        };
        let a: Vec<AchievedRow> = (0..3).map(held).chain([stolen]).collect();
        let b: Vec<AchievedRow> = (0..4).map(held).collect();
        let (a, b) = (vec![a], vec![b]);
        let cpus = loads(&a, &b, 4);
        assert!((cpus[0].a_got_pct - 50.0).abs() < 1e-9, "{cpus:?}");
        assert!(cpus[0].difference_points.abs() < 1e-9, "{cpus:?}");
    }

    fn verdict(counted: usize, spoilt: &[Verdict], points: Option<f64>) -> Verdict {
        let cpu = |points| CpuLoads {
            cpu: 0,
            a_asked_pct: 50.0,
            a_got_pct: 50.0 + points,
            b_asked_pct: 50.0,
            b_got_pct: 50.0,
            difference_points: points,
        };
        let cpus = points.map(cpu).into_iter().collect();
        judge(counted, 3, spoilt, cpus, 1, 1.0).verdict
    }

    #[test]
    fn the_same_or_not() {
        use Verdict::{Kept, Missed, Undecided};
        assert_eq!(verdict(3, &[], Some(-0.1)), Kept);
        // Spoilt runs that could be repeated do no harm.
        assert_eq!(verdict(3, &[Undecided, Missed], Some(0.1)), Kept);
        assert_eq!(verdict(3, &[], Some(-1.1)), Missed);
        assert_eq!(verdict(2, &[Undecided], Some(0.1)), Undecided);
        assert_eq!(verdict(2, &[Undecided, Missed], Some(0.1)), Missed);
        assert_eq!(verdict(3, &[], None), Undecided);
    }
}
