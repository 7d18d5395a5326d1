// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which portion each rank replays: the paper's third safeguard and its kinds of
//! synchronisation.
//!
//! Rank `r` replays the trace's CPU `r` modulo their number. It begins at a random
//! position, drawn from the seed: each group of ranks has a position of its own
//! (synchronised once: all have the same), so that the CPUs of a node suffer together
//! what was recorded together.

use std::sync::Arc;

use crate::{CpuTrace, JitterTrace};
use sandbag_stats::chance;

use crate::replay::column::{PlanColumn, known_together};
use crate::replay::error::{Error, Result};
use crate::replay::portion::Portion;
use crate::replay::sync::Sync;

/// How a trace is replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Part of the known time that a rank replays at most, above 0 to 1. The paper's
    /// third, so that ranks differ.
    pub share: f64,
    /// Begin at a random position; else at the trace's beginning (without the third
    /// safeguard).
    pub random: bool,
    pub sync: Sync,
    /// Ranks that suffer together what was recorded together: the CPUs of a node.
    pub group: u32,
    /// Lengths and gaps are multiplied by this, [`FACTORS`]; for fidelity to the
    /// paper.
    pub factor: f64,
    /// Begin the portion again when it is used up, instead of ending.
    pub repeat: bool,
}

/// The paper's share.
pub const SHARE: f64 = 1.0 / 3.0;
/// Least and largest factor.
pub const FACTORS: (f64, f64) = (1.0, 1000.0);
/// Random streams: positions of ranks, and seeds of segments (positions of phases are
/// [`crate::replay::portion::PHASES`]).
const RANKS: u64 = 0;
const SEGMENTS: u64 = 2;

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            share: SHARE,
            random: true,
            ..Self::WHOLE
        }
    }
}

impl ReplayOptions {
    /// The whole trace from its beginning, once.
    pub const WHOLE: Self = Self {
        seed: 0,
        share: 1.0,
        random: false,
        sync: Sync::None,
        group: 1,
        factor: 1.0,
        repeat: false,
    };

    /// # Errors
    /// [`Error::Option`]: one is out of its range.
    fn check(&self) -> Result<()> {
        let wrong = |what, found: String, expected| {
            Err(Error::Option {
                what,
                found,
                expected,
            })
        };
        if !(self.share > 0.0 && self.share <= 1.0) {
            let found = self.share.to_string();
            return wrong("the share of the trace", found, "above 0 and not above 1");
        }
        if !(FACTORS.0..=FACTORS.1).contains(&self.factor) {
            return wrong("the scale factor", self.factor.to_string(), "1 to 1000");
        }
        if self.group == 0 {
            return wrong("the group", "0".to_owned(), "1 or more");
        }
        if self.sync == Sync::Phases(0) {
            return wrong("the number of phases", "0".to_owned(), "1 or more");
        }
        Ok(())
    }
}

/// The portions of all ranks, which share the trace.
#[derive(Debug, Clone)]
pub struct ReplayPlan {
    columns: Vec<Arc<PlanColumn>>,
    options: ReplayOptions,
}

impl ReplayPlan {
    /// Of these CPUs of a trace, in this order.
    ///
    /// # Errors
    /// A CPU has no known time, or those that are to be replayed together have none
    /// in common; an option is out of range.
    pub fn new(cpus: &[&CpuTrace], options: &ReplayOptions) -> Result<Self> {
        options.check()?;
        if cpus.is_empty() || cpus.iter().any(|cpu| cpu.known_ns() == 0) {
            return Err(Error::NothingKnown);
        }
        if options.group as usize > cpus.len() {
            return Err(Error::Group {
                group: options.group,
                held: cpus.len(),
            });
        }
        // A position must mean the same moment on all of them.
        let together = options.group > 1 || options.sync != Sync::None || !options.random;
        let known = together.then(|| known_together(cpus));
        let column = |cpu: &&CpuTrace| {
            let known = known.as_ref().unwrap_or(&cpu.known);
            Arc::new(PlanColumn::new(known, &cpu.events))
        };
        let columns: Vec<Arc<PlanColumn>> = cpus.iter().map(column).collect();
        if columns.iter().any(|column| column.known_ns == 0) {
            return Err(Error::NothingTogether);
        }
        Ok(Self {
            columns,
            options: options.clone(),
        })
    }

    /// Of a trace, or of these CPUs of it.
    ///
    /// # Errors
    /// It does not hold one of them; those of [`new`](Self::new).
    pub fn of(trace: &JitterTrace, cpus: Option<&[u32]>, options: &ReplayOptions) -> Result<Self> {
        let named = |cpu: &u32| {
            let found = trace.cpus.iter().find(|one| one.cpu == *cpu);
            found.ok_or_else(|| Error::NoCpu {
                cpu: *cpu,
                held: cpu_numbers(trace),
            })
        };
        let cpus: Vec<&CpuTrace> = match cpus {
            None => trace.cpus.iter().collect(),
            Some(cpus) => cpus.iter().map(named).collect::<Result<_>>()?,
        };
        Self::new(&cpus, options)
    }

    /// Number of CPUs of the trace that are replayed.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The column of a rank's portion.
    pub fn column(&self, rank: u64) -> &PlanColumn {
        &self.columns[self.column_of(rank)]
    }

    pub fn options(&self) -> &ReplayOptions {
        &self.options
    }

    fn column_of(&self, rank: u64) -> usize {
        (rank % self.columns.len() as u64) as usize
    }

    /// The portion of a rank.
    pub fn rank(&self, rank: u64) -> Portion {
        self.in_segment(rank, 0)
    }

    /// The portion of a rank in one of several runs, counted from 0: each has random
    /// choices of its own, whatever the synchronisation.
    pub fn in_segment(&self, rank: u64, segment: u64) -> Portion {
        let column = Arc::clone(&self.columns[self.column_of(rank)]);
        let ReplayOptions {
            seed,
            share,
            random,
            sync,
            group,
            factor,
            repeat,
        } = self.options;
        let seed = match segment {
            0 => seed,
            _ => chance::draw(seed, SEGMENTS, segment, u64::MAX),
        };
        let known_ns = column.known_ns;
        let length_ns = ((known_ns as f64 * share) as u64).clamp(1, known_ns);
        let who = match sync {
            Sync::None => rank / u64::from(group),
            Sync::Once | Sync::Phases(_) => 0,
        };
        let offset_ns = if random {
            chance::draw(seed, RANKS, who, known_ns)
        } else {
            0
        };
        Portion {
            column,
            offset_ns,
            length_ns,
            factor,
            repeat,
            sync,
            seed,
        }
    }
}

/// `0, 1, 5`.
fn cpu_numbers(trace: &JitterTrace) -> String {
    let cpus: Vec<String> = trace.cpus.iter().map(|cpu| cpu.cpu.to_string()).collect();
    cpus.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::fixture::{self, spans};

    use super::*;

    fn cpu(cpu: u32, known: &[(u64, u64)], events: &[(u64, u64)]) -> CpuTrace {
        CpuTrace::new(cpu, spans(known), fixture::events(events))
    }

    /// An event of 7 ns every 100.
    fn regular(number: u32) -> CpuTrace {
        let events: Vec<(u64, u64)> = (0..1000).map(|i| (i * 100 + 50, 7)).collect();
        cpu(number, &[(0, 100_000)], &events)
    }

    #[test]
    fn segments_replay_other_portions_whatever_the_synchronisation() {
        let trace = regular(0);
        for sync in [Sync::None, Sync::Once, Sync::Phases(1), Sync::Phases(10)] {
            let options = ReplayOptions {
                sync,
                ..ReplayOptions::default()
            };
            let plan = ReplayPlan::new(&[&trace], &options).unwrap();
            let begin = |rank, segment| {
                let portion = plan.in_segment(rank, segment);
                let reset = portion.at_phase(0);
                reset.as_ref().unwrap_or(&portion).offset_ns()
            };
            let mut of_first: Vec<u64> = (0..32).map(|segment| begin(0, segment)).collect();
            assert_eq!(begin(0, 3) == begin(1, 3), sync != Sync::None, "{sync:?}");
            of_first.sort_unstable();
            of_first.dedup();
            assert!(of_first.len() > 30, "{sync:?} {of_first:?}");
        }
    }

    #[test]
    fn ranks_replay_different_portions_of_at_most_the_share() {
        let trace = regular(0);
        let plan = ReplayPlan::new(&[&trace], &ReplayOptions::default()).unwrap();
        let offsets: Vec<u64> = (0..64).map(|rank| plan.rank(rank).offset_ns()).collect();
        let mut distinct = offsets.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 60, "{offsets:?}");
        for rank in 0..64 {
            let portion = plan.rank(rank);
            assert_eq!(portion.length_ns(), 33_333);
            let count = portion.events().count();
            assert!((333..=335).contains(&count), "{count}");
        }
        let same = ReplayPlan::new(&[&trace], &ReplayOptions::default()).unwrap();
        assert_eq!(same.rank(9).offset_ns(), offsets[9]);
        let options = ReplayOptions {
            seed: 1,
            ..ReplayOptions::default()
        };
        let other = ReplayPlan::new(&[&trace], &options).unwrap();
        assert_ne!(other.rank(9).offset_ns(), offsets[9]);
    }

    #[test]
    fn the_cpus_of_a_group_are_at_the_same_moment_of_the_recording() {
        // The second was observed later: the axis is what both know.
        let a = cpu(0, &[(0, 1000)], &[(300, 5), (800, 5)]);
        let b = cpu(1, &[(100, 1100)], &[(310, 9), (1050, 9)]);
        let options = ReplayOptions {
            group: 2,
            share: 1.0,
            ..ReplayOptions::default()
        };
        let plan = ReplayPlan::new(&[&a, &b], &options).unwrap();
        for node in 0..8 {
            let (left, right) = (plan.rank(node * 2), plan.rank(node * 2 + 1));
            assert_eq!(left.offset_ns(), right.offset_ns());
            assert_eq!(left.column.known_ns, 900);
        }
        assert_ne!(plan.rank(0).offset_ns(), plan.rank(2).offset_ns());
        assert_eq!(plan.column(1).events.len(), 1);
        assert_eq!(plan.column(1).events[0].due_ns, 210);
    }

    #[test]
    fn ranks_have_a_common_position_once_or_begin_at_the_beginning() {
        let (a, b) = (regular(0), regular(1));
        let once = ReplayOptions {
            sync: Sync::Once,
            ..ReplayOptions::default()
        };
        let plan = ReplayPlan::new(&[&a, &b], &once).unwrap();
        for rank in 1..9 {
            assert_eq!(plan.rank(rank).offset_ns(), plan.rank(0).offset_ns());
        }
        let plan = ReplayPlan::new(&[&a], &ReplayOptions::WHOLE).unwrap();
        let first = plan.rank(5).events().next().unwrap();
        assert_eq!((plan.rank(5).offset_ns(), first.due_ns), (0, 50));
    }

    #[test]
    fn options_out_of_range_and_traces_without_known_time_are_refused() {
        let trace = regular(0);
        let error = |cpus: &[&CpuTrace], options: ReplayOptions| {
            ReplayPlan::new(cpus, &options).unwrap_err().to_string()
        };
        type Change = fn(&mut ReplayOptions);
        let changes: [(Change, &str); 6] = [
            (|o| o.share = 0.0, "share"),
            (|o| o.share = f64::NAN, "share"),
            (|o| o.factor = 0.5, "scale factor"),
            (|o| o.group = 2, "2 CPUs"),
            (|o| o.group = 0, "group"),
            (|o| o.sync = Sync::Phases(0), "phases"),
        ];
        for (change, expected) in changes {
            let mut options = ReplayOptions::default();
            change(&mut options);
            assert!(error(&[&trace], options).contains(expected), "{expected}");
        }
        let nothing = error(&[&CpuTrace::default()], ReplayOptions::default());
        assert!(nothing.contains("nothing to replay"));
        let apart = cpu(1, &[(200_000, 300_000)], &[]);
        let options = ReplayOptions {
            group: 2,
            ..ReplayOptions::default()
        };
        assert!(error(&[&trace, &apart], options).contains("together"));
    }
}
