// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slowing a whole node instead of loading its CPUs.
//!
//! One process per node follows the same orders as burners do: level L means
//! that the node is to be slower by L (speed 1-L). At each boundary it notes
//! what it has *taken* from the node, in nanoseconds per CPU, so that the
//! speed a node got is 1 - taken / time, whatever took it.
//!
//! | [`Throttling`] | file | what it does |
//! |---|---|---|
//! | [`Throttling::Lim`] | `lim` | stops and continues its processes |
//! | [`Throttling::Frequency`] | `governor`, `hardware` | sets the nearest frequency |
//! | [`Throttling::Governor`] | `governor`, `hardware` | alternates between two, or one and a standstill |
//! | [`Throttling::Cap`] | `cap` | a limit on the group's CPU time |
//!
//! The process dies with the supervisor, at any moment. What it may leave
//! behind is in the journal before it starts: [`announce`].

mod cap;
mod governor;
mod hardware;
mod lim;
mod mix;
mod slowed_time;

use sandbag_linux::clock::monotonic;
use sandbag_linux::{Error, Result, Root};
use serde::{Deserialize, Serialize};

use crate::frequencies::{FrequencyNeed, FrequencyOptions, Ladder};
use sandbag_run::journal::{Entry, Journal};
use sandbag_run::node_group::NodeGroup;
use sandbag_run::undo::continue_all;

use governor::{Governor, Nearest};
use hardware::Hardware;

pub use cap::LEAST_QUOTA_US;
pub use lim::LimVariant;
pub use mix::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Throttling {
    Lim {
        variant: LimVariant,
        interval_ns: u64,
    },
    Frequency {
        wishes: FrequencyOptions,
    },
    /// Its CPUs alternate between two neighbouring frequencies, or one and zero.
    Governor {
        /// Once both, ns.
        period_ns: u64,
        wishes: FrequencyOptions,
    },
    /// Its group may use the sum of its speeds per period.
    Cap {
        period_us: u64,
    },
}

impl Throttling {
    pub fn frequencies(self) -> Option<FrequencyNeed> {
        let (wishes, required) = match self {
            Self::Frequency { wishes } => (wishes, true),
            Self::Governor { wishes, .. } => (wishes, false),
            Self::Lim { .. } | Self::Cap { .. } => return None,
        };
        Some(FrequencyNeed { wishes, required })
    }

    pub fn period_ns(self) -> u64 {
        match self {
            Self::Lim { interval_ns, .. } => interval_ns,
            Self::Frequency { .. } => 0,
            Self::Governor { period_ns, .. } => period_ns,
            Self::Cap { period_us } => period_us * 1000,
        }
    }
}

/// Something that makes a node slower. All times are monotonic, ns.
pub trait Throttle {
    /// Does what is due at `now` for a level above 0, and says when something
    /// will be due next. May be called earlier than that.
    /// An error is final: the kernel would refuse again.
    fn act(&mut self, now: u64, level: f64) -> Result<u64>;

    /// What was taken from the node until `at`, ns per CPU. `at` is not
    /// before the last call of [`Throttle::act`].
    fn taken_ns(&mut self, at: u64) -> u64;

    /// From `now` on the node runs as if nothing had ever been done to it.
    /// May be called again.
    /// What can be released is released also where the kernel refuses a part.
    fn release(&mut self, now: u64) -> Result<()>;

    /// The run is paused from `now` on, and the node released.
    fn pause(&mut self, _now: u64) -> Result<()> {
        Ok(())
    }

    /// The run goes on at `now`.
    fn resume(&mut self, _now: u64) -> Result<()> {
        Ok(())
    }
}

pub fn make(throttling: Throttling, node: &NodeGroup) -> Result<Box<dyn Throttle>> {
    Ok(match throttling {
        Throttling::Lim {
            variant,
            interval_ns,
        } => Box::new(lim::Lim::new(node, variant, interval_ns)),
        Throttling::Frequency { wishes } => {
            let ladder = ladder(node, wishes)?;
            Box::new(Nearest::new(Hardware::new(ladder, None)))
        }
        Throttling::Governor { period_ns, wishes } => {
            let freezer = node.freezer().ok_or_else(|| Error::Missing {
                what: "a freezer for the node's group".into(),
                remedy: "mount it (cgroup v2, or v1's freezer), or use hogs".into(),
            })?;
            let hardware = Hardware::new(ladder(node, wishes)?, Some(freezer));
            Box::new(Governor::new(hardware, period_ns))
        }
        Throttling::Cap { period_us } => Box::new(cap::Cap::new(node, period_us)),
    })
}

fn ladder(node: &NodeGroup, wishes: FrequencyOptions) -> Result<Option<Ladder>> {
    let ladder = Ladder::read(&Root::default(), &node.cpus, wishes)?;
    match ladder {
        Some(ladder) if wishes.calibrate => Ok(Some(ladder.calibrate()?)),
        other => Ok(other),
    }
}

/// Lets a node run as if nothing had been done to it, for the worker that takes the place of
/// one that was killed: what that did is not known to it, and it would never take it back. As
/// when the journal is undone, processes that others stopped go on as well: the kernel does
/// not say by which process one was stopped.
pub fn let_go_on(throttling: Throttling, node: &NodeGroup) -> Result<()> {
    let outcome: Result<()> = match throttling {
        Throttling::Lim { .. } => continue_all(&node.cpu).into_iter().collect(),
        // Its supervisor knows the frequencies of before, and has set them.
        Throttling::Frequency { .. } => Ok(()),
        Throttling::Governor { .. } => node.freezer().map_or(Ok(()), |freezer| freezer.thaw()),
        Throttling::Cap { period_us } => cap::Cap::new(node, period_us).release(monotonic()),
    };
    match outcome {
        // Its group is gone.
        Err(error) if error.is_absent() => Ok(()),
        other => other,
    }
}

/// Notes in the journal what the worker may leave behind when it is killed.
/// To be called before it starts, like
/// [`frequencies::prepare`](crate::frequencies::prepare).
pub fn announce(
    journal: &mut Journal,
    throttling: Throttling,
    node: &NodeGroup,
) -> sandbag_run::Result<()> {
    match throttling {
        Throttling::Lim { .. } => journal.note(Entry::StoppedGroup {
            dir: node.cpu.clone(),
        }),
        Throttling::Governor { .. } => match &node.freezer {
            Some(dir) => journal.note(Entry::Frozen { dir: dir.clone() }),
            None => Ok(()),
        },
        // The limit goes with the group; frequencies are settings.
        Throttling::Cap { .. } | Throttling::Frequency { .. } => Ok(()),
    }
}
