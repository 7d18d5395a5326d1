// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures from the windows in `achieved.csv` and `achieved-100ms.csv`. Windows with more
//! than 3 % steal and windows without load are left out and counted; a window that was cut
//! short by the end of the run is ignored. Pure.

use std::collections::BTreeMap;

use sandbag_load::report::achieved::AchievedRow;
use sandbag_stats::verdict::NOISY_STEAL_PCT;
use sandbag_stats::{Accuracy, ErrorStats};

/// 95 % of the errors of a window length must be within this for the method
/// to "resolve" it, points.
pub const RESOLVED_POINTS: f64 = 2.0;
/// The window lengths tried for the resolution, in windows of 100 ms.
const LENGTHS: [usize; 5] = [1, 2, 5, 10, 20];

#[derive(Debug, Clone, PartialEq)]
pub struct Errors {
    /// Statistics of the windows that count; `None` if none do.
    pub stats: Option<ErrorStats>,
    /// Windows left out because of steal.
    pub stolen: u64,
    pub holes: u64,
}

/// The errors of the windows of `nominal_s` seconds.
pub fn errors(rows: &[AchievedRow], nominal_s: f64) -> Errors {
    let mut accuracy = Accuracy::default();
    let (mut stolen, mut holes) = (0, 0);
    for row in whole(rows, nominal_s) {
        if row.is_hole() {
            holes += 1;
        } else if row.steal_pct > NOISY_STEAL_PCT {
            stolen += 1;
        } else {
            accuracy.add(row.error_points);
        }
    }
    Errors {
        stats: accuracy.stats(),
        stolen,
        holes,
    }
}

fn whole(rows: &[AchievedRow], nominal_s: f64) -> impl Iterator<Item = &AchievedRow> {
    rows.iter()
        .filter(move |row| row.length_s > nominal_s * 0.9)
}

/// Sums over consecutive windows of one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    wall_s: f64,
    delivered_s: f64,
    asked_s: f64,
    burner_s: f64,
}

impl Sum {
    fn of(rows: &[AchievedRow]) -> Self {
        rows.iter().fold(Self::default(), |sum, row| {
            let delivered_s = row.length_s * (1.0 - row.steal_pct / 100.0);
            Self {
                wall_s: sum.wall_s + row.length_s,
                delivered_s: sum.delivered_s + delivered_s,
                asked_s: sum.asked_s + delivered_s * row.asked_pct / 100.0,
                burner_s: sum.burner_s + row.burner_s,
            }
        })
    }

    /// The error of the sum in points; `None` under steal.
    fn error_points(self) -> Option<f64> {
        let steal_pct = 100.0 * (1.0 - self.delivered_s / self.wall_s);
        (self.delivered_s > 0.0 && steal_pct <= NOISY_STEAL_PCT)
            .then(|| 100.0 * (self.burner_s - self.asked_s) / self.delivered_s)
    }
}

/// The whole windows of each CPU in order of time.
fn by_cpu(rows: &[AchievedRow], nominal_s: f64) -> BTreeMap<u32, Vec<AchievedRow>> {
    let mut cpus = BTreeMap::<u32, Vec<AchievedRow>>::new();
    for row in whole(rows, nominal_s).filter(|r| !r.is_hole()) {
        cpus.entry(row.cpu).or_default().push(row.clone());
    }
    for rows in cpus.values_mut() {
        rows.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    }
    cpus
}

/// The resolution from windows of 100 ms: the shortest of 100, 200, 500 ms, 1
/// and 2 s in which 95 % of the errors are within [`RESOLVED_POINTS`],
/// milliseconds. `None` if none of them is, or there are no windows.
pub fn resolution_ms(rows: &[AchievedRow]) -> Option<u32> {
    let cpus = by_cpu(rows, 0.1);
    LENGTHS.into_iter().find_map(|length| {
        let mut accuracy = Accuracy::default();
        for rows in cpus.values() {
            for chunk in rows.chunks_exact(length) {
                if let Some(error) = Sum::of(chunk).error_points() {
                    accuracy.add(error);
                }
            }
        }
        let resolved = accuracy.count() > 0 && accuracy.share_within(RESOLVED_POINTS) >= 0.95;
        resolved.then_some(length as u32 * 100)
    })
}

/// The step response: the errors of those seconds that begin 100 ms after a
/// change of the asked load, from windows of 100 ms. A second may reach into
/// the next level: the asked load is then the mean of both.
pub fn step_response(rows: &[AchievedRow]) -> Option<ErrorStats> {
    let mut accuracy = Accuracy::default();
    for rows in by_cpu(rows, 0.1).values() {
        for change in 1..rows.len() {
            if (rows[change].asked_pct - rows[change - 1].asked_pct).abs() < 1e-6 {
                continue;
            }
            // The window of the change itself is the first 100 ms.
            let Some(second) = rows.get(change + 1..change + 11) else {
                break;
            };
            if let Some(error) = Sum::of(second).error_points() {
                accuracy.add(error);
            }
        }
    }
    accuracy.stats()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn row(time_s: f64, length_s: f64, asked_pct: f64, got_pct: f64) -> AchievedRow {
        AchievedRow {
            time_s,
            length_s,
            cpu: 0,
            asked_pct,
            got_pct,
            error_points: got_pct - asked_pct,
            burner_s: length_s * got_pct / 100.0,
            steal_pct: 0.0,
            busy_pct: None,
            command_pct: None,
            hole: 0,
        }
    }

    fn tenths(got: impl IntoIterator<Item = f64>) -> Vec<AchievedRow> {
        got.into_iter()
            .enumerate()
            .map(|(i, got)| row(i as f64 / 10.0, 0.1, 50.0, got))
            .collect()
    }

    #[test]
    fn stolen_absent_and_short_windows_are_not_errors() {
        let mut rows = vec![row(0.0, 1.0, 50.0, 51.0); 5];
        rows[1].steal_pct = 3.5;
        rows[2].hole = 1;
        rows[3].length_s = 0.4;
        let e = errors(&rows, 1.0);
        assert_eq!((e.stolen, e.holes), (1, 1));
        assert_eq!(e.stats.unwrap().windows, 2);
    }

    #[test]
    fn a_load_that_alternates_every_100_ms_is_resolved_at_200() {
        let rows = tenths((0..40).map(|i| if i % 2 == 0 { 60.0 } else { 40.0 }));
        assert_eq!(resolution_ms(&rows), Some(200));
        assert_eq!(resolution_ms(&tenths([50.5; 40])), Some(100));
        assert_eq!(resolution_ms(&tenths([66.0; 40])), None);
        assert_eq!(resolution_ms(&[]), None);
        // Steal excludes the sum, and not its neighbours.
        let mut stolen = tenths([50.0; 20]);
        (stolen[3].steal_pct, stolen[3].burner_s) = (50.0, 0.0);
        assert_eq!(resolution_ms(&stolen), Some(100));
    }

    #[test]
    fn the_second_after_a_change_begins_100_ms_later() {
        // The window of the change is wrong, all others are right.
        let mut rows: Vec<AchievedRow> = (0..30)
            .map(|i| {
                let asked = if i < 10 { 20.0 } else { 80.0 };
                row(f64::from(i) / 10.0, 0.1, asked, asked)
            })
            .collect();
        rows[10].burner_s = 0.02;
        let s = step_response(&rows).unwrap();
        assert_eq!(s.windows, 1);
        assert!(s.mean_abs_points < 1e-9);
        // Two tenths late is seen: 60 points for one tenth of ten.
        rows[11].burner_s = 0.02;
        let s = step_response(&rows).unwrap();
        assert!((s.worst_points + 6.0).abs() < 1e-9, "{s:?}");
        // A change too near to the end has no second.
        let mut late = tenths([50.0; 15]);
        late[9].asked_pct = 80.0;
        assert_eq!(step_response(&late), None);
    }

    #[test]
    fn a_sum_has_the_mean_error_of_its_windows() {
        let error = Sum::of(&tenths([0.0, 100.0, 62.0])).error_points().unwrap();
        assert!((error - 4.0).abs() < 1e-9);
    }
}
