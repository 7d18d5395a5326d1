// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's trace events beside the loops, in an instance of our own.
//!
//! It is read when a round is over, so the loops are not disturbed by that;
//! what they do notice is that the kernel writes an entry as it goes in and
//! out. When a buffer is full the oldest entries are overwritten: of what was
//! before the first that is left nothing is known.

mod entries;
mod processes;

use std::collections::HashMap;

use sandbag_linux::tracefs::Instance;
use sandbag_linux::tracefs::ring::PageLayout;
use sandbag_linux::{CpuList, Error, Root};

use super::scale::Scale;
use crate::attribution::{Mark, Merger};
use crate::causes::{AttributionMethod, AttributionSummary, CpuCauses, NoiseOrigin};
use crate::{Fault, LoopClock, Result, Span, TraceEvent};
use entries::Entries;
use processes::Processes;
use sandbag_linux::counter::Moment;

/// Records what the kernel does on some CPUs.
#[derive(Debug)]
pub struct Tracer {
    instance: Instance,
    layout: PageLayout,
    entries: Entries,
    /// Stamps are nanoseconds of `CLOCK_MONOTONIC_RAW`, not counts.
    is_raw: bool,
    round: Round,
    /// Lost so far, by CPU.
    lost: HashMap<u32, u64>,
    about: AttributionSummary,
    processes: Processes,
}

/// The ends of a round by both clocks.
#[derive(Debug, Clone, Copy)]
struct Round {
    from: Moment,
    until: Moment,
}

impl Round {
    /// Counts at a stamp of the other clock.
    fn counts(&self, raw_ns: u64) -> u64 {
        let since = raw_ns as f64 - self.from.raw_ns as f64;
        let rate = self.from.rate(self.until) / 1e9;
        self.from
            .counts
            .saturating_add_signed((since * rate).round() as i64)
    }
}

impl Tracer {
    /// Sets an instance up; nothing is traced yet.
    ///
    /// # Errors
    /// The kernel lacks what is needed, or memory.
    pub fn new(instance: Instance, cpus: &CpuList, buffer_kib: u64) -> Result<Self> {
        let clocks = instance.clocks().map_err(Fault::Kernel)?;
        let wanted = match LoopClock::OWN {
            LoopClock::Tsc => &["x86-tsc", "mono_raw"][..],
            _ => &["mono_raw"],
        };
        let clock = wanted
            .iter()
            .find(|name| clocks.iter().any(|clock| clock == *name));
        let clock = *clock.ok_or_else(|| {
            missing(
                "a clock that the loop can read",
                &format!("this kernel's trace clocks are {}", clocks.join(" ")),
            )
        })?;
        let mut this = Self {
            layout: instance.layout().map_err(Fault::Kernel)?,
            entries: Entries::default(),
            is_raw: clock == "mono_raw",
            round: Round {
                from: Moment::now(),
                until: Moment::now(),
            },
            lost: HashMap::new(),
            about: AttributionSummary {
                method: AttributionMethod::Tracefs,
                clock: Some(clock.to_owned()),
                ..AttributionSummary::default()
            },
            processes: Processes::default(),
            instance,
        };
        this.set_up(clock, cpus, buffer_kib)
            .map_err(Fault::Kernel)?;
        Ok(this)
    }

    fn set_up(
        &mut self,
        clock: &str,
        cpus: &CpuList,
        buffer_kib: u64,
    ) -> sandbag_linux::Result<()> {
        self.instance.set_clock(clock)?;
        self.instance.set_cpus(cpus, buffer_kib)?;
        for (option, on) in [
            ("overwrite", true),
            // Nothing that would make entries longer or dearer.
            ("stacktrace", false),
            ("userstacktrace", false),
            ("record-cmd", false),
            ("record-tgid", false),
        ] {
            self.instance.set_option(option, on)?;
        }
        self.about.buffer_kib = self.instance.buffer_kib()?;
        self.entries = Entries::enable(&self.instance)?;
        Ok(())
    }

    /// Before the loops begin.
    pub(super) fn round_begins(&mut self) -> Result<()> {
        self.instance.set_on(true).map_err(Fault::Kernel)?;
        if self.is_raw {
            self.round.from = Moment::now();
        }
        Ok(())
    }

    /// When they have ended.
    pub(super) fn round_ended(&mut self) -> Result<()> {
        if self.is_raw {
            self.round.until = Moment::now();
        }
        Ok(self.instance.set_on(false).map_err(Fault::Kernel)?)
    }

    /// What caused the events that the loop of this thread found in the last
    /// round.
    pub(super) fn causes(
        &mut self,
        cpu: u32,
        thread: u32,
        span: Span,
        events: &[TraceEvent],
        scale: Scale,
    ) -> Result<CpuCauses> {
        let lost = self.instance.lost(cpu).map_err(Fault::Kernel)?.all();
        let before = self.lost.insert(cpu, lost).unwrap_or(0);
        let lost = lost.saturating_sub(before);
        self.about.lost += lost;
        let mut merger = Merger::new(span, events);
        let mut is_torn = lost > 0;
        let mut entries = 0;
        let (is_raw, round) = (self.is_raw, self.round);
        let ns = |stamp: u64| {
            if is_raw {
                scale.since_begin(round.counts(stamp))
            } else {
                scale.since_begin(stamp)
            }
        };
        let (known, layout) = (&mut self.entries, self.layout);
        let taken = self.instance.take(cpu, &layout, |bytes| {
            let page = layout.page(bytes);
            if page.missed() || is_torn {
                merger.lost(ns(page.begins_at()));
                is_torn = false;
            }
            for record in page {
                entries += 1;
                if let Some(what) = known.mark_kind(thread, record) {
                    merger.mark(Mark {
                        at_ns: ns(record.at),
                        what,
                    });
                }
            }
        });
        taken.map_err(Fault::Kernel)?;
        if is_torn {
            // Not one is left.
            merger.lost(span.until_ns);
        }
        self.about.entries += entries;
        self.processes
            .look(&Root::default(), self.entries.sources());
        let merged = merger.finish();
        self.about.outside += merged.outside;
        Ok(CpuCauses::new(cpu, merged.known, merged.causes))
    }

    pub(super) fn sources(&self) -> &[NoiseOrigin] {
        self.entries.sources()
    }

    /// Entries that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.about.lost
    }

    /// What is to be said of it at the end.
    pub(super) fn about(&self) -> AttributionSummary {
        AttributionSummary {
            processes: self.processes.all().to_vec(),
            ..self.about.clone()
        }
    }
}

fn missing(what: &str, remedy: &str) -> Fault {
    Fault::Kernel(Error::Missing {
        what: what.to_owned(),
        remedy: remedy.to_owned(),
    })
}

#[cfg(test)]
mod tests;
