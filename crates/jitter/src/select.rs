// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of a trace: a stretch of time, some CPUs, long events only.

use crate::spans::common;
use crate::{CpuTrace, Fault, JitterTrace, Result, Span, TraceEvent};

/// What is to be left; by default everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// From there, ns since the begin of the trace.
    pub from_ns: Option<u64>,
    /// Until there.
    pub until_ns: Option<u64>,
    /// Kernel numbers; all of them have to be in the trace.
    pub cpus: Option<Vec<u32>>,
    /// Only events at least so long.
    pub above_ns: u64,
}

impl Selection {
    /// Whether it leaves everything as it is.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether only a distribution can be asked for it, too: times are not.
    pub fn needs_events(&self) -> bool {
        self.from_ns.is_some() || self.until_ns.is_some()
    }

    /// The part of a trace. Times remain what they are. An event on a border
    /// is not whole and is left out, with its time.
    ///
    /// # Errors
    /// Nothing is left, or a CPU is not in the trace.
    pub fn of(&self, mut trace: JitterTrace) -> Result<JitterTrace> {
        if let Some(wanted) = &self.cpus {
            if let Some(missing) = wanted.iter().find(|cpu| !trace.header.cpus.contains(cpu)) {
                let all: Vec<String> = trace.header.cpus.iter().map(u32::to_string).collect();
                let text = format!("CPU {missing} is not in it, only {}", all.join(", "));
                return Err(Fault::NothingSelected(text).into());
            }
            trace.header.cpus.retain(|cpu| wanted.contains(cpu));
            trace.cpus.retain(|cpu| wanted.contains(&cpu.cpu));
            if let Some(notes) = &mut trace.notes {
                notes.cpus.retain(|cpu| wanted.contains(&cpu.cpu));
            }
            if let Some(all) = &mut trace.attribution {
                all.cpus.retain(|cpu| wanted.contains(&cpu.cpu));
                all.about.counters.retain(|cpu| wanted.contains(&cpu.cpu));
            }
        }
        if self.needs_events() {
            let from_ns = self.from_ns.unwrap_or(0);
            let until_ns = self.until_ns.unwrap_or(u64::MAX);
            for cpu in &mut trace.cpus {
                cut(cpu, from_ns, until_ns);
            }
            if let Some(all) = &mut trace.attribution {
                // These are of the recording as a whole.
                all.about.counters.clear();
                for cpu in &mut all.cpus {
                    cpu.known = common(&cpu.known, &[Span { from_ns, until_ns }]);
                    cpu.causes
                        .retain(|cause| cause.start_ns >= from_ns && cause.end_ns() <= until_ns);
                }
            }
        }
        if trace.cpus.iter().all(|cpu| cpu.known_ns() == 0) {
            let end = "no time of it lies there in which events were looked for".to_owned();
            return Err(Fault::NothingSelected(end).into());
        }
        if self.above_ns > 0 {
            for cpu in &mut trace.cpus {
                cpu.events.retain(|event| event.length_ns >= self.above_ns);
            }
            let threshold = self.above_ns as f64;
            for cpu in trace.notes.iter_mut().flat_map(|notes| &mut notes.cpus) {
                cpu.threshold_ns = cpu.threshold_ns.max(threshold + cpu.least_ns);
            }
        }
        Ok(trace)
    }
}

impl JitterTrace {
    /// The same with all times moved such that `ns` becomes 0; nothing may be
    /// known before.
    pub fn beginning_at(mut self, ns: u64) -> Self {
        let moved = |at: &mut u64| *at = at.saturating_sub(ns);
        for cpu in &mut self.cpus {
            for span in &mut cpu.known {
                moved(&mut span.from_ns);
                moved(&mut span.until_ns);
            }
            for event in &mut cpu.events {
                moved(&mut event.start_ns);
            }
        }
        for cpu in self.attribution.iter_mut().flat_map(|all| &mut all.cpus) {
            for span in &mut cpu.known {
                moved(&mut span.from_ns);
                moved(&mut span.until_ns);
            }
            for cause in &mut cpu.causes {
                moved(&mut cause.start_ns);
            }
        }
        if let Some(began_s) = &mut self.header.began_s {
            *began_s += ns as f64 / 1e9;
        }
        self
    }
}

fn cut(cpu: &mut CpuTrace, mut from_ns: u64, mut until_ns: u64) {
    let across =
        |event: &&TraceEvent, border: u64| event.start_ns < border && event.end_ns() > border;
    if let Some(event) = cpu.events.iter().find(|event| across(event, from_ns)) {
        from_ns = event.end_ns();
    }
    if let Some(event) = cpu.events.iter().find(|event| across(event, until_ns)) {
        until_ns = event.start_ns;
    }
    cpu.events
        .retain(|event| event.start_ns >= from_ns && event.end_ns() <= until_ns);
    cpu.known = common(&cpu.known, &[Span { from_ns, until_ns }]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, SECOND, poisson};
    use crate::format;
    use crate::synth::Lengths;
    use proptest::prelude::*;

    fn trace(seed: u64) -> JitterTrace {
        let noise = poisson(1000.0, Lengths::exponential(100.0, 200_000.0));
        fixture::trace(2, SECOND, seed, vec![noise])
    }

    #[test]
    fn cpus_and_lengths() {
        let selection = Selection {
            cpus: Some(vec![1]),
            above_ns: 200_000,
            ..Selection::default()
        };
        let part = selection.of(trace(1)).unwrap();
        assert_eq!((part.cpus.len(), part.cpus[0].cpu), (1, 1));
        assert_eq!(part.header.cpus, [1]);
        assert!(
            part.cpus[0]
                .events
                .iter()
                .all(|event| event.length_ns >= 200_000)
        );
        assert_eq!(part.cpus[0].known_ns(), 1_000_000_000);
        let none = Selection {
            cpus: Some(vec![2]),
            ..Selection::default()
        };
        let error = none.of(trace(1)).unwrap_err().to_string();
        assert!(error.contains("CPU 2 is not in it, only 0, 1"), "{error}");
        let none = Selection {
            from_ns: Some(2_000_000_000),
            ..Selection::default()
        };
        assert!(none.of(trace(1)).is_err());
        assert_eq!(Selection::default().of(trace(1)).unwrap(), trace(1));
    }

    proptest! {
        #[test]
        fn a_stretch_of_time_is_a_trace(
            seed in 0u64..50, from in 0u64..999_000_000, length in 1u64..1_000_000_000,
        ) {
            let until = (from + length).min(1_000_000_000);
            let selection = Selection {
                from_ns: Some(from),
                until_ns: Some(until),
                ..Selection::default()
            };
            if let Ok(part) = selection.of(trace(seed)) {
                for (cpu, whole) in part.cpus.iter().zip(&trace(seed).cpus) {
                    let inside = whole.events.iter().filter(|event| {
                        event.start_ns >= from && event.end_ns() <= until
                    });
                    prop_assert_eq!(cpu.events.len(), inside.count());
                }
                let moved = part.clone().beginning_at(from);
                prop_assert_eq!(moved.cpus[0].known_ns(), part.cpus[0].known_ns());
                prop_assert!(format::write(&moved, Vec::new()).is_ok());
            }
        }
    }
}
