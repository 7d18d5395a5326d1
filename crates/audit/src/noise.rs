// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The noise test: on all CPUs at once a loop that only looks at the clock, and
//! the share of time in which it did not get to look.

use std::time::Duration;

use sandbag_jitter::attribution::{RowSubject, by_cpu};
use sandbag_jitter::collect::{self, Attribute, Tracer};
use sandbag_jitter::{Fault, LoopClock, TraceHeader, format};
use sandbag_linux::{CpuList, Root};
use sandbag_run::trace_instance::TraceGuard;

use crate::error::Halt;
use crate::memory_room;
use crate::suspects::NoiseSource;

/// Room for events of a CPU: one in so long a time...
const EVENT: Duration = Duration::from_micros(8);
/// ...and at most.
const ROOM: usize = 200_000;
/// Bytes of an event.
const EVENT_BYTES: u64 = 16;
/// Of the kernel's buffer for each CPU.
const BUFFER_KIB: u64 = 8 << 10;
/// Loops warm so long.
const PREHEAT: Duration = Duration::from_millis(5);

/// What a look came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NoiseShares {
    /// By CPU: for how long it was looked at, ns, and how much of that was noise,
    /// percent.
    pub cpus: Vec<(u32, u64, f64)>,
    /// Causes by the trace events of the kernel, where it was traced.
    pub blamed: Vec<NoiseSource>,
}

impl NoiseShares {
    /// CPUs that could not be looked at.
    fn unknown(cpus: &CpuList) -> Self {
        Self {
            cpus: cpus.iter().map(|cpu| (cpu, 0, 0.0)).collect(),
            blamed: Vec::new(),
        }
    }
}

fn halt(error: sandbag_jitter::Error) -> Halt {
    match *error.fault {
        Fault::Displaced(cpu) => Halt::offline(cpu),
        _ => Halt::Failed(error.to_string()),
    }
}

/// What is known after a look without a trace: nothing, if other programs had all CPUs all the
/// time, or if we were stopped (Ctrl-Z, a suspend). Causes are not known then, which is an error.
fn of_failure(
    error: sandbag_jitter::Error,
    cpus: &CpuList,
    traced: bool,
) -> Result<NoiseShares, Halt> {
    match *error.fault {
        Fault::NothingKnown | Fault::Absent if !traced => Ok(NoiseShares::unknown(cpus)),
        _ => Err(halt(error)),
    }
}

/// Room for the events of a CPU in so long a look.
fn events_room(duration: Duration) -> usize {
    let most = duration.as_nanos() / EVENT.as_nanos();
    usize::try_from(most).unwrap_or(ROOM).clamp(1, ROOM)
}

/// Refuses to take more memory than there is `free` for: the kernel would kill the audit for it.
fn check_room(cpus: usize, events: usize, traced: bool, free: u64) -> Result<(), Halt> {
    let buffer = if traced { BUFFER_KIB << 10 } else { 0 };
    let each = (events as u64).saturating_mul(EVENT_BYTES) + buffer;
    let needed = (cpus as u64).saturating_mul(each);
    if needed <= free.saturating_sub(memory_room::reserve(free)) {
        return Ok(());
    }
    Err(Halt::Failed(format!(
        "events of {cpus} CPUs need {} MiB, of {} MiB that are free: take fewer CPUs (--cpus), or \
         other tests (--tests)",
        needed.div_ceil(1 << 20),
        free >> 20
    )))
}

/// Looks for so long; where `traced`, with the kernel's trace events beside.
pub(crate) fn look(
    root: &Root,
    cpus: &CpuList,
    duration: Duration,
    traced: bool,
) -> Result<NoiseShares, Halt> {
    if let Ok(free) = memory_room::room(root) {
        check_room(cpus.len(), events_room(duration), traced, free)?;
    }
    let options = collect::CollectOptions {
        cpus: cpus.clone(),
        duration,
        events: None,
        round: Some(duration),
        threshold: collect::Threshold::TimesLeast,
        preheat: PREHEAT,
        room: events_room(duration),
        real_time: None,
    };
    let header = TraceHeader {
        recorder: "sandbag audit".to_owned(),
        host: None,
        kernel: None,
        began_s: None,
        clock: LoopClock::OWN,
        cpus: cpus.iter().collect(),
        real_time: None,
    };
    let mut bytes = Vec::new();
    let into = &mut bytes;
    let recorded = if traced {
        // Until the files of the instance are closed.
        let (attribute, _guard) = trace(root, cpus).map_err(Halt::Failed)?;
        collect::record_with(
            &options,
            &header,
            attribute,
            || Ok(into),
            &Default::default(),
        )
    } else {
        collect::record(&options, &header, || Ok(into), &Default::default())
    };
    match recorded {
        Ok(_) => {}
        Err(error) => return of_failure(error, cpus, traced),
    }
    let trace = format::read(&bytes[..]).map_err(halt)?;
    let mut looked = NoiseShares::default();
    for cpu in &trace.cpus {
        let known_ns = cpu.known_ns();
        let pct = |ns: u64| ns as f64 / known_ns.max(1) as f64 * 100.0;
        looked.cpus.push((cpu.cpu, known_ns, pct(cpu.noise_ns())));
        let rows = trace.attribution.as_deref().map(|known| by_cpu(cpu, known));
        for row in rows.unwrap_or_default() {
            if let RowSubject::Known { kind, name } = row.who {
                looked.blamed.push(NoiseSource {
                    cpu: cpu.cpu,
                    kind: kind.name().to_owned(),
                    name,
                    pct: pct(row.net_ns),
                    per_s: row.times as f64 / (known_ns.max(1) as f64 / 1e9),
                });
            }
        }
    }
    Ok(looked)
}

fn trace(root: &Root, cpus: &CpuList) -> Result<(Attribute, TraceGuard), String> {
    // What of dead runs could not be undone a load would say.
    let (instance, guard, _) = TraceGuard::make(root, "audit").map_err(|e| e.to_string())?;
    let tracer = Tracer::new(instance, cpus, BUFFER_KIB).map_err(|e| e.to_string())?;
    Ok((Attribute::Tracefs(Box::new(tracer)), guard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_has_a_share() {
        let cpus = sandbag_linux::sched::affinity(0).unwrap();
        let cpus: CpuList = cpus.iter().take(2).collect();
        let length = Duration::from_millis(30);
        let looked = look(&Root::default(), &cpus, length, false).unwrap();
        assert_eq!(looked.cpus.len(), cpus.len());
        for (_, known_ns, pct) in looked.cpus {
            // How long it could look depends on who else runs.
            assert!(known_ns == 0 || (0.0..=100.0).contains(&pct));
        }
    }

    #[test]
    fn a_look_takes_no_memory_that_is_not_there() {
        // Room for a timer of 10 kHz many times over.
        let events = events_room(Duration::from_millis(160));
        assert_eq!(events, 20_000);
        assert_eq!(events_room(Duration::from_secs(60)), ROOM);
        assert_eq!(events_room(Duration::from_nanos(1)), 1);
        let refused = |cpus, traced, free| {
            let outcome = check_room(cpus, events, traced, free);
            outcome.err().map(|halt| halt.to_string())
        };
        assert_eq!(refused(256, false, 512 << 20), None);
        let said = "events of 1024 CPUs need 313 MiB, of 400 MiB that are free: take fewer CPUs \
                    (--cpus), or other tests (--tests)";
        assert_eq!(refused(1024, false, 400 << 20).as_deref(), Some(said));
        // The kernel's buffers.
        let said = refused(256, true, 512 << 20).unwrap();
        assert!(said.contains("256 CPUs need 2127 MiB"), "{said}");
        assert_eq!(refused(256, true, 4 << 30), None);
    }

    #[test]
    fn of_a_look_in_which_we_were_stopped_nothing_is_known() {
        let cpus = "0-1".parse().unwrap();
        let after = |fault: Fault, traced| of_failure(fault.into(), &cpus, traced);
        assert_eq!(after(Fault::Absent, false), Ok(NoiseShares::unknown(&cpus)));
        assert!(matches!(after(Fault::Absent, true), Err(Halt::Failed(_))));
        let displaced = after(Fault::Displaced(1), false);
        assert_eq!(displaced, Err(Halt::offline(1)));
    }

    #[test]
    fn without_time_to_look_nothing_is_known_of_any_cpu() {
        let cpus = sandbag_linux::sched::affinity(0).unwrap();
        let looked = look(&Root::default(), &cpus, Duration::from_nanos(1), false).unwrap();
        assert_eq!(looked, NoiseShares::unknown(&cpus));
    }
}
