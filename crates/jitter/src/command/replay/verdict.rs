// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on a replay: whether the events that were due were injected.

use crate::replay::outcome::EventCounts;
use crate::replay::process::{CpuOutcome, Health};
use sandbag_stats::Verdict;

/// Percent of the events that were due which must have been injected.
const KEPT_PCT: f64 = 99.0;

/// What a replay is judged by.
#[derive(Debug, Default)]
pub struct Due {
    /// The sum of all ranks.
    pub counts: EventCounts,
    /// Events not reached on CPUs whose jitter ended early.
    lost: u64,
    /// The jitter of a CPU ended early.
    ended_early: bool,
}

impl Due {
    /// Of all CPUs of a replay beside a program.
    pub fn of_cpus(outcome: &[CpuOutcome]) -> Self {
        let mut due = Self::default();
        for one in outcome {
            due.counts.add(&one.outcome.counts);
            if one.health != Health::Well {
                due.ended_early = true;
                due.lost += one.outcome.counts.not_reached;
            }
        }
        due
    }

    /// Of a replay whose ranks all did well.
    pub fn of(counts: EventCounts) -> Self {
        Self {
            counts,
            ..Self::default()
        }
    }

    /// The verdict, and a sentence with its figures.
    pub fn verdict(&self) -> (Verdict, String) {
        let counts = &self.counts;
        let reasons = [
            (counts.below_floor, "shorter than what injecting costs"),
            (counts.over_limit, "left out so that others can run"),
            (counts.shortened, "shortened so that others can run"),
            (counts.cut, "shortened, for the thread did not run"),
            (counts.missed, "far too late"),
            (counts.invalid, "wrong in the plan"),
            (self.lost, "on a CPU whose jitter ended early"),
        ];
        let injected = (counts.injected + counts.merged).saturating_sub(counts.cut);
        let due = injected + reasons.iter().map(|(count, _)| count).sum::<u64>();
        if due == 0 && !self.ended_early {
            return (Verdict::Undecided, "no event was due".to_owned());
        }
        let pct = |count: u64| 100.0 * count as f64 / due.max(1) as f64;
        let injected_pct = pct(injected);
        let verdict = if self.ended_early || injected_pct < KEPT_PCT {
            Verdict::Missed
        } else if pct(counts.away) > 100.0 - KEPT_PCT {
            // As many as may be missing: the replay is then of another trace.
            Verdict::Undecided
        } else {
            Verdict::Kept
        };
        let mut text = format!(
            "{injected} of {due} events that were due were injected ({injected_pct:.1} %; kept \
             from {KEPT_PCT} % on)"
        );
        if counts.away > 0 {
            text += &format!(
                "; {} late, for the host or another task had the CPU",
                counts.away
            );
        }
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<String> = reasons
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        if !reasons.is_empty() {
            text += &format!("; not injected: {}", reasons.join(", "));
        } else if self.ended_early {
            text += "; the jitter of a CPU ended early";
        }
        (verdict, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(injected: u64, below_floor: u64, ended_early: bool) -> Due {
        let counts = EventCounts {
            injected,
            below_floor,
            ..EventCounts::default()
        };
        Due {
            ended_early,
            ..Due::of(counts)
        }
    }

    #[test]
    fn a_verdict_follows_the_share_of_the_events_that_were_due() {
        let mut late = due(100, 0, false);
        late.counts.away = 2;
        let mut cut = due(10, 0, false);
        cut.counts.cut = 5;
        for (of, verdict, said) in [
            (due(99, 1, false), Verdict::Kept, "99 of 100"),
            (due(98, 2, false), Verdict::Missed, "98.0 %"),
            (due(100, 0, true), Verdict::Missed, "ended early"),
            (due(0, 0, true), Verdict::Missed, "ended early"),
            (due(0, 0, false), Verdict::Undecided, "no event was due"),
            (due(0, 1, false), Verdict::Missed, "0 of 1"),
            (late, Verdict::Undecided, "2 late"),
            (cut, Verdict::Missed, "5 shortened"),
            (
                due(472, 8771, false),
                Verdict::Missed,
                "472 of 9243 events that were due were injected (5.1 %; kept from 99 % on); not \
                 injected: 8771 shorter than what injecting costs",
            ),
        ] {
            let (found, text) = of.verdict();
            assert_eq!(found, verdict, "{of:?}");
            assert!(text.contains(said), "{text}");
        }
    }
}
