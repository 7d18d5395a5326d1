// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The causes of events in a trace.
//!
//! A [`Cause`] is the time from the entry into an interrupt or a task to the exit, within an
//! event. Causes are nested (an interrupt within a task) or disjoint.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::spans::Span;

/// Defines the kinds in the order of their codes in files, each with its name.
macro_rules! source_kinds {
    ($($(#[$about:meta])* $kind:ident = $name:literal,)*) => {
        /// What kind of thing had the CPU.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum SourceKind {
            $($(#[$about])* $kind,)*
        }

        impl SourceKind {
            /// All of them, in the order of their codes in files.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// What it is called.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

source_kinds! {
    /// An interrupt that cannot be masked.
    Nmi = "nmi",
    Irq = "irq",
    Softirq = "softirq",
    /// Another task.
    Task = "task",
    /// The idle task, as when a group has used up its quota.
    Idle = "idle",
    /// A page fault of the loop itself.
    Fault = "page fault",
}

/// Source of a cause.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NoiseOrigin {
    pub kind: SourceKind,
    /// The kernel's name for it: a handler, a vector, a task.
    pub name: String,
    /// Interrupt, vector or process, where it has a number.
    pub number: Option<u32>,
}

impl NoiseOrigin {
    pub fn new(kind: SourceKind, name: impl Into<String>, number: Option<u32>) -> Self {
        Self {
            kind,
            name: name.into(),
            number,
        }
    }
}

/// Names longer than this are cut; the kernel's own are far shorter.
pub const MAX_NAME: usize = 255;

/// Sources by number, each once.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    all: Vec<NoiseOrigin>,
    places: HashMap<NoiseOrigin, u32>,
}

impl Sources {
    /// The place of a source, which is the next free one if it is new.
    pub fn place(&mut self, mut source: NoiseOrigin) -> u32 {
        if let Some(place) = self.places.get(&source) {
            return *place;
        }
        if source.name.len() > MAX_NAME {
            let end = (0..=MAX_NAME)
                .rev()
                .find(|at| source.name.is_char_boundary(*at));
            source.name.truncate(end.unwrap_or(0));
        }
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let all = &mut self.all;
        *self.places.entry(source).or_insert_with_key(|source| {
            all.push(source.clone());
            next
        })
    }

    /// All, in the order of their places.
    pub fn all(&self) -> &[NoiseOrigin] {
        &self.all
    }
}

/// A stretch of an event in which something had the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// When it had been entered.
    pub start_ns: u64,
    /// Until it was left; its gross time.
    pub length_ns: u64,
    /// Place of its [`NoiseOrigin`].
    pub source: u32,
}

impl Cause {
    pub const fn new(start_ns: u64, length_ns: u64, source: u32) -> Self {
        Self {
            start_ns,
            length_ns,
            source,
        }
    }

    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

/// The causes of the events of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuCauses {
    pub cpu: u32,
    /// When the kernel was watched; ascending, without overlap.
    pub known: Vec<Span>,
    /// Ascending; of those that begin together the outer first.
    pub causes: Vec<Cause>,
}

impl CpuCauses {
    pub const fn new(cpu: u32, known: Vec<Span>, causes: Vec<Cause>) -> Self {
        Self { cpu, known, causes }
    }
}

/// How causes were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttributionMethod {
    /// The kernel's trace events, in an instance of our own.
    Tracefs,
    /// Counters in /proc before and after: of the recording as a whole, not of
    /// single events.
    #[default]
    Proc,
    /// The entries of an osnoise trace.
    Osnoise,
}

/// What is known of the attribution as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AttributionSummary {
    pub method: AttributionMethod,
    /// Why not better, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The clock of the kernel's stamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Memory of the kernel's buffers, KiB.
    #[serde(default)]
    pub buffer_kib: u64,
    /// Entries that the kernel wrote while the loops looked.
    #[serde(default)]
    pub entries: u64,
    /// Entries that were lost because a buffer was full.
    #[serde(default)]
    pub lost: u64,
    /// Interrupts and switches that lie in no event: shorter than what the
    /// loop calls one, or at the ends of a round.
    #[serde(default)]
    pub outside: u64,
    /// What /proc counted, by CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CpuCounters>,
    /// Tasks that were a cause, as far as /proc still had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessInfo>,
}

/// What /proc had of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    /// The [`NoiseOrigin`]'s number.
    pub pid: u32,
    /// Its name, as a number may have been of several tasks; empty in files of before.
    pub name: String,
    /// Program and arguments; empty for threads of the kernel.
    pub command: String,
    /// The unit of systemd, or else the control group; may be empty.
    pub group: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub name: String,
    pub count: u64,
}

/// What /proc counted on one CPU from the begin of a recording to its end,
/// pauses between rounds included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCounters {
    pub cpu: u32,
    pub elapsed_ns: u64,
    /// Interrupts, most frequent first; those that did not occur are left out.
    pub interrupts: Vec<Count>,
    /// Soft interrupts, likewise.
    pub softirqs: Vec<Count>,
    /// In interrupts, as far as the kernel accounts for it; whole ticks.
    pub irq_ns: u64,
    /// In soft interrupts, likewise.
    pub softirq_ns: u64,
    /// Of the hypervisor; whole ticks.
    pub steal_ns: u64,
    /// How often the loop had to leave the CPU to another task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted: Option<u64>,
    /// For how long it wanted to run and another task did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
}

/// What is known of the causes of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attribution {
    /// As a whole.
    pub about: AttributionSummary,
    /// Who is meant by the numbers in causes.
    pub sources: Vec<NoiseOrigin>,
    /// Ascending by CPU; those of which something is known.
    pub cpus: Vec<CpuCauses>,
}

impl Attribution {
    /// The causes of a CPU.
    pub fn of(&self, cpu: u32) -> Option<&CpuCauses> {
        self.cpus.iter().find(|causes| causes.cpu == cpu)
    }
}
