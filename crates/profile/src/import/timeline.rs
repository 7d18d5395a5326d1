// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From stamped samples to contiguous steps.

use crate::number::NS_PER_S;
use crate::{Fault, ProfileHeader, Result, Step, Steps};
use sandbag_ui::quantity::Seconds;

use super::sample::{BoxSamples, ImportSample};

pub(super) struct Timeline {
    samples: BoxSamples,
    header: ProfileHeader,
    begin_ns: i64,
    /// A sample that is longer is the mean of a pause, and no load.
    longest_ns: u64,
    /// End of the last step, in the file's clock.
    last_ns: i64,
    sample: ImportSample,
    /// A sample that was read and whose step follows a hole.
    held: bool,
    done: bool,
    counts: TimelineCounts,
}

#[derive(Debug, Default)]
struct TimelineCounts {
    /// The first sample does not say when it began.
    no_start: bool,
    duplicates: u64,
    first_duplicate_ns: u64,
    holes: u64,
    hole_ns: u64,
    overlaps: u64,
    absent_ns: u64,
    /// Samples that are an hour longer than usual.
    long_hours: HourCount,
    /// Samples that are an hour shorter than usual, or have the stamp of the one before.
    short_hours: HourCount,
    /// Holes of an hour, and pauses that are an hour longer than usual.
    unknown_hours: HourCount,
    impossible: u64,
    pauses: u64,
    pause_ns: u64,
    /// Begin and length of the longest.
    longest_pause_ns: (u64, u64),
}

/// Where local clocks may have been set by an hour.
#[derive(Debug, Default)]
struct HourCount {
    count: u64,
    first_ns: u64,
}

impl HourCount {
    /// Counts what begins at `start_ns` if its length is an hour within the resolution.
    fn add(&mut self, start_ns: u64, length_ns: u64, slack_ns: i64) {
        let slack_ns = u64::try_from(slack_ns).unwrap_or(0);
        if length_ns.abs_diff(HOUR_NS) <= slack_ns.max(NS_PER_S) {
            if self.count == 0 {
                self.first_ns = start_ns;
            }
            self.count += 1;
        }
    }

    fn warning(&self, what: &str, remedy: &str) -> Option<String> {
        let first = Seconds(self.first_ns);
        (self.count > 0).then(|| format!("{} {what}, the first at {first}{remedy}", self.count))
    }
}

/// A sample more than this many times as long as the median is a pause: the
/// recorder or the machine stood still.
const PAUSE: u64 = 10;

/// How far local clocks are set forward when summer time begins.
const HOUR_NS: u64 = 3600 * NS_PER_S;

impl Timeline {
    /// `usual_ns` is the median length of a sample.
    pub(super) fn new(
        samples: BoxSamples,
        header: ProfileHeader,
        begin_ns: i64,
        usual_ns: Option<u64>,
    ) -> Self {
        Self {
            samples,
            header,
            begin_ns,
            longest_ns: usual_ns.map_or(u64::MAX, |ns| ns.saturating_mul(PAUSE)),
            last_ns: begin_ns,
            sample: ImportSample::default(),
            held: false,
            done: false,
            counts: TimelineCounts::default(),
        }
    }

    fn since_begin(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_sub(self.begin_ns)).unwrap_or(0)
    }

    fn step(&mut self) -> Result<Option<Step>> {
        loop {
            if std::mem::take(&mut self.held) {
                return Ok(Some(self.sample_step()));
            }
            if !self.samples.next_sample(&mut self.sample)? {
                return Ok(None);
            }
            let end_ns = self.sample.end_ns;
            if end_ns == self.begin_ns && self.sample.start_ns.is_none() {
                self.counts.no_start = true;
                continue;
            }
            if end_ns == self.last_ns {
                let at_ns = self.since_begin(end_ns);
                if self.counts.duplicates == 0 {
                    self.counts.first_duplicate_ns = at_ns;
                }
                let usual_ns = self.longest_ns / PAUSE;
                let hours = &mut self.counts.short_hours;
                hours.add(at_ns, usual_ns, self.sample.slack_ns);
                self.counts.duplicates += 1;
                continue;
            }
            if end_ns < self.last_ns {
                return Err(self.samples.here(Fault::TimesGoBack {
                    now: stamp(end_ns),
                    last: stamp(self.last_ns),
                    remedy: self.samples.remedy_for_times(),
                }));
            }
            let start_ns = self.sample.start_ns.unwrap_or(self.last_ns);
            if start_ns < self.last_ns.saturating_sub(self.sample.slack_ns) {
                self.counts.overlaps += 1;
            }
            // A sample may say that it began after its own end; it did not.
            let start_ns = start_ns.min(end_ns - 1);
            if start_ns.saturating_sub(self.last_ns) > self.sample.slack_ns {
                let hole = self.hole(start_ns);
                self.held = true;
                return Ok(Some(hole));
            }
            return Ok(Some(self.sample_step()));
        }
    }

    fn advance(&mut self, to_ns: i64) -> (u64, u64) {
        let times = (self.since_begin(self.last_ns), self.since_begin(to_ns));
        self.last_ns = to_ns;
        times
    }

    fn hole(&mut self, until_ns: i64) -> Step {
        let (start_ns, end_ns) = self.advance(until_ns);
        self.counts.holes += 1;
        self.counts.hole_ns = self.counts.hole_ns.saturating_add(end_ns - start_ns);
        let slack_ns = self.sample.slack_ns;
        let hours = &mut self.counts.unknown_hours;
        hours.add(start_ns, end_ns - start_ns, slack_ns);
        Step {
            start_ns,
            end_ns,
            cells: vec![None; self.header.cpus.len()],
        }
    }

    fn sample_step(&mut self) -> Step {
        let (start_ns, end_ns) = self.advance(self.sample.end_ns);
        let mut cells = vec![None; self.header.cpus.len()];
        let length_ns = end_ns - start_ns;
        let usual_ns = self.longest_ns / PAUSE;
        let is_pause = length_ns > self.longest_ns;
        let hours = if is_pause {
            &mut self.counts.unknown_hours
        } else {
            &mut self.counts.long_hours
        };
        let longer_ns = length_ns.saturating_sub(usual_ns);
        hours.add(start_ns, longer_ns, self.sample.slack_ns);
        let shorter_ns = usual_ns.saturating_sub(length_ns);
        let hours = &mut self.counts.short_hours;
        hours.add(start_ns, shorter_ns, self.sample.slack_ns);
        if is_pause {
            self.counts.pauses += 1;
            self.counts.pause_ns = self.counts.pause_ns.saturating_add(length_ns);
            if length_ns > self.counts.longest_pause_ns.1 {
                self.counts.longest_pause_ns = (start_ns, length_ns);
            }
            return Step {
                start_ns,
                end_ns,
                cells,
            };
        }
        for (cpu, cell) in &self.sample.cells {
            if let Ok(at) = self.header.cpus.binary_search(cpu) {
                cells[at] = *cell;
            }
        }
        if cells.iter().any(Option::is_none) {
            self.counts.absent_ns = self.counts.absent_ns.saturating_add(end_ns - start_ns);
        }
        for cell in &mut cells {
            let impossible = cell.take_if(|cell| cell.load_pct.is_nan());
            self.counts.impossible += u64::from(impossible.is_some());
        }
        Step {
            start_ns,
            end_ns,
            cells,
        }
    }
}

/// A stamp for a message. Whether it is local time or UTC is the file's own.
pub(super) fn stamp(ns: i64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(t) => {
            let t = t.to_zoned(jiff::tz::TimeZone::UTC).datetime();
            format!("{} {}", t.date(), t.time())
        }
        Err(_) => format!("{} s", ns / NS_PER_S as i64),
    }
}

impl Steps for Timeline {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.done {
            return Ok(None);
        }
        let step = self.step();
        self.done = !matches!(step, Ok(Some(_)));
        step
    }

    fn warnings(&self) -> Vec<String> {
        let c = &self.counts;
        let about = self.samples.about();
        let mut all = about.warnings;
        if c.no_start {
            all.push("the first sample was left out; it does not say how long it took".into());
        }
        if c.duplicates > 0 {
            all.push(format!(
                "{} samples have the stamp of the one before and were left out; the first at {}",
                c.duplicates,
                Seconds(c.first_duplicate_ns)
            ));
        }
        if c.holes > 0 {
            all.push(format!(
                "the recording has {} holes, {} in all, in which no load is known",
                c.holes,
                Seconds(c.hole_ns)
            ));
        }
        if c.pauses > 0 {
            let (at_ns, length_ns) = c.longest_pause_ns;
            all.push(format!(
                "{} samples are more than {PAUSE} times as long as usual ({}), {} in all, the \
                 longest at {} for {}; a mean over a pause is no load, so that it is unknown there",
                c.pauses,
                Seconds(self.longest_ns / PAUSE),
                Seconds(c.pause_ns),
                Seconds(at_ns),
                Seconds(length_ns)
            ));
        }
        if about.local {
            let remedy = self.samples.remedy_for_times();
            let what = "samples are an hour longer than usual";
            all.extend(c.long_hours.warning(what, remedy));
            let what = "samples lack an hour of the usual length, as if clocks were set back";
            all.extend(c.short_hours.warning(what, remedy));
            let what = "holes or pauses are as long as if local clocks were set forward by an hour";
            let remedy = format!("{remedy}; `--gaps cut` leaves them out");
            all.extend(c.unknown_hours.warning(what, &remedy));
        }
        if c.absent_ns > 0 {
            all.push(format!(
                "in {} some CPU was offline or absent; its load is unknown there",
                Seconds(c.absent_ns)
            ));
        }
        if c.impossible > 0 {
            all.push(format!(
                "in {} samples a CPU's percentages cannot be (below 0, above 100, or more than \
                 100 together); its load is unknown there",
                c.impossible
            ));
        }
        if c.overlaps > 0 {
            all.push(format!(
                "{} samples claim to begin before the one before them ended; \
                 they were taken to begin there",
                c.overlaps
            ));
        }
        all
    }
}
