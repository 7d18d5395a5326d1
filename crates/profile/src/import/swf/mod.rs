// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Job logs in the Standard Workload Format of the Parallel Workloads
//! Archive, version 2.2: comments that describe the machine, then a line of
//! 18 numbers per job, -1 where one is not known.
//!
//! ```text
//! ; UnixStartTime: 749458803
//! ; MaxProcs: 128
//!     1   1460     12   3726  128  3500  -1  -1  -1  -1 -1  1  1 -1 -1 -1 -1 -1
//! ```
//!
//! A job holds its processors from submit + wait on for its run time. Which
//! ones it had is not recorded, and models do not say when it began either:
//! [`schedule`](crate::schedule()) decides that. The log is read twice, once
//! for its machine and its order ([`Survey`]), once for its jobs
//! ([`InOrder`]).

mod order;
mod row;
#[cfg(test)]
mod tests;

use crate::number::{MAX_CPU, NS_PER_S, whole};
use crate::reader::{ImportReader, Input, Lines};
use crate::{Begin, BoxSteps, Fault, Format, Job, ProfileHeader, Result, Step, Steps};
use sandbag_input::head::{Head, words};
use sandbag_ui::quantity::Seconds;

use order::InOrder;
use row::{FIELDS, LoggedJob, SwfRow};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Swf,
    looks_like,
    open,
};

/// Comments after `;` with a label of the format, or 18 numbers.
fn looks_like(head: &Head<'_>) -> bool {
    let mut jobs = head.lines().filter(|line| !line.starts_with(b";"));
    match jobs.next() {
        Some(line) => {
            let mut fields = words(line);
            fields.clone().count() == FIELDS
                && fields.all(|field| {
                    let digits = field.strip_prefix(b"-").unwrap_or(field);
                    digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
                })
        }
        None => head.lines().any(|line| {
            let labels = [&b"MaxJobs"[..], b"MaxProcs", b"MaxNodes", b"UnixStartTime"];
            labels.iter().any(|name| label(line, name).is_some())
        }),
    }
}

/// What stands after `; NAME:`, up to the next blank.
fn label<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let text = line.trim_ascii_start().strip_prefix(b";")?;
    let text = text.trim_ascii_start().strip_prefix(name)?;
    words(text.trim_ascii_start().strip_prefix(b":")?).next()
}

/// A submit time beyond this, in 1985, counts from 1970 and not from the
/// beginning of the log.
const EPOCH_NS: u64 = 500_000_000 * NS_PER_S;

#[derive(Debug, Default)]
struct Survey {
    max_procs: Option<u64>,
    max_nodes: Option<u64>,
    unix_start_s: Option<u64>,
    host: Option<String>,
    jobs: u64,
    left_out: u64,
    parts: u64,
    /// Jobs without a wait time.
    no_wait: u64,
    /// Jobs that used more CPU time than they ran.
    over: u64,
    largest: u32,
    first_submit_ns: u64,
    last_submit_ns: u64,
    /// How much earlier than the latest one before it a job was submitted, at
    /// most.
    disorder_ns: u64,
    first_start_ns: u64,
    /// A warning of a last line that was left out.
    cut: Option<String>,
}

impl Survey {
    fn of(mut lines: Lines) -> Result<Self> {
        let mut found = Self {
            first_submit_ns: u64::MAX,
            first_start_ns: u64::MAX,
            ..Self::default()
        };
        while let Some(line) = lines.next_whole_line()? {
            match SwfRow::parse(line) {
                Ok(SwfRow::Job(job)) => found.job(&job),
                Ok(SwfRow::LeftOut) => found.left_out += 1,
                Ok(SwfRow::Part) => found.parts += 1,
                Ok(SwfRow::Comment) => found.comment(line),
                Err(fault) => return Err(lines.here(fault)),
            }
        }
        found.cut = lines.cut_warning();
        if found.jobs == 0 {
            return Err(lines.nowhere(match (found.left_out, found.parts) {
                (0, 0) => Fault::wrong_format(Format::Swf, "it holds no job, a line of 18 numbers"),
                (0, n) => Fault::lacks(
                    Format::Swf,
                    format!("its {n} lines are of parts of jobs, with status 2 to 4, not of jobs"),
                ),
                (n, _) => Fault::lacks(
                    Format::Swf,
                    format!("none of its {n} jobs has processors and a run time"),
                ),
            }));
        }
        Ok(found)
    }

    fn comment(&mut self, line: &[u8]) {
        let number = |name: &[u8]| label(line, name).and_then(whole).filter(|n| *n > 0);
        self.max_procs = self.max_procs.or_else(|| number(b"MaxProcs"));
        self.max_nodes = self.max_nodes.or_else(|| number(b"MaxNodes"));
        self.unix_start_s = self.unix_start_s.or_else(|| number(b"UnixStartTime"));
        if self.host.is_none() && label(line, b"Computer").is_some() {
            let name = line.splitn(2, |b| *b == b':').nth(1).unwrap_or_default();
            self.host = Some(String::from_utf8_lossy(name.trim_ascii()).into_owned());
        }
    }

    fn job(&mut self, job: &LoggedJob) {
        self.jobs += 1;
        self.no_wait += u64::from(job.wait_ns.is_none());
        self.over += u64::from(job.cpu_time_ns.is_some_and(|ns| ns > job.run_ns));
        self.largest = self.largest.max(job.procs);
        self.first_submit_ns = self.first_submit_ns.min(job.submit_ns);
        self.first_start_ns = self.first_start_ns.min(job.start_ns());
        self.disorder_ns = self
            .disorder_ns
            .max(self.last_submit_ns.saturating_sub(job.submit_ns));
        self.last_submit_ns = self.last_submit_ns.max(job.submit_ns);
    }

    /// Where the profile begins, on the clock of the submit times, and the
    /// date of that.
    fn begin(&self) -> (u64, Option<Begin>) {
        let utc = |ns: u64| jiff::Timestamp::from_nanosecond(i128::from(ns)).ok();
        if self.first_submit_ns >= EPOCH_NS {
            let begin_ns = self.first_submit_ns;
            return (begin_ns, utc(begin_ns).map(Begin::Utc));
        }
        let ns = self.unix_start_s.and_then(|s| s.checked_mul(NS_PER_S));
        (0, ns.and_then(utc).map(Begin::Utc))
    }

    /// On how many CPUs the jobs run.
    fn cpus(&self, input: &Input<'_>) -> Result<u32> {
        let asked = input.options.spread.map(|spread| spread.cpus);
        let logged = self.max_procs.or(self.max_nodes);
        let cpus = asked.map_or(logged.unwrap_or(self.largest.into()), u64::from);
        match u32::try_from(cpus) {
            Ok(cpus) if cpus <= MAX_CPU => Ok(cpus),
            _ => Err((input.lines)()?.nowhere(Fault::TooManyCpus(cpus))),
        }
    }

    fn warnings(&self, begin_ns: u64) -> Vec<String> {
        let mut all: Vec<String> = self.cut.iter().cloned().collect();
        if self.left_out > 0 {
            all.push(format!(
                "{} of {} jobs have no processors or no run time and were left out",
                self.left_out,
                self.left_out + self.jobs
            ));
        }
        if self.parts > 0 {
            all.push(format!(
                "{} lines are of parts of jobs (status 2 to 4) and were left out; the line of \
                 the whole job was taken",
                self.parts
            ));
        }
        if self.no_wait > 0 {
            all.push(format!(
                "of {} of {} jobs it is not known when they began; \
                 they begin when they were submitted or, if no CPU is free, when one is",
                self.no_wait, self.jobs
            ));
        }
        if self.over > 0 {
            all.push(format!(
                "{} jobs used more CPU time than they ran; their load was cut to 100",
                self.over
            ));
        }
        let idle_ns = self.first_start_ns.saturating_sub(begin_ns);
        if idle_ns >= 3600 * NS_PER_S {
            all.push(format!(
                "no job runs before {}; what is before may be cut off",
                Seconds(idle_ns)
            ));
        }
        all
    }
}

fn open(input: &Input<'_>) -> Result<BoxSteps> {
    let survey = Survey::of((input.lines)()?)?;
    input.check_machine(survey.host.as_deref())?;
    let cpus = survey.cpus(input)?;
    let (begin_ns, begins_at) = survey.begin();
    let header = ProfileHeader {
        host: survey.host.clone(),
        begins_at,
        ..ProfileHeader::new((0..cpus).collect(), Format::Swf)
    };
    let jobs = InOrder::new((input.lines)()?, survey.disorder_ns);
    let jobs = jobs.map(move |job| {
        job.map(|job| Job {
            arrival_ns: job.start_ns().saturating_sub(begin_ns),
            runtime_ns: job.run_ns,
            cpus: job.procs,
            load_pct: job.load_pct(),
        })
    });
    Ok(Box::new(Log {
        warnings: survey.warnings(begin_ns),
        steps: crate::schedule(jobs, header, None),
    }))
}

/// The scheduled jobs, with what is to be said of the log.
struct Log {
    steps: BoxSteps,
    warnings: Vec<String>,
}

impl Steps for Log {
    fn header(&self) -> &ProfileHeader {
        self.steps.header()
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        self.steps.next_step()
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = self.warnings.clone();
        all.extend(self.steps.warnings());
        all
    }
}
