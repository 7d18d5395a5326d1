// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of the kernel's osnoise tracer, as text of `trace`, of `trace-cmd report` or of
//! `rtla osnoise -t`.
//!
//! The tracer's loop reads the clock as ours does: an entry `sample_threshold` is an
//! event. The entries `irq_noise`, `softirq_noise`, `nmi_noise` and `thread_noise` are its
//! causes; in a file without `sample_threshold` they are the events. The ring buffer drops
//! entries when it is full: nothing is known of that time.

use std::collections::BTreeSet;

use sandbag_input::Head;

use super::event_set::{Coverage, EventSet};
use super::input::{Input, JitterRecording};
use super::noises::Noises;
use super::number::MAX_NS;
use super::{ftrace, number};
use crate::causes::{NoiseOrigin, SourceKind};
use crate::{Fault, Result, TraceEvent};

const SAMPLE: &str = "sample_threshold";
const CAUSES: [(&str, SourceKind); 4] = [
    ("irq_noise", SourceKind::Irq),
    ("softirq_noise", SourceKind::Softirq),
    ("nmi_noise", SourceKind::Nmi),
    ("thread_noise", SourceKind::Task),
];

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines();
    lines.any(|line| ftrace::entry(line, |rest| kind(rest).is_some()).is_some())
}

/// Name and text of an entry of the tracer; `None` for other lines.
fn kind(rest: &str) -> Option<(&str, &str)> {
    let (name, text) = rest.split_once(':')?;
    let is_cause = CAUSES.iter().any(|(cause, _)| *cause == name);
    (name == SAMPLE || is_cause).then(|| (name, text.trim()))
}

/// The source of a noise: before the last `start` stands `NAME:NUMBER`, or nothing for an
/// NMI.
fn source(name: &str, text: &str) -> Option<NoiseOrigin> {
    let (_, kind) = CAUSES.iter().find(|(cause, _)| *cause == name)?;
    let origin = text
        .rsplit_once(" start ")
        .map_or("", |(origin, _)| origin.trim());
    let number = |text| u32::try_from(number::whole(text)?).ok();
    let parts = origin.rsplit_once(':');
    let parts = parts.and_then(|(name, text)| Some((name, number(text)?)));
    let (name, number) = parts.map_or((origin, None), |(name, number)| (name, Some(number)));
    let kind = match (kind, number) {
        (SourceKind::Task, Some(0)) => SourceKind::Idle,
        _ => *kind,
    };
    let name = if name.is_empty() { "nmi" } else { name };
    Some(NoiseOrigin::new(kind, name, number))
}

/// `... start SECONDS duration N ns`, and of a sample the number of its causes. Before it
/// stands the name of the cause, which may hold any text.
fn stretch(text: &str) -> Option<TraceEvent> {
    let mut words = text.split_whitespace().rev().peekable();
    if words
        .next_if(|word| number::whole(word).is_some())
        .is_some()
    {
        words
            .next()
            .filter(|word| word.starts_with("interference"))?;
    }
    let unit_ns = match words.next()? {
        "ns" => 1,
        "us" => 1000,
        _ => return None,
    };
    let length = number::whole(words.next()?)?;
    words.next().filter(|word| *word == "duration")?;
    let start_ns = number::seconds(words.next()?)?;
    words.next().filter(|word| *word == "start")?;
    Some(TraceEvent::new(start_ns, length.checked_mul(unit_ns)?))
}

/// The CPU of a line that says that entries of it were lost:
/// `CPU:2 [LOST 12 EVENTS]`, `CPU:2 [12 EVENTS DROPPED]`.
fn cpu_of_loss(line: &str) -> Option<u32> {
    let (cpu, what) = line.trim().strip_prefix("CPU:")?.split_once(' ')?;
    let is_loss = what.contains("EVENTS") && (what.contains("LOST") || what.contains("DROPPED"));
    number::cpu(cpu).filter(|_| is_loss)
}

/// Whether the header says that the buffer did not hold all entries.
fn is_overwritten(line: &str) -> bool {
    let numbers = line.strip_prefix("# entries-in-buffer/entries-written:");
    let numbers = numbers.and_then(|rest| rest.split_whitespace().next()?.split_once('/'));
    numbers.is_some_and(|(held, written)| held != written)
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let (mut samples, mut causes) = (EventSet::default(), EventSet::default());
    let mut noises = Noises::default();
    // CPUs that lost entries since their last sample, and since their last other entry,
    // which stands in where there are no samples.
    let mut lost_on = [BTreeSet::new(), BTreeSet::new()];
    // Each CPU has a buffer of its own; a full one begins at a time of its own.
    let mut seen = BTreeSet::new();
    let (mut losses, mut coverage) = (0u64, Coverage::AllCpus);
    while let Some((place, line)) = input.lines.next_line()? {
        let entry = ftrace::entry(line, |rest| kind(rest).is_some());
        let entry = entry.and_then(|(cpu, rest)| Some((cpu, kind(rest)?)));
        let Some((cpu, (name, text))) = entry else {
            if is_overwritten(line) {
                coverage = Coverage::EachCpu;
            }
            if let Some(cpu) = cpu_of_loss(line) {
                for lost in &mut lost_on {
                    lost.insert(cpu);
                }
                losses += 1;
            }
            continue;
        };
        seen.insert(cpu);
        let event =
            stretch(text).ok_or_else(|| place.expected("`start SECONDS duration N ns`", text))?;
        if let Some(source) = source(name, text) {
            noises.add(cpu, event, source);
        }
        if name == SAMPLE {
            if lost_on[0].remove(&cpu) {
                samples.lost(cpu, event.start_ns);
            }
            samples.add(cpu, event, place)?;
        } else if samples.is_empty() {
            if lost_on[1].remove(&cpu) {
                causes.lost(cpu, event.start_ns);
            }
            causes.add(cpu, event, place)?;
        }
    }
    // The tracer looks at a CPU, too, where nothing took as long as a sample has to be. Of a
    // full buffer it is not known when.
    if coverage == Coverage::AllCpus && !samples.is_empty() {
        seen.iter().for_each(|cpu| samples.looked_at(*cpu));
    }
    let mut warnings = Vec::new();
    let [of_samples, of_causes] = lost_on;
    let (mut all, what, lost_on) = if samples.is_empty() {
        warnings.push(format!(
            "the file has no entry of {SAMPLE}: events are the interrupts and tasks themselves, \
             with their own time only, without that of others inside"
        ));
        (causes, "noise entries", of_causes)
    } else {
        samples.noises = Some(noises).filter(|noises| !noises.is_empty());
        (samples, SAMPLE, of_samples)
    };
    for cpu in lost_on {
        all.lost(cpu, MAX_NS);
    }
    if losses > 0 {
        warnings.push(format!(
            "the tracer lost entries {losses} times: nothing is known of these stretches of time"
        ));
    }
    let whole = input.whole();
    let trace = all.trace(format!("osnoise ({what})"), coverage, warnings, whole);
    trace.map_err(|error| match *error.fault {
        Fault::NothingKnown => whole.expected("entries of osnoise", ""),
        _ => error,
    })
}
