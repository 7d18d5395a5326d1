// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter verify` inside a program: on each CPU a process of sandbag suffers by the
//! library's timers and records at the same time ([`collector`]).

use std::os::fd::AsFd as _;
use std::process::Child;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbag_linux::clock;
use sandbag_linux::stop_signals::StopSignals;
use sandbag_ui::Result;
use sandbag_ui::failure::Context as _;

use crate::inside::collector::{self, CollectorReport, CollectorSetup};
use crate::inside::library::LibraryDir;
use crate::inside::overhead::Overhead;
use crate::inside::plan::{InsideOptions, PlanFile, Portion};
use crate::replay::outcome::RankOutcome;
use crate::replay::{Error, PlanColumn, PlannedEvent};
use crate::verify::{CpuRow, ReplayTrace, VerifyRun, due_within, observed};

/// From the start of the processes to the beginning, ns.
const START_NS: u64 = 300_000_000;

/// Replays with the safeguards by the measured overhead, or without.
///
/// # Errors
/// A process cannot be started, or fails; a signal asks to end.
pub fn inside(
    run: &VerifyRun<'_>,
    safeguards: Option<Overhead>,
    signals: &StopSignals,
) -> Result<ReplayTrace> {
    let (portions, length_ns) = run.portions();
    // All that a process is to suffer is a column of its own.
    let columns: Vec<PlanColumn> = portions
        .iter()
        .map(|portion| PlanColumn {
            known_ns: length_ns,
            events: clip(due_within(portion, length_ns), length_ns),
        })
        .collect();
    let portions: Vec<Portion> = (0..columns.len())
        .map(|column| Portion::whole(column, length_ns))
        .collect();
    let place = LibraryDir::make(None, 0)?;
    let options = InsideOptions {
        ranked: u32::try_from(portions.len()).unwrap_or(u32::MAX),
        ..Overhead::guarded(safeguards, true, true)
    };
    let mut file = PlanFile::create(&place.plan(), &columns, &portions, &options)?;
    let begin_ns = clock::monotonic() + run.ahead_ns(START_NS);
    file.begin(begin_ns)?;
    let mut started = ChildGroup(Vec::new());
    for (rank, cpu) in run.cpus.iter().enumerate() {
        let setup = CollectorSetup {
            cpu: Some(*cpu),
            real_time: run.real_time,
            begin_ns: Some(begin_ns),
            length_ns,
            threshold_ns: run.threshold_ns.ceil() as u64,
            room: run.room,
        };
        let process = collector::start(setup, file.path(), rank);
        started
            .0
            .push(process.context("start a process that suffers")?);
    }
    for process in &started.0 {
        await_report(process, signals)?;
    }
    let reports = started.0.drain(..).map(collector::finish);
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    let booked = file.outcome()?;
    let known_ns = reports
        .iter()
        .map(|one| one.until_ns.saturating_sub(one.from_ns));
    let known_ns = known_ns.sum::<u64>() / reports.len().max(1) as u64;
    let rows = run.cpus.iter().zip(columns).zip(reports).zip(0u32..);
    let cpus = rows.map(|(((cpu, column), report), rank)| {
        let slot = booked.slots.iter().find(|slot| slot.rank == Some(rank));
        let suffered = slot.map(|slot| slot.suffered.clone());
        row(*cpu, column.events, report, suffered.unwrap_or_default())
    });
    Ok(ReplayTrace {
        method: "timer",
        length_ns,
        known_ns,
        cpus: cpus.collect(),
        measured: Vec::new(),
    })
}

/// Judged for the time in which the process recorded.
fn row(
    cpu: u32,
    events: Vec<PlannedEvent>,
    report: CollectorReport,
    suffered: RankOutcome,
) -> CpuRow {
    let asked = events.len() as u64;
    let known = [(report.from_ns, report.until_ns)];
    let gaps = report.gaps.iter();
    CpuRow {
        cpu,
        outcome: accounted(suffered, asked),
        asked: observed(events.into_iter(), &known),
        until_ns: report.until_ns,
        seen: gaps
            .map(|gap| PlannedEvent::new(gap.begin_ns, gap.length_ns))
            .collect(),
    }
}

/// Waits until a process ends or has something to say.
fn await_report(process: &Child, signals: &StopSignals) -> Result<()> {
    let descriptor = signals.descriptor().context("wait for signals")?;
    let Some(output) = &process.stdout else {
        return Ok(());
    };
    loop {
        let mut both = [
            PollFd::new(descriptor.as_fd(), PollFlags::POLLIN),
            PollFd::new(output.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut both, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(cause) => return Err(cause).context("poll"),
            Ok(_) if both[0].any().unwrap_or(true) => return Err(Error::Interrupted.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Kills those that were started if one cannot be.
struct ChildGroup(Vec<Child>);

impl Drop for ChildGroup {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Ends events with the run.
fn clip(events: impl Iterator<Item = PlannedEvent>, length_ns: u64) -> Vec<PlannedEvent> {
    let clip = |event: PlannedEvent| {
        PlannedEvent::new(event.due_ns, event.length_ns.min(length_ns - event.due_ns))
    };
    events.map(clip).collect()
}

/// With the events that were asked for; those that were cut came late because the
/// process did not run.
fn accounted(mut outcome: RankOutcome, asked: u64) -> RankOutcome {
    let counts = &mut outcome.counts;
    counts.asked = asked;
    counts.not_reached = asked.saturating_sub(counts.decided());
    counts.away = counts.cut;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::outcome::EventCounts;

    #[test]
    fn events_end_with_the_run() {
        let event = PlannedEvent::new;
        let events = [event(0, 5), event(90, 50)];
        assert_eq!(clip(events.into_iter(), 100), [event(0, 5), event(90, 10)]);
    }

    #[test]
    fn what_was_due_while_nothing_was_recorded_is_not_asked_for() {
        let event = PlannedEvent::new;
        let events = vec![event(0, 5), event(20, 5), event(40, 5), event(90, 10)];
        let report = CollectorReport {
            from_ns: 10,
            until_ns: 40,
            gaps: Vec::new(),
        };
        let row = row(0, events, report, RankOutcome::default());
        assert_eq!(row.asked, [event(20, 5)]);
        assert_eq!((row.until_ns, row.outcome.counts.asked), (40, 4));
    }

    #[test]
    fn every_event_is_accounted_for() {
        let counts = EventCounts {
            injected: 5,
            merged: 2,
            below_floor: 3,
            missed: 1,
            cut: 1,
            ..EventCounts::default()
        };
        let outcome = RankOutcome {
            counts,
            ..RankOutcome::default()
        };
        let counts = accounted(outcome, 12).counts;
        assert_eq!((counts.asked, counts.not_reached, counts.away), (12, 1, 1));
    }
}
