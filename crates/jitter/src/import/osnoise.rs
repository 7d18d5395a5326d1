// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of the kernel's osnoise tracer, as text of `trace`, of
//! `trace-cmd report`, or of `rtla osnoise -t`.
//!
//! The tracer's loop reads the clock as ours does; `sample_threshold` is what
//! it saw, so that is an event. The entries `irq_noise`, `softirq_noise`,
//! `nmi_noise` and `thread_noise` are what the kernel knows of its causes. In a
//! file without `sample_threshold` they are all there is, and are the events.
//!
//! The ring buffer drops entries when it is full: nothing is known of that
//! time.

use std::collections::BTreeSet;

use super::event_set::{Coverage, EventSet};
use super::noises::Noises;
use super::{FormatReader, Head, Input, JitterRecording, MAX_NS, ftrace, number};
use crate::attribution::{NoiseOrigin, SourceKind};
use crate::{Fault, Result, TraceEvent};

const SAMPLE: &str = "sample_threshold";
const CAUSES: [(&str, SourceKind); 4] = [
    ("irq_noise", SourceKind::Irq),
    ("softirq_noise", SourceKind::Softirq),
    ("nmi_noise", SourceKind::Nmi),
    ("thread_noise", SourceKind::Task),
];

pub(super) const READER: FormatReader = FormatReader {
    name: "events of osnoise (ftrace)",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines();
    lines.any(|line| ftrace::entry(line, |rest| kind(rest).is_some()).is_some())
}

/// The kind of an entry of the tracer and what it says; `None` for others.
fn kind(rest: &str) -> Option<(&str, &str)> {
    let (name, said) = rest.split_once(':')?;
    let is_cause = CAUSES.iter().any(|(cause, _)| *cause == name);
    (name == SAMPLE || is_cause).then(|| (name, said.trim()))
}

/// Who made a noise: what stands before the last `start`, `NAME:NUMBER`, or
/// nothing for an interrupt that cannot be masked.
fn source(name: &str, said: &str) -> Option<NoiseOrigin> {
    let (_, kind) = CAUSES.iter().find(|(cause, _)| *cause == name)?;
    let who = said
        .rsplit_once(" start ")
        .map_or("", |(who, _)| who.trim());
    let parts = who.rsplit_once(':');
    let number = parts.and_then(|(_, number)| number::whole(number)?.try_into().ok());
    let who = match parts {
        Some((name, _)) if number.is_some() => name,
        _ => who,
    };
    Some(NoiseOrigin {
        kind: match (kind, number) {
            (SourceKind::Task, Some(0)) => SourceKind::Idle,
            _ => *kind,
        },
        name: if who.is_empty() { "nmi" } else { who }.to_owned(),
        number,
    })
}

/// `... start SECONDS duration N ns`, and of a sample the number of its causes.
/// Before it stands the name of the cause, which may hold anything.
fn stretch(said: &str) -> Option<TraceEvent> {
    let mut words = said.split_whitespace().rev().peekable();
    if words
        .peek()
        .is_some_and(|word| number::whole(word).is_some())
    {
        words.next();
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
    Some(TraceEvent {
        start_ns,
        length_ns: length.checked_mul(unit_ns)?,
    })
}

/// The CPU of a line that says that entries of it were lost:
/// `CPU:2 [LOST 12 EVENTS]`, `CPU:2 [12 EVENTS DROPPED]`.
fn loss_count(line: &str) -> Option<u32> {
    let (cpu, what) = line.trim().strip_prefix("CPU:")?.split_once(' ')?;
    let says_so = what.contains("EVENTS") && (what.contains("LOST") || what.contains("DROPPED"));
    number::cpu(cpu).filter(|_| says_so)
}

/// Whether the header says that the buffer did not hold everything.
fn overwritten(line: &str) -> bool {
    let numbers = line.strip_prefix("# entries-in-buffer/entries-written:");
    let numbers = numbers.and_then(|rest| rest.split_whitespace().next()?.split_once('/'));
    numbers.is_some_and(|(held, written)| held != written)
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let (mut samples, mut causes) = (EventSet::default(), EventSet::default());
    let mut noises = Noises::default();
    let mut lost_on = BTreeSet::new();
    let (mut losses, mut is_overwritten) = (0u64, false);
    while let Some((place, line)) = input.lines.next_line()? {
        let Some((cpu, rest)) = ftrace::entry(line, |rest| kind(rest).is_some()) else {
            is_overwritten |= overwritten(line);
            if let Some(cpu) = loss_count(line) {
                lost_on.insert(cpu);
                losses += 1;
            }
            continue;
        };
        let Some((name, said)) = kind(rest) else {
            continue;
        };
        let event =
            stretch(said).ok_or_else(|| place.expected("`start SECONDS duration N ns`", said))?;
        let is_sample = name == SAMPLE;
        if let Some(source) = source(name, said) {
            noises.add(cpu, event, source);
        }
        if !is_sample && !samples.is_empty() {
            continue;
        }
        let all = if is_sample { &mut samples } else { &mut causes };
        if is_sample && lost_on.remove(&cpu) {
            all.lost(cpu, event.start_ns);
        }
        all.event(cpu, event).map_err(|fault| place.fault(fault))?;
    }
    let mut warnings = Vec::new();
    let (mut all, what) = if samples.is_empty() {
        (causes, "noise entries")
    } else {
        (samples, SAMPLE)
    };
    if what != SAMPLE {
        warnings.push(format!(
            "the file has no entry of {SAMPLE}: events are the interrupts and tasks themselves, \
             of whose own time what others took inside it is left out"
        ));
    } else if !noises.is_empty() {
        all.noises = Some(noises);
    }
    for cpu in lost_on {
        all.lost(cpu, MAX_NS);
    }
    if losses > 0 {
        warnings.push(format!(
            "the tracer lost entries {losses} times: nothing is known of these stretches of time"
        ));
    }
    // Each CPU has a buffer of its own, and so another beginning.
    let known = if is_overwritten {
        Coverage::EachItsOwn
    } else {
        Coverage::AllAlike
    };
    warnings.push(format!(
        "the file does not say when events were looked for: {} is taken for it",
        match known {
            Coverage::EachItsOwn => "the time from the first to the last event of each CPU",
            _ => "the time from the first to the last event of all",
        }
    ));
    let whole = input.lines.whole();
    let trace = all.trace(format!("osnoise ({what})"), known, warnings);
    trace
        .map(JitterRecording::Trace)
        .map_err(|fault| match fault {
            Fault::NothingKnown => whole.expected("entries of osnoise", ""),
            fault => whole.fault(fault),
        })
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{message, trace};

    const TEXT: &str = "\
# tracer: osnoise
#
# entries-in-buffer/entries-written: 9/9   #P:8
#
       osnoise/8-961     [008] d.h.  10.000040: irq_noise: local_timer:236 start 10.000001000 duration 1845 ns
     migration/8-54      [008] d...  10.000041: thread_noise: a start 1.5 duration 2 ns:54 start 10.000003000 duration 3068 ns
       osnoise/8-961     [008] ....  10.000042: sample_threshold: start 10.000000555 duration 8812 ns interferences 2
       osnoise/9-962     [009] d..h2..  10.500000: softirq_noise:     SCHED:7 start 10.499990000 duration 104 ns
       osnoise/9-962     [009] .......  10.500001: sample_threshold: start 10.499980000 duration 30 us interference 1
          <idle>-0       [009] .......  10.500001: sched_switch: prev_comm=x ==> next_comm=y
CPU:9 [LOST 12 EVENTS]
       osnoise/9-962     [009] .......  11.000000: sample_threshold: start 10.999000000 duration 5000 ns interference 0
";

    #[test]
    fn samples_are_events_and_the_others_their_causes() {
        let t = trace(TEXT);
        assert_eq!(t.header.cpus, [8, 9]);
        assert_eq!(t.header.recorder, "osnoise (sample_threshold)");
        let [a, b] = &t.cpus[..] else { panic!() };
        assert_eq!((a.events[0].start_ns, a.events[0].length_ns), (0, 8812));
        assert_eq!(b.events[0].start_ns, 499_979_445);
        assert_eq!(b.events[0].length_ns, 30_000);
        assert_eq!(a.known.len(), 1);
        // Nothing is known between the second and the third sample of CPU 9.
        assert_eq!(b.known.len(), 2);
        assert_eq!(b.known[0].until_ns, b.events[0].end_ns());
        assert!(t.warnings[0].contains("lost entries 1 times"));
        let attribution = t.attribution.as_ref().unwrap();
        let named: Vec<_> = attribution
            .cpus
            .iter()
            .flat_map(|cpu| cpu.causes.iter().map(|cause| (cpu.cpu, *cause)))
            .map(|(cpu, cause)| {
                let source = &attribution.sources[cause.source as usize];
                (
                    cpu,
                    source.name.as_str(),
                    source.number,
                    cause.start_ns,
                    cause.length_ns,
                )
            })
            .collect();
        assert_eq!(
            named,
            [
                (8, "local_timer", Some(236), 445, 1845),
                (8, "a start 1.5 duration 2 ns", Some(54), 2445, 3068),
                (9, "SCHED", Some(7), 499_989_445, 104),
            ]
        );
        assert_eq!(attribution.cpus[1].known, b.known);
    }

    #[test]
    fn without_samples_the_causes_are_events() {
        let only: String = TEXT
            .lines()
            .filter(|line| line.contains("[008]") && !line.contains("sample"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        let t = trace(&only);
        assert_eq!(t.cpus[0].events.len(), 2);
        assert_eq!(t.cpus[0].events[1].length_ns, 3068);
        assert!(t.warnings[0].contains("no entry of sample_threshold"));
    }

    #[test]
    fn a_full_buffer_began_elsewhere_on_each_cpu() {
        let t = trace(&TEXT.replace("9/9", "9/20"));
        assert_eq!(t.cpus[0].known_ns(), 8812);
    }

    #[test]
    fn an_entry_that_says_something_else_is_named() {
        let text = TEXT.replace("duration 8812 ns", "duration many ns");
        let got = message(&text);
        assert!(
            got.starts_with("in:7: expected `start SECONDS duration N ns`"),
            "{got}"
        );
    }
}
