// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From samples at deadlines to rows of a profile.

use std::collections::BTreeSet;
use std::io::Write;

use sandbag_linux::CpuList;
use sandbag_linux::procstat::{ProcStat, StatSample, tick_ns};
use sandbag_profile::native::Writer;
use sandbag_profile::{Begin, Format, ProfileHeader, Step};

use crate::record::notes::{NoteWriter, meaning};
use crate::record::track::{CommandTime, RecordTrack};
use crate::record::{
    CommandClock, Error, MIN_INTERVAL_NS, RecordClock, RecordOptions, RecordReport, Result, Wake,
};

/// Where the CPUs' counters come from.
pub trait StatSource {
    fn sample_into(&mut self, into: &mut StatSample) -> sandbag_linux::Result<()>;

    fn tick_ns(&self) -> u64;
}

impl StatSource for ProcStat {
    fn sample_into(&mut self, into: &mut StatSample) -> sandbag_linux::Result<()> {
        Self::sample_into(self, into)
    }

    fn tick_ns(&self) -> u64 {
        tick_ns()
    }
}

/// A recording that has not begun.
#[derive(Debug)]
pub struct Recorder<S, C> {
    source: S,
    clock: C,
    options: RecordOptions,
    cpus: CpuList,
    sample: StatSample,
}

impl<S: StatSource, C: RecordClock> Recorder<S, C> {
    pub fn new(mut source: S, clock: C, options: RecordOptions) -> Result<Self> {
        let mut sample = StatSample::default();
        source.sample_into(&mut sample)?;
        let online = || sample.cpus.iter().map(|(cpu, _)| *cpu).collect();
        let cpus = options.cpus.clone().unwrap_or_else(online);
        Ok(Self {
            source,
            clock,
            options,
            cpus,
            sample,
        })
    }

    /// The CPUs that are recorded, ascending; a [`CommandClock`] is to be
    /// made for these.
    pub fn cpus(&self) -> &CpuList {
        &self.cpus
    }

    /// Records to `out` until the duration has run out or the clock says
    /// stop. Each row is one `write` and one `flush`. With the clock of a
    /// command the opposing load is recorded; its group must outlive the
    /// recording.
    ///
    /// A sample that comes late ends its row where it was taken, not where it
    /// should have been; the rows that follow keep to the first grid of
    /// deadlines, and a deadline less than half an interval away is left out.
    /// The counters cannot be read or the rows cannot be written; the rows
    /// before that stay, without an end row.
    pub fn run<W: Write>(
        mut self,
        out: W,
        command: Option<Box<dyn CommandClock>>,
    ) -> Result<RecordReport> {
        let cost_before = self.clock.cpu_ns();
        let begin_ns = self.clock.now_ns();
        let suspended_before_ns = self.clock.suspended_ns();
        let counts_steal = command.as_ref().map(|c| c.counts_steal());
        let mut writer = self.writer(out, counts_steal)?;
        let mut rows = RecorderRows::new(&self.cpus, &self.options, self.source.tick_ns(), command);
        self.source.sample_into(&mut self.sample)?;
        rows.start(&self.sample)?;

        let mut pace = Pace::new(&self.options, self.source.tick_ns());
        let mut unrecorded = BTreeSet::new();
        let mut stopped = false;
        let mut dropped_ns = 0;
        let mut samples = 0;
        while let (false, Some(due_ns)) = (stopped, pace.due_ns()) {
            let wake = self
                .clock
                .wait_until(begin_ns + due_ns)
                .map_err(Error::Wait)?;
            let now_ns = self.clock.now_ns() - begin_ns;
            stopped = wake == Wake::Stopped;
            if stopped && samples > 0 && now_ns < pace.row_began_ns + MIN_INTERVAL_NS {
                dropped_ns = now_ns.saturating_sub(pace.row_began_ns);
                break;
            }
            self.source.sample_into(&mut self.sample)?;
            let (start_ns, end_ns) = if stopped {
                pace.cut(now_ns)
            } else {
                pace.sampled(now_ns)
            };
            let step = rows.step(start_ns, end_ns, &self.sample)?;
            writer
                .step(step)
                .and_then(|()| writer.flush())
                .map_err(Error::Output)?;
            samples += 1;
            if self.options.cpus.is_none() {
                let online = self.sample.cpus.iter().map(|(cpu, _)| *cpu);
                unrecorded.extend(online.filter(|cpu| !self.cpus.contains(*cpu)));
            }
        }
        writer.finish().map_err(Error::Output)?;
        Ok(RecordReport {
            samples,
            late: pace.late,
            missed: pace.missed,
            worst_late_ns: pace.worst_late_ns,
            length_ns: pace.row_began_ns,
            dropped_ns,
            suspended_ns: self
                .clock
                .suspended_ns()
                .saturating_sub(suspended_before_ns),
            stopped,
            cpu_ns: self.clock.cpu_ns() - cost_before,
            cpus: rows.tracks.iter().map(RecordTrack::report).collect(),
            unrecorded: unrecorded.into_iter().collect(),
        })
    }

    fn writer<W: Write>(
        &self,
        out: W,
        command_counts_steal: Option<bool>,
    ) -> Result<Writer<NoteWriter<W>>> {
        let mut header = ProfileHeader::new(self.cpus.iter().collect(), Format::Native);
        header.host.clone_from(&self.options.host);
        let date = self.clock.date();
        let to_ms = date.round(jiff::Unit::Millisecond).unwrap_or(date);
        header.begins_at = Some(Begin::Utc(to_ms));
        let steal_as_load = self.options.steal_as_load;
        let notes = meaning(steal_as_load, command_counts_steal);
        let out = NoteWriter::new(out, &notes);
        let interval_ns = Some(self.options.interval_ns);
        Writer::new(out, &header, !steal_as_load, interval_ns).map_err(Error::Output)
    }
}

/// Deadlines, in nanoseconds since the beginning.
#[derive(Debug)]
struct Pace {
    interval_ns: u64,
    duration_ns: Option<u64>,
    /// A sample that is not later than this is on time: the counters do not
    /// tell more.
    tolerance_ns: u64,
    next: u64,
    /// End of the last row, begin of the one that is being recorded.
    row_began_ns: u64,
    late: u64,
    missed: u64,
    worst_late_ns: u64,
}

impl Pace {
    fn new(options: &RecordOptions, tick_ns: u64) -> Self {
        Self {
            interval_ns: options.interval_ns,
            duration_ns: options.duration_ns,
            tolerance_ns: tick_ns.min(options.interval_ns / 10),
            next: 1,
            row_began_ns: 0,
            late: 0,
            missed: 0,
            worst_late_ns: 0,
        }
    }

    /// When the next sample is due; `None` at the end.
    fn due_ns(&self) -> Option<u64> {
        let grid_ns = self.next * self.interval_ns;
        let least_ns = self.row_began_ns + MIN_INTERVAL_NS;
        match self.duration_ns {
            Some(end_ns) if end_ns <= self.row_began_ns => None,
            // What a late sample leaves is too short for a row.
            Some(end_ns) if end_ns < least_ns => Some(least_ns),
            Some(end_ns) if end_ns < grid_ns + MIN_INTERVAL_NS => Some(end_ns),
            _ => Some(grid_ns),
        }
    }

    fn sampled(&mut self, now_ns: u64) -> (u64, u64) {
        let due_ns = self.due_ns().unwrap_or(now_ns);
        let late_ns = now_ns.saturating_sub(due_ns);
        self.worst_late_ns = self.worst_late_ns.max(late_ns);
        if late_ns <= self.tolerance_ns {
            self.next += 1;
            return self.cut(due_ns);
        }
        self.late += 1;
        let next = (now_ns + self.interval_ns / 2).div_ceil(self.interval_ns);
        let next = next.max(self.next + 1);
        let last = self
            .duration_ns
            .map_or(u64::MAX, |end| end / self.interval_ns);
        self.missed += next.min(last + 1).saturating_sub(self.next + 1);
        self.next = next;
        self.cut(now_ns)
    }

    fn cut(&mut self, end_ns: u64) -> (u64, u64) {
        let start_ns = self.row_began_ns;
        self.row_began_ns = end_ns.max(start_ns + 1);
        (start_ns, self.row_began_ns)
    }
}

/// All CPUs, and the command, from sample to sample.
struct RecorderRows {
    tracks: Vec<RecordTrack>,
    command: Option<Box<dyn CommandClock>>,
    command_ns: Vec<Option<u64>>,
    step: Step,
}

impl RecorderRows {
    fn new(
        cpus: &CpuList,
        options: &RecordOptions,
        tick_ns: u64,
        command: Option<Box<dyn CommandClock>>,
    ) -> Self {
        let track = |cpu| RecordTrack::new(cpu, tick_ns, options.steal_as_load);
        Self {
            tracks: cpus.iter().map(track).collect(),
            command,
            command_ns: vec![None; cpus.len()],
            step: Step {
                start_ns: 0,
                end_ns: 0,
                cells: Vec::with_capacity(cpus.len()),
            },
        }
    }

    fn start(&mut self, sample: &StatSample) -> Result<()> {
        let counts_steal = self.read_command()?;
        for (track, ns) in self.tracks.iter_mut().zip(&self.command_ns) {
            track.start(sample.get(track.cpu()), command_time(*ns, counts_steal));
        }
        Ok(())
    }

    fn step(&mut self, start_ns: u64, end_ns: u64, sample: &StatSample) -> Result<&Step> {
        let counts_steal = self.read_command()?;
        let tracks = self.tracks.iter_mut().zip(&self.command_ns);
        self.step.start_ns = start_ns;
        self.step.end_ns = end_ns;
        self.step.cells.clear();
        self.step.cells.extend(tracks.map(|(track, ns)| {
            track.next(sample.get(track.cpu()), command_time(*ns, counts_steal))
        }));
        Ok(&self.step)
    }

    /// Reads the command's clock, if there is one, and says whether it counts
    /// steal.
    fn read_command(&mut self) -> Result<Option<bool>> {
        let Some(command) = &mut self.command else {
            return Ok(None);
        };
        command.per_cpu_ns(&mut self.command_ns)?;
        Ok(Some(command.counts_steal()))
    }
}

fn command_time(ns: Option<u64>, counts_steal: Option<bool>) -> Option<CommandTime> {
    counts_steal.map(|counts_steal| CommandTime { ns, counts_steal })
}

#[cfg(test)]
mod tests;
