// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of injection inside a program: on each CPU a process of ours that
//! suffers by the library's timers and looks at the same time.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::collect::REAL_TIME_ROUND;
use crate::inside::collector::{self, CollectorReport, CollectorSetup};
use crate::inside::library::{LibraryDir, PLAN_VARIABLE, SELF_VARIABLE};
use crate::inside::outcome::Injections;
use crate::inside::overhead::{self, Overhead, OverheadSetup};
use crate::inside::plan::{InsideOptions, PlanFile, Portion};
use crate::replay::histogram::Histogram;
use crate::replay::outcome::{EventCounts, RankOutcome};
use crate::replay::process::verify::{CpuRow, ReplayTrace};
use crate::replay::{PlanColumn, PlannedEvent, ReplayPlan};
use sandbag_linux::clock;
use sandbag_run::child;
use sandbag_ui::bail;
use sandbag_ui::failure::{Context as _, Result};

use sandbag_ui::units::nanos;

/// The beginning is so far ahead of the start of the processes, ns.
const START_NS: u64 = 300_000_000;
/// What real-time tasks of the row before took of the kernel's second is
/// forgotten after it, ns.
const SECOND_NS: u64 = 1_000_000_000;
/// By which the library knows which portion is whose.
const RANK: &str = "OMPI_COMM_WORLD_RANK";

/// How it is to be.
#[derive(Debug, Clone, Copy)]
pub struct InsideRun<'a> {
    pub cpus: &'a [u32],
    /// At most so long.
    pub most: Duration,
    /// Nothing shorter is noted.
    pub threshold_ns: f64,
    /// Be real-time tasks of this priority.
    pub real_time: Option<u8>,
}

/// What injecting costs there, by a process that does nothing else.
pub fn measure(how: InsideRun<'_>) -> Result<Overhead> {
    let at = OverheadSetup {
        cpu: how.cpus.first().copied(),
        real_time: how.real_time,
    };
    Ok(overhead::measure(&LibraryDir::make(None)?, at)?)
}

/// Replays, with the safeguards that the measured costs are for, or without.
pub fn replay(
    plan: &ReplayPlan,
    how: InsideRun<'_>,
    safeguards: Option<Overhead>,
) -> Result<ReplayTrace> {
    let most = match how.real_time {
        None => how.most,
        Some(_) => how.most.min(REAL_TIME_ROUND),
    };
    let ranks = 0..how.cpus.len() as u64;
    let portions: Vec<_> = ranks.map(|rank| plan.rank(rank)).collect();
    let lengths = portions.iter().map(|portion| portion.length_ns());
    let length_ns = lengths.min().unwrap_or(0).min(nanos(most));
    let asked: Vec<Vec<PlannedEvent>> = portions
        .iter()
        .map(|portion| clip(portion.events(), length_ns))
        .collect();
    drop(portions);
    let place = LibraryDir::make(None)?;
    let mut file = write_plan(&place, &asked, length_ns, safeguards)?;
    let ahead_ns = START_NS + how.real_time.map_or(0, |_| SECOND_NS);
    let begin_ns = clock::monotonic() + ahead_ns;
    file.begin(begin_ns)?;
    let mut started = ChildGroup(Vec::new());
    for (rank, cpu) in how.cpus.iter().enumerate() {
        let setup = CollectorSetup {
            cpu: *cpu,
            real_time: how.real_time,
            begin_ns,
            length_ns,
            threshold_ns: how.threshold_ns.ceil() as u64,
        };
        let process = child::own(collector::VERB, &setup.to_args(), &[], true)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .env(PLAN_VARIABLE, file.path())
            .env(RANK, rank.to_string())
            .env_remove(SELF_VARIABLE)
            .spawn()
            .context("start a process that suffers")?;
        started.0.push(process);
    }
    let mut seen = Vec::new();
    for (process, cpu) in started.0.drain(..).zip(how.cpus) {
        seen.push(read(process, *cpu)?);
    }
    let booked = file.outcome()?;
    let known_ns = seen.iter().map(|one| length_ns.saturating_sub(one.from_ns));
    let known_ns = known_ns.sum::<u64>() / seen.len().max(1) as u64;
    let rows = how.cpus.iter().zip(asked).zip(seen).zip(0u32..);
    let cpus = rows
        .map(|(((cpu, asked), seen), rank)| {
            let slot = booked.slots.iter().find(|slot| slot.rank == Some(rank));
            let suffered = slot.map(|slot| &slot.suffered);
            CpuRow {
                cpu: *cpu,
                outcome: suffered.map_or_else(
                    || RankOutcome::with_room(0),
                    |suffered| outcome_of(suffered, asked.len() as u64),
                ),
                asked: asked
                    .into_iter()
                    .filter(|event| event.due_ns >= seen.from_ns)
                    .collect(),
                seen: seen
                    .gaps
                    .iter()
                    .map(|(due_ns, length_ns)| PlannedEvent::new(*due_ns, *length_ns))
                    .collect(),
            }
        })
        .collect();
    Ok(ReplayTrace {
        length_ns,
        known_ns,
        cpus,
        team: None,
    })
}

/// Those that are killed if not all can be started.
struct ChildGroup(Vec<Child>);

impl Drop for ChildGroup {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What is due within that time, as far as it is over by then.
fn clip(events: impl Iterator<Item = PlannedEvent>, length_ns: u64) -> Vec<PlannedEvent> {
    events
        .take_while(|event| event.due_ns < length_ns)
        .map(|event| PlannedEvent::new(event.due_ns, event.length_ns.min(length_ns - event.due_ns)))
        .collect()
}

/// A column for each process, which is all that it is to suffer.
fn write_plan(
    place: &LibraryDir,
    asked: &[Vec<PlannedEvent>],
    length_ns: u64,
    safeguards: Option<Overhead>,
) -> Result<PlanFile> {
    let columns: Vec<PlanColumn> = asked
        .iter()
        .map(|events| PlanColumn {
            known_ns: length_ns,
            events: events.clone(),
        })
        .collect();
    let portion = |column| Portion {
        column,
        offset_ns: 0,
        length_ns,
    };
    let portions: Vec<Portion> = (0..columns.len()).map(portion).collect();
    let of = |of: fn(Overhead) -> u64| safeguards.map_or(0, of);
    let options = InsideOptions {
        ranked: u32::try_from(portions.len()).unwrap_or(u32::MAX),
        overhead_ns: of(|o| o.injection_ns),
        exit_ns: of(|o| o.exit_ns),
        lead_ns: of(|o| o.lead_ns),
        on_time_ns: of(|o| o.on_time_ns()),
        least_gap_ns: of(|o| o.least_gap_ns),
        supervisor: Some(std::process::id()),
        ..InsideOptions::default()
    };
    Ok(PlanFile::create(
        &place.plan(),
        &columns,
        &portions,
        &options,
    )?)
}

fn read(process: Child, cpu: u32) -> Result<CollectorReport> {
    let output = process.wait_with_output()?;
    let seen = std::str::from_utf8(&output.stdout)
        .ok()
        .and_then(CollectorReport::parse);
    match (output.status.success(), seen) {
        (true, Some(seen)) => Ok(seen),
        _ => bail!(
            "the process that suffers on CPU {cpu} failed: {}, {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ),
    }
}

/// What it booked, as the other rows have it. It does not keep events apart
/// that something was in the way of.
fn outcome_of(suffered: &Injections, asked: u64) -> RankOutcome {
    let counts = EventCounts {
        injected: suffered.injected.saturating_sub(suffered.merged),
        merged: suffered.merged,
        below_floor: suffered.short,
        missed: suffered.passed,
        behind: suffered.behind,
        away: suffered.cut,
        ..EventCounts::default()
    };
    let accounted = counts.injected + counts.merged + counts.below_floor + counts.missed;
    let counts = EventCounts {
        asked,
        not_reached: asked.saturating_sub(accounted),
        ..counts
    };
    let mut outcome = RankOutcome::with_room(0);
    outcome.note_later(
        &counts,
        [
            &suffered.start.resize(),
            &Histogram::default(),
            &suffered.length.resize(),
        ],
        (suffered.asked_ns, suffered.taken_ns),
    );
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_with_the_run() {
        let event = PlannedEvent::new;
        let events = [event(0, 5), event(90, 50), event(100, 1)];
        assert_eq!(clip(events.into_iter(), 100), [event(0, 5), event(90, 10)]);
    }

    #[test]
    fn every_event_is_accounted_for() {
        let suffered = Injections {
            injected: 7,
            merged: 2,
            short: 3,
            passed: 1,
            asked_ns: 70,
            taken_ns: 80,
            ..Injections::default()
        };
        let outcome = outcome_of(&suffered, 12);
        let c = outcome.counts;
        assert_eq!(
            (c.asked, c.injected, c.merged, c.below_floor),
            (12, 5, 2, 3)
        );
        assert_eq!((c.missed, c.not_reached), (1, 1));
        assert_eq!(outcome.taken_ns(), (70, 80));
    }
}
