// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter record --attribute`: how causes are found, set up and undone.

use crate::collect::{Attribute, Tracer};
use clap::ValueEnum;
use sandbag_linux::{CpuList, Root, container};
use sandbag_run::trace_instance::TraceGuard;
use sandbag_ui::failure::Result;

use sandbag_ui::messages::Messages;

/// How to find out what caused the events
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttributeMethod {
    /// By tracefs where it can be had, else by /proc
    Auto,
    /// The kernel's trace events, in an instance of our own: each event to
    /// interrupt, soft interrupt, task, or hypervisor; needs root
    Tracefs,
    /// Counters of /proc before and after: how often, not which event
    Proc,
    /// Not at all
    None,
}

/// Memory of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Events of a round, per CPU.
    pub room: u64,
    /// The kernel's buffer of each CPU, KiB.
    pub buffer_kib: u64,
}

/// Bytes that an event takes in the room for a round: once as it is found,
/// once as it is written.
const BYTES_PER_EVENT: u64 = 32;
/// And its causes, two of them.
const BYTES_OF_CAUSES: u64 = 48;

impl Memory {
    /// Divides what may be used: half of it is the kernel's where it is to
    /// write down causes. A tick takes 32 bytes of that, a switch to another
    /// task and back 150.
    pub fn divide(bytes: u64, cpus: usize, is_traced: bool) -> Self {
        let each = bytes / cpus.max(1) as u64;
        let (events, per_event, kernel) = if is_traced {
            (each / 2, BYTES_PER_EVENT + BYTES_OF_CAUSES, each / 2)
        } else {
            (each, BYTES_PER_EVENT, 0)
        };
        Self {
            room: (events / per_event).max(1),
            buffer_kib: kernel >> 10,
        }
    }
}

/// What was set up; dropping it undoes that.
#[derive(Debug)]
pub struct TraceSetup {
    pub attribute: Option<Attribute>,
    guard: Option<TraceGuard>,
}

impl TraceSetup {
    /// Whether the kernel writes causes down.
    pub fn is_traced(&self) -> bool {
        matches!(self.attribute, Some(Attribute::Tracefs(_)))
    }

    fn without_trace(attribute: Attribute) -> Self {
        Self {
            attribute: Some(attribute),
            guard: None,
        }
    }
}

impl Drop for TraceSetup {
    fn drop(&mut self) {
        // Its files are closed first.
        drop(self.attribute.take());
        let left = self.guard.as_mut().map_or_else(Vec::new, TraceGuard::end);
        for left in left {
            Messages::error(&format!("could not undo: {left}"));
        }
    }
}

/// Sets up what is asked for, in the kernel too; `max_memory` is for all CPUs,
/// bytes.
///
/// # Errors
/// What is asked for cannot be had; with `auto` the next best is.
pub fn prepare(
    how: AttributeMethod,
    root: &Root,
    cpus: &CpuList,
    max_memory: u64,
    messages: &Messages,
) -> Result<TraceSetup> {
    let why = match how {
        AttributeMethod::None => return Ok(TraceSetup::without_trace(Attribute::None)),
        AttributeMethod::Proc => None,
        AttributeMethod::Tracefs | AttributeMethod::Auto => {
            match trace_setup(root, cpus, max_memory, messages) {
                Ok(prepared) => return Ok(prepared),
                Err(error) if how == AttributeMethod::Tracefs => {
                    return Err(sandbag_run::Error::NotPossible {
                        what: format!("causes cannot be had from the kernel ({error})"),
                        remedy: "--attribute proc is the nearest: counts, for anybody".to_owned(),
                    }
                    .into());
                }
                Err(error) => {
                    messages.say(&format!(
                        "causes are known as counts of /proc only, not of each event: {error}"
                    ));
                    Some(format!("{error}"))
                }
            }
        }
    };
    Ok(TraceSetup::without_trace(Attribute::Proc { why }))
}

/// An instance of ours, in the journal before it is made.
fn trace_setup(
    root: &Root,
    cpus: &CpuList,
    max_memory: u64,
    messages: &Messages,
) -> Result<TraceSetup> {
    if container::has_own_numbers(root) {
        return Err(sandbag_run::Error::NotPossible {
            what: "the kernel's entries have other process numbers than this container".to_owned(),
            remedy: "give it those of the machine (podman, docker: --pid=host)".to_owned(),
        }
        .into());
    }
    let (instance, guard, restored) = TraceGuard::make(root, "jitter record")?;
    for dead in restored {
        if !dead.left.is_empty() {
            messages.warning(&format!(
                "could not undo all that sandbag process {} left: {}",
                dead.pid,
                dead.left.join("; ")
            ));
        }
    }
    let mut prepared = TraceSetup {
        attribute: None,
        guard: Some(guard),
    };
    let memory = Memory::divide(max_memory, cpus.len(), true);
    let tracer = Tracer::new(instance, cpus, memory.buffer_kib)?;
    prepared.attribute = Some(Attribute::Tracefs(Box::new(tracer)));
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_buffers_are_part_of_the_memory() {
        let mib = 1 << 20;
        let plain = Memory::divide(256 * mib, 2, false);
        assert_eq!((plain.room, plain.buffer_kib), (4 << 20, 0));
        let traced = Memory::divide(256 * mib, 2, true);
        assert_eq!(traced.buffer_kib, 64 << 10);
        assert!(traced.room * 80 <= 64 * mib && traced.room > 800_000);
        let little = Memory::divide(mib, 1000, true);
        assert_eq!((little.room, little.buffer_kib), (6, 0));
    }
}
