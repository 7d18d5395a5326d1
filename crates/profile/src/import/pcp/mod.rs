// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exports of Performance Co-Pilot: `pmrep -o csv`, `pcp2json` and
//! `pmdumplog`.
//!
//! All three hold values of `kernel.percpu.cpu.*`, instances `cpu0`, `cpu1`
//! ..., either the counters themselves (ms since boot) or their rates (ms/s).
//! Each format is a stream of [`Records`]; [`Passes`] makes samples of them.
//! What is in common: `docs/reference/formats/pcp.md`.

mod loads;
pub(super) mod pcp2json;
pub(super) mod pmdumplog;
pub(super) mod pmrep;
mod stamp;
#[cfg(test)]
mod tests;

use crate::number::{NS_PER_S, cpu_number, decimal};
use crate::reader::Input;
use crate::reader::Lines;
use crate::{BoxSteps, Error, Fault, Format, Result};

use super::counters::{CpuState, STATES};
use super::{ImportSample, ImportSummary, Samples, import_samples, timeline};

use loads::PcpLoads;

/// What the names of all metrics wanted here begin with.
const FAMILY: &str = "kernel.percpu.cpu.";

/// The metrics, in the order of [`CpuState`], without [`FAMILY`]. Passed over
/// are those that are parts or sums of these: guest and vuser (user), guest_nice
/// and vnice (nice), intr (irq.hard + irq.soft).
const METRICS: [(&str, CpuState); STATES] = [
    ("user", CpuState::User),
    ("nice", CpuState::Nice),
    ("sys", CpuState::System),
    ("idle", CpuState::Idle),
    ("wait.total", CpuState::Iowait),
    ("irq.hard", CpuState::Irq),
    ("irq.soft", CpuState::Softirq),
    ("steal", CpuState::Steal),
];

/// Without these there is no load.
const NEEDED: [CpuState; 3] = [CpuState::User, CpuState::System, CpuState::Idle];

/// The state that a metric counts; `None` for other metrics.
fn state(metric: &[u8]) -> Option<CpuState> {
    let name = metric.strip_prefix(FAMILY.as_bytes())?;
    let found = METRICS.iter().find(|(n, _)| n.as_bytes() == name);
    found.map(|(_, state)| *state)
}

/// The number in `cpu7`, an instance.
fn cpu_instance(name: &[u8]) -> Result<u32, Fault> {
    let number = name.strip_prefix(b"cpu").and_then(cpu_number);
    number.ok_or_else(|| Fault::syntax("an instance such as cpu0", name))
}

/// A counter or rate. `None` where there is none: PCP leaves out, or writes
/// as NaN or as 2^64, the rate of a counter that fell.
fn value(text: &[u8]) -> Result<Option<f64>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    match decimal(text) {
        Some(n) if n.is_nan() || n >= u64::MAX as f64 => Ok(None),
        Some(n) if n >= 0.0 => Ok(Some(n)),
        _ => Err(Fault::syntax("a counter in ms or a rate in ms/s", text)),
    }
}

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Counters,
    Rates,
}

/// By [`CpuState`].
type StateValues = [Option<f64>; STATES];

/// What was read of the CPUs at one stamp.
#[derive(Debug, Default)]
struct PcpReading {
    /// In ascending order.
    cpus: Vec<(u32, StateValues)>,
}

impl PcpReading {
    fn clear(&mut self) {
        self.cpus.clear();
    }

    fn find(&self, cpu: u32) -> Result<usize, usize> {
        self.cpus.binary_search_by_key(&cpu, |(there, _)| *there)
    }

    /// Puts a value in its place; false if one is there already, which stays.
    fn put(&mut self, cpu: u32, state: CpuState, value: f64) -> bool {
        let at = self.find(cpu).unwrap_or_else(|at| {
            self.cpus.insert(at, (cpu, StateValues::default()));
            at
        });
        let place = &mut self.cpus[at].1[state as usize];
        let free = place.is_none();
        place.get_or_insert(value);
        free
    }

    /// Whether both have a value of the same state of the same CPU.
    fn overlaps(&self, other: &Self) -> bool {
        other.cpus.iter().any(|(cpu, theirs)| {
            self.find(*cpu).is_ok_and(|at| {
                let both = self.cpus[at].1.iter().zip(theirs);
                both.clone().any(|(a, b)| a.is_some() && b.is_some())
            })
        })
    }

    /// Adds what the other has; false if they overlap, then ours stays.
    fn join(&mut self, other: &Self) -> bool {
        let mut free = true;
        for (cpu, values) in &other.cpus {
            for ((_, state), value) in METRICS.iter().zip(values) {
                if let Some(value) = value {
                    free &= self.put(*cpu, *state, *value);
                }
            }
        }
        free
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A record with its stamp, ns. It may hold no value.
    Values(i64),
    /// What follows does not continue what was before.
    Mark,
    End,
}

/// A file as a stream of records: one row, element or dumped record each.
trait Records: Send {
    const FORMAT: Format;
    /// What the user has to export, for a message.
    const REMEDY: &'static str;

    /// Reads the next record into `record`, which is empty before.
    fn next_record(&mut self, record: &mut PcpReading) -> Result<Event>;
    /// What the values are, as soon as there was one.
    fn kind(&self) -> Option<ValueKind>;
    /// Without warnings and whether there is steal.
    fn about(&self) -> ImportSummary;
    fn ahead_of_utc_ns(&self) -> i64 {
        0
    }
    /// The fault at the place last read.
    fn here(&self, fault: Fault) -> Error;
    /// The fault of the file as a whole.
    fn nowhere(&self, fault: Fault) -> Error;
}

/// pmlogger may write one sampling pass as several records, up to 0.4 s apart.
/// They are one pass as long as no value comes twice.
const LONGEST_PASS_NS: i64 = NS_PER_S as i64 / 2;

/// Records put together to sampling passes, and these to samples.
struct Passes<R> {
    records: R,
    loads: PcpLoads,
    now: PcpReading,
    /// A record that was read and belongs to the next pass, if `held`.
    record: PcpReading,
    held: Option<Event>,
    /// The stamp of the pass before.
    last_ns: Option<i64>,
    passes: u64,
    samples: u64,
    duplicates: u64,
}

fn open<R: Records + 'static>(input: &Input<'_>, records: fn(Lines) -> R) -> Result<BoxSteps> {
    import_samples(R::FORMAT, input, move |lines| Passes::new(records(lines)))
}

impl<R: Records> Passes<R> {
    fn new(records: R) -> Self {
        Self {
            records,
            loads: PcpLoads::default(),
            now: PcpReading::default(),
            record: PcpReading::default(),
            held: None,
            last_ns: None,
            passes: 0,
            samples: 0,
            duplicates: 0,
        }
    }

    /// Reads a pass into `now`; its stamp is that of its first record.
    fn next_pass(&mut self) -> Result<Event> {
        self.now.clear();
        let mut begun = None;
        loop {
            let event = match self.held.take() {
                Some(event) => event,
                None => {
                    self.record.clear();
                    self.records.next_record(&mut self.record)?
                }
            };
            match (event, begun) {
                (Event::Values(ns), None) => {
                    std::mem::swap(&mut self.now, &mut self.record);
                    begun = Some(ns);
                }
                (Event::Values(ns), Some(first)) if ns == first => {
                    self.duplicates += u64::from(!self.now.join(&self.record));
                }
                (Event::Values(ns), Some(first))
                    if ns > first
                        && ns.saturating_sub(first) <= LONGEST_PASS_NS
                        && !self.now.overlaps(&self.record) =>
                {
                    self.now.join(&self.record);
                }
                (_, Some(first)) => {
                    self.held = Some(event);
                    return Ok(Event::Values(first));
                }
                (_, None) => return Ok(event),
            }
        }
    }

    /// Passes of which no sample comes must be in order too: where a clock
    /// was set back, what belongs together is not known.
    fn check_order(&mut self, ns: i64) -> Result<()> {
        match self.last_ns.replace(ns) {
            Some(last_ns) if ns < last_ns => Err(self.records.here(Fault::TimesGoBack {
                now: timeline::stamp(ns),
                last: timeline::stamp(last_ns),
                remedy: "; if clocks were changed there (summer time, a clock set back), export \
                         the parts before and after it apart, or with `-Z UTC`",
            })),
            _ => Ok(()),
        }
    }

    /// What the file lacks, once it was read to its end.
    fn check(&self) -> Result<()> {
        let fault = match self.loads.lacks(&NEEDED) {
            Some(_) if self.loads.is_empty() => Fault::lacks(
                R::FORMAT,
                format!("it holds no value of {FAMILY}*; {}", R::REMEDY),
            ),
            Some(names) => Fault::lacks(
                R::FORMAT,
                format!(
                    "it lacks {names}, without which there is no load; {}",
                    R::REMEDY
                ),
            ),
            None if self.samples == 0 && self.passes == 1 => Fault::OneSnapshot,
            None => return Ok(()),
        };
        Err(self.records.nowhere(fault))
    }
}

impl<R: Records> Samples for Passes<R> {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        sample.cells.clear();
        loop {
            match self.next_pass()? {
                Event::Mark => self.loads.forget(),
                Event::End => {
                    self.check()?;
                    return Ok(false);
                }
                Event::Values(ns) => {
                    self.check_order(ns)?;
                    self.passes += u64::from(!self.now.cpus.is_empty());
                    let kind = self.records.kind();
                    if self.loads.take(&mut self.now, ns, kind, sample) {
                        self.samples += 1;
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn about(&self) -> ImportSummary {
        let mut about = self.records.about();
        about.has_steal = self.loads.have(CpuState::Steal);
        about.warnings = self.loads.warnings();
        if self.duplicates > 0 {
            about.warnings.push(format!(
                "{} records repeat values of the stamp before and were left out there; stamps \
                 are whole seconds, unless the tool is told otherwise",
                self.duplicates
            ));
        }
        about
    }

    fn ahead_of_utc_ns(&self) -> i64 {
        self.records.ahead_of_utc_ns()
    }

    fn here(&self, fault: Fault) -> Error {
        self.records.here(fault)
    }
}
