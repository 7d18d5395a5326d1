// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on a replay: whether the events that were due were injected.

use crate::inside::outcome::InsideOutcome;
use crate::replay::outcome::EventCounts;
use crate::replay::process::{CpuOutcome, Health};
use sandbag_stats::Verdict;
use sandbag_ui::quantity::time;

/// Percent of the events that were due which must have been injected.
const KEPT_PCT: f64 = 99.0;
/// Percent of CMD's CPU time which processes with jitter must have taken.
const CPU_PCT: f64 = 90.0;
/// What may be missing of it in any case, beside what processes that a signal killed did not
/// book: for each run, and for each process, which ends after its last booking; ns.
const CPU_NS: u64 = 100_000_000;
const CPU_EACH_NS: u64 = 1_000_000;

/// What a replay is judged by.
#[derive(Debug, Default)]
pub struct Due {
    /// The sum of all ranks.
    pub counts: EventCounts,
    /// Events not reached on CPUs whose jitter ended early.
    lost: u64,
    /// Events not reached on the others: what injects them did not keep up.
    unreached: u64,
    /// Whose jitter ended early.
    ended_early: Option<&'static str>,
    /// Processes and threads that were to have jitter and never had any.
    without: u64,
    /// CPU time that processes with jitter took, and that of CMD, ns, where too much is missing.
    cpu_ns: Option<(u64, u64)>,
    /// Within the processes of CMD, of which one may keep the CPU from another.
    inside: bool,
}

impl Due {
    /// Of all CPUs of a replay beside a program.
    pub fn of_cpus(outcome: &[CpuOutcome]) -> Self {
        let mut due = Self::default();
        for one in outcome {
            due.counts.add(&one.outcome.counts);
            let not_reached = one.outcome.counts.not_reached;
            if one.health == Health::Well {
                // One may be under way when the run ends.
                due.unreached += not_reached.saturating_sub(1);
            } else {
                due.ended_early = Some("a CPU");
                due.lost += not_reached;
            }
        }
        due
    }

    /// Of all processes of a replay inside a program, which took so much CPU time, ns; `None` if
    /// that is not known, or not all of them were to have jitter until the end.
    pub fn of_processes(outcome: &InsideOutcome, command_ns: Option<u64>) -> Self {
        let slots = outcome.slots.len() as u64 + u64::from(outcome.recycled);
        let may_miss = CPU_NS + slots.saturating_mul(CPU_EACH_NS);
        let may_miss = may_miss.saturating_add(outcome.silent_cpu_ns());
        let is_too_much = |(with, all): &(u64, u64)| {
            all.saturating_sub(*with) > may_miss && (*with as f64) < *all as f64 * CPU_PCT / 100.0
        };
        let ended_early =
            outcome.recycled_early > 0 || outcome.slots.iter().any(|slot| slot.ended.is_early());
        Self {
            counts: outcome.total().counts,
            lost: 0,
            unreached: 0,
            ended_early: ended_early.then_some("a process or thread"),
            without: outcome.refused.of_meant(),
            cpu_ns: outcome.cpu_ns().zip(command_ns).filter(is_too_much),
            inside: true,
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
            (self.unreached, "not reached before the end"),
        ];
        let injected = (counts.injected + counts.merged).saturating_sub(counts.cut);
        let due = injected + reasons.iter().map(|(count, _)| count).sum::<u64>();
        let mut without = match self.without {
            0 => String::new(),
            count => format!("; {count} processes or threads had no jitter"),
        };
        if let Some((with, all)) = self.cpu_ns {
            without += &format!(
                "; of {} of CPU time of CMD processes with jitter took {}",
                time(all as f64),
                time(with as f64)
            );
        }
        if due == 0 && self.ended_early.is_none() {
            return (Verdict::Undecided, format!("no event was due{without}"));
        }
        let pct = |count: u64| 100.0 * count as f64 / due.max(1) as f64;
        let injected_pct = pct(injected);
        let verdict = if self.ended_early.is_some() || injected_pct < KEPT_PCT {
            Verdict::Missed
        } else if pct(counts.away) > 100.0 - KEPT_PCT || self.without > 0 || self.cpu_ns.is_some() {
            // As many away as may be missing: the replay is then of another trace. And how many
            // events were due where there was no jitter is not known.
            Verdict::Undecided
        } else {
            Verdict::Kept
        };
        let mut text = format!(
            "{injected} of {due} events that were due were injected ({injected_pct:.1} %; kept \
             from {KEPT_PCT} % on)"
        );
        if counts.away > 0 {
            let tasks = if self.inside {
                "another task, also one of CMD's own,"
            } else {
                "another task"
            };
            text += &format!(
                "; {} late, for the host or {tasks} had the CPU",
                counts.away
            );
        }
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<String> = reasons
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        if !reasons.is_empty() {
            text += &format!("; not injected: {}", reasons.join(", "));
        }
        // Of lost events the reason says it.
        if let Some(whose) = self.ended_early.filter(|_| self.lost == 0) {
            text += &format!("; the jitter of {whose} ended early");
        }
        (verdict, text + &without)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inside::outcome::{Refusals, Slot, SufferEnd};
    use crate::replay::RankOutcome;
    use crate::replay::limit::LeftOut;
    use crate::replay::process::InjectorNoise;

    fn due(injected: u64, below_floor: u64, ended_early: bool) -> Due {
        let counts = EventCounts {
            injected,
            below_floor,
            ..EventCounts::default()
        };
        Due {
            counts,
            ended_early: ended_early.then_some("a CPU"),
            ..Due::default()
        }
    }

    /// A hundred events in a process whose jitter ended so.
    fn inside(ended: SufferEnd, refused: Refusals) -> Due {
        let suffered = RankOutcome {
            counts: due(100, 0, false).counts,
            ..RankOutcome::default()
        };
        let slot = Slot {
            pid: 7,
            tid: 7,
            rank: None,
            portion: 0,
            name: "app".to_owned(),
            signal: 61,
            ended,
            held: false,
            cpu_ns: 0,
            silent_cpu_ns: 0,
            suffered,
        };
        let outcome = InsideOutcome {
            slots: vec![slot],
            refused,
            ..InsideOutcome::default()
        };
        Due::of_processes(&outcome, None)
    }

    /// The program that does the work may be a static one that a shell started.
    #[test]
    fn cpu_time_without_jitter_is_not_kept() {
        const MS: u64 = 1_000_000;
        let slot = |ended, held, cpu_ns| {
            let counts = due(100, 0, false).counts;
            let suffered = RankOutcome {
                counts,
                ..RankOutcome::default()
            };
            Slot {
                pid: 7,
                tid: 7,
                rank: None,
                portion: 0,
                name: "app".to_owned(),
                signal: 61,
                ended,
                held,
                cpu_ns,
                silent_cpu_ns: 0,
                suffered,
            }
        };
        let of = |slots: &[Slot], command_ns| {
            let outcome = InsideOutcome {
                slots: slots.to_vec(),
                gone_cpu_ns: 100 * MS,
                ..InsideOutcome::default()
            };
            Due::of_processes(&outcome, command_ns).verdict()
        };
        let shell = slot(SufferEnd::Exit, false, 300 * MS);
        let (verdict, text) = of(std::slice::from_ref(&shell), Some(2_000 * MS));
        assert_eq!(verdict, Verdict::Undecided);
        assert!(
            text.ends_with("; of 2.00 s of CPU time of CMD processes with jitter took 400 ms"),
            "{text}"
        );
        let killed_later = slot(SufferEnd::Exhausted, true, 0);
        let ended_later = slot(SufferEnd::Exhausted, false, 0);
        // All of its work was with jitter; its last event was long before.
        let killed = Slot {
            silent_cpu_ns: 1_500 * MS,
            ..slot(SufferEnd::NotSaid, true, 300 * MS)
        };
        let mut unlike = killed.clone();
        unlike.silent_cpu_ns = 1_000 * MS;
        for (slots, command_ns, verdict) in [
            // Little, by part or by length.
            (vec![shell.clone()], Some(430 * MS), Verdict::Kept),
            (vec![shell.clone()], Some(500 * MS), Verdict::Kept),
            (vec![shell.clone()], Some(502 * MS), Verdict::Undecided),
            (vec![shell.clone()], None, Verdict::Kept),
            (vec![killed], Some(2_000 * MS), Verdict::Kept),
            (vec![unlike], Some(2_000 * MS), Verdict::Undecided),
            // More than was waited for.
            (vec![shell.clone()], Some(10 * MS), Verdict::Kept),
            (
                vec![shell.clone(), killed_later],
                Some(9_000 * MS),
                Verdict::Kept,
            ),
            (
                vec![shell, ended_later],
                Some(9_000 * MS),
                Verdict::Undecided,
            ),
        ] {
            assert_eq!(
                of(&slots, command_ns).0,
                verdict,
                "{command_ns:?}: {slots:?}"
            );
        }
    }

    /// Late ones are injected.
    #[test]
    fn late_events_inside_are_undecided() {
        let of = |away| {
            let counts = EventCounts {
                injected: 100,
                away,
                ..EventCounts::default()
            };
            let outcome = InsideOutcome {
                gone: RankOutcome {
                    counts,
                    ..RankOutcome::default()
                },
                ..InsideOutcome::default()
            };
            Due::of_processes(&outcome, None).verdict()
        };
        assert_eq!((of(1).0, of(5).0), (Verdict::Kept, Verdict::Undecided));
        // CMD itself may have more threads than there are CPUs.
        let text = of(5).1;
        assert!(
            text.contains("5 late") && text.contains("CMD's own"),
            "{text}"
        );
    }

    #[test]
    fn a_process_that_had_less_jitter_than_it_should_is_not_kept() {
        let none = Refusals::default();
        let early = "; the jitter of a process or thread ended early";
        let without = "; 2 processes or threads had no jitter";
        let refused = Refusals {
            no_timer: 1,
            seccomp: 1,
            ..none
        };
        let not_meant = Refusals {
            not_meant: 3,
            ..none
        };
        for (ended, refused, verdict, said) in [
            (SufferEnd::Exit, none, Verdict::Kept, ""),
            (SufferEnd::Exhausted, none, Verdict::Kept, ""),
            (SufferEnd::Stopped, not_meant, Verdict::Kept, ""),
            (SufferEnd::Conflict, none, Verdict::Missed, early),
            (SufferEnd::Seccomp, none, Verdict::Missed, early),
            (SufferEnd::Timer, none, Verdict::Missed, early),
            (SufferEnd::NotSaid, refused, Verdict::Undecided, without),
            (SufferEnd::Timer, refused, Verdict::Missed, without),
        ] {
            let (found, text) = inside(ended, refused).verdict();
            assert_eq!(found, verdict, "{ended:?}: {text}");
            assert!(text.ends_with(said), "{text}");
            assert_eq!(text.contains(early), ended.is_early(), "{text}");
        }
        let mut gone = inside(SufferEnd::Exit, none);
        assert_eq!(gone.verdict().0, Verdict::Kept);
        let counts = gone.counts;
        let recycled = InsideOutcome {
            recycled: 1,
            recycled_early: 1,
            gone: RankOutcome {
                counts,
                ..RankOutcome::default()
            },
            ..InsideOutcome::default()
        };
        gone = Due::of_processes(&recycled, None);
        assert_eq!(gone.verdict().0, Verdict::Missed);
        let outcome = InsideOutcome {
            refused,
            ..InsideOutcome::default()
        };
        let (found, text) = Due::of_processes(&outcome, None).verdict();
        assert_eq!(found, Verdict::Undecided);
        assert_eq!(text, format!("no event was due{without}"));
    }

    /// Such an injector ran all the time, without getting to what was due.
    #[test]
    fn events_that_were_not_reached_are_not_injected() {
        let of = |not_reached| {
            let counts = EventCounts {
                injected: 333,
                not_reached,
                ..EventCounts::default()
            };
            let outcome = RankOutcome {
                counts,
                ..RankOutcome::default()
            };
            Due::of_cpus(&[CpuOutcome {
                cpu: 0,
                measured: InjectorNoise::default(),
                outcome,
                left_out: LeftOut::default(),
                ran_ns: 4_000_000_000,
                stood_ns: 0,
                health: Health::Well,
            }])
            .verdict()
        };
        assert_eq!(of(1).0, Verdict::Kept);
        let (verdict, text) = of(67);
        assert_eq!(verdict, Verdict::Missed);
        assert!(text.starts_with("333 of 399 events"), "{text}");
        assert!(text.ends_with("66 not reached before the end"), "{text}");
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
