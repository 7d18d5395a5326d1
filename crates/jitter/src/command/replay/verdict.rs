// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a replay put onto the CPUs what was due.

use crate::inside::outcome::Injections;
use crate::replay::process::outcome::{CpuOutcome, Health};
use sandbag_stats::Verdict;

/// Of the events that were due, percent that must have been injected.
const KEPT_PCT: f64 = 99.0;

/// What a replay is judged by.
#[derive(Debug, Default)]
pub struct Due {
    /// Events that were injected, also together with the one before.
    injected: u64,
    /// Events that were due and not injected, by the reason.
    not: Vec<(u64, &'static str)>,
    /// Of the injected: late because nobody was there to inject them.
    away: u64,
    /// The jitter of a CPU ended early.
    ended_early: bool,
}

impl Due {
    /// Of a replay beside a program.
    pub fn beside(outcome: &[CpuOutcome]) -> Self {
        let sum = |of: fn(&CpuOutcome) -> u64| outcome.iter().map(of).sum::<u64>();
        let is_lost = |one: &CpuOutcome| one.health != Health::Well;
        let lost = outcome.iter().filter(|one| is_lost(one));
        Self {
            injected: sum(|one| one.outcome.counts.injected + one.outcome.counts.merged),
            not: vec![
                (
                    sum(|one| one.outcome.counts.below_floor),
                    "shorter than what injecting costs",
                ),
                (
                    sum(|one| one.outcome.counts.over_limit),
                    "left out so that others can run",
                ),
                (
                    sum(|one| one.outcome.counts.shortened),
                    "shortened so that others can run",
                ),
                (sum(|one| one.outcome.counts.missed), "far too late"),
                (
                    lost.map(|one| one.outcome.counts.not_reached).sum(),
                    "on a CPU whose jitter ended early",
                ),
            ],
            away: sum(|one| one.outcome.counts.away),
            ended_early: outcome.iter().any(is_lost),
        }
    }

    /// Of a replay inside the processes of a program.
    pub fn inside(all: &Injections) -> Self {
        Self {
            injected: all.injected.saturating_sub(all.cut),
            not: vec![
                (all.short, "shorter than what injecting costs"),
                (all.cut, "shortened, for the one before took longer"),
                (all.passed, "over before the thread ran again"),
                (all.invalid, "wrong in the plan"),
            ],
            away: 0,
            ended_early: false,
        }
    }

    /// The verdict, and a sentence with its figures.
    pub fn verdict(&self) -> (Verdict, String) {
        let not: u64 = self.not.iter().map(|(count, _)| count).sum();
        let due = self.injected + not;
        if due == 0 && !self.ended_early {
            return (Verdict::Undecided, "no event was due".to_owned());
        }
        let pct = 100.0 * self.injected as f64 / due.max(1) as f64;
        let away_pct = 100.0 * self.away as f64 / due.max(1) as f64;
        let verdict = match (self.ended_early || pct < KEPT_PCT, away_pct) {
            (true, _) => Verdict::Missed,
            // As much as may be missing: by then the trace is another one.
            (false, away_pct) if away_pct > 100.0 - KEPT_PCT => Verdict::Undecided,
            (false, _) => Verdict::Kept,
        };
        let mut text = format!(
            "{} of {due} events that were due were injected ({pct:.1} %; kept from {KEPT_PCT} % on)",
            self.injected
        );
        if self.away > 0 {
            text += &format!(
                "; {} late, for the host or another task had the CPU",
                self.away
            );
        }
        let reasons = self.not.iter().filter(|(count, _)| *count > 0);
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

    fn due(injected: u64, short: u64, ended_early: bool) -> Due {
        Due {
            injected,
            not: vec![(short, "shorter than what injecting costs"), (0, "late")],
            away: 0,
            ended_early,
        }
    }

    #[test]
    fn events_that_came_late_for_nobody_was_there_are_not_kept() {
        let late = Due {
            away: 2,
            ..due(100, 0, false)
        };
        let (verdict, text) = late.verdict();
        assert_eq!(verdict, Verdict::Undecided);
        assert!(text.contains("2 late"), "{text}");
    }

    #[test]
    fn a_replay_that_injects_a_twentieth_is_missed_and_says_why() {
        let (verdict, text) = due(472, 8771, false).verdict();
        assert_eq!(verdict, Verdict::Missed);
        assert_eq!(
            text,
            "472 of 9243 events that were due were injected (5.1 %; kept from 99 % on); not \
             injected: 8771 shorter than what injecting costs"
        );
    }

    #[test]
    fn verdicts_follow_the_share_of_the_events_that_were_due() {
        for (of, verdict) in [
            (due(99, 1, false), Verdict::Kept),
            (due(98, 2, false), Verdict::Missed),
            (due(100, 0, true), Verdict::Missed),
            (due(0, 0, true), Verdict::Missed),
            (due(0, 0, false), Verdict::Undecided),
            (due(0, 1, false), Verdict::Missed),
        ] {
            assert_eq!(of.verdict().0, verdict, "{of:?}");
        }
        let all = Injections {
            injected: 10,
            cut: 5,
            ..Injections::default()
        };
        assert_eq!(Due::inside(&all).verdict().0, Verdict::Missed);
    }
}
