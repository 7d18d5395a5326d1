// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From records to sampling passes, and from these to samples.

use crate::number::NS_PER_S;
use crate::reader::{Input, Lines};
use crate::{BoxSteps, Error, Fault, Result};

use super::super::counters::CpuState;
use super::super::frame::import_samples;
use super::super::sample::{ImportSample, ImportSummary, Samples};
use super::super::timeline;
use super::loads::PcpLoads;
use super::reading::{FAMILY, NEEDED, PcpReading};
use super::records::{Event, Records};

/// pmlogger may write one sampling pass as several records, up to 0.4 s apart.
/// They are one pass as long as no value comes twice.
const LONGEST_PASS_NS: i64 = NS_PER_S as i64 / 2;

const CLOCKS_CHANGED: &str = "; if clocks were changed there (summer time, a clock set back), \
                              export the parts before and after it apart, or with `-Z UTC`";

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

pub(super) fn open<R: Records + 'static>(
    input: &Input<'_>,
    records: fn(Lines) -> R,
) -> Result<BoxSteps> {
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
                remedy: CLOCKS_CHANGED,
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
        about.warnings.extend(self.loads.warnings());
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

    fn remedy_for_times(&self) -> &'static str {
        CLOCKS_CHANGED
    }
}
