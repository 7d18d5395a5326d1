// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The burner process: pinned to one CPU, works off its orders.
//!
//! `worker` is what all of them share: the board, the clocks and what is noted
//! at the boundaries. What a burner does with a level is its [`Duty`]:
//!
//! | duty | file | methods |
//! |---|---|---|
//! | [`Duty::Burst`] | `grid` | pace |
//! | [`Duty::Pace`] | `grid` | pace with a period; hogs on the common clock; deadline |
//! | [`Duty::Spin`] | `grid` | quota, shares |
//! | [`Duty::Barrier`] | `barrier` | hogs as published |
//! | [`Duty::Adapt`] | `adapt` | rt |
//! | [`Duty::Throttle`] | `follow`, [`throttle`] | those that slow a node: lim, freq, gov, cap |

mod adapt;
mod barrier;
mod duty;
mod follow;
mod grid;
pub(crate) mod worker;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use sandbag_linux::process::Process;
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, Error, Root};
use serde::{Deserialize, Serialize};

use crate::board::Board;
use crate::throttle;
use crate::watchdog::Watchdog;
use sandbag_run::child;
use sandbag_run::node_group::NodeGroup;
use worker::BurnWorker;

pub use duty::Duty;

/// A sleep that the kernel counts as one, ns: its timer must not expire before.
const BREATH_NS: u64 = 20_000;

/// How a burner process is set up; travels as its argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurnerSetup {
    pub board_fd: i32,
    pub alarm_fd: i32,
    /// The timer that it sets anew every period, of a burner that is watched.
    pub watchdog_fd: Option<i32>,
    pub slot: usize,
    pub cpu: u32,
    /// Burners of the run, for those that wait for each other.
    pub parties: u32,
    pub duty: Duty,
    /// Works at other times than the burners of other CPUs.
    pub is_apart: bool,
    /// The group of the virtual node that it acts on, of a method that does.
    pub node: Option<NodeGroup>,
    /// How it is scheduled. Of a reservation the runtime follows the level.
    pub attributes: Attributes,
}

impl BurnerSetup {
    pub fn to_args(&self) -> Vec<String> {
        child::to_args(self)
    }

    pub fn from_args(args: &[String]) -> Option<Self> {
        child::from_args(args)
    }
}

/// Runs a burner until it is killed; returns only if it cannot start or its
/// gate (standard input) closes. The supervisor opens the gate with one byte
/// once the process is in its group.
pub fn run(setup: &BurnerSetup) -> Result<(), Error> {
    let call = |call, cause: io::Error| Error::Call {
        call,
        arguments: format!("{setup:?}"),
        cause,
    };
    // SAFETY: the supervisor handed these descriptors to this process alone.
    let (board, alarm, watchdog) = unsafe {
        (
            OwnedFd::from_raw_fd(setup.board_fd),
            File::from_raw_fd(setup.alarm_fd),
            setup.watchdog_fd.map(|fd| OwnedFd::from_raw_fd(fd)),
        )
    };
    let board = Board::open(board, true).map_err(|cause| call("mmap", cause))?;
    let slot = board.slot(setup.slot);
    slot.cpu.store(setup.cpu, Ordering::Relaxed);
    sched::set_least_timer_slack();
    lock_memory();
    let mut byte = [0];
    match io::stdin().read(&mut byte) {
        Ok(1) => {}
        _ => return Ok(()),
    }
    // Only now: moving a task into a group with a cpuset resets its affinity
    // (kernels before 6.2), and a group may refuse real-time tasks.
    if !matches!(setup.duty, Duty::Throttle(_)) {
        sched::set_affinity(0, &CpuList::from_iter([setup.cpu]))?;
    }
    take_attributes(setup.attributes)?;
    let mut worker = BurnWorker::new(&board, slot, alarm, setup.cpu);
    worker.watchdog = watchdog.map(Watchdog::inherited);
    match setup.duty {
        Duty::Pace { .. } | Duty::Burst | Duty::Spin => {
            let phase = setup.is_apart.then_some(setup.cpu);
            grid::run(&mut worker, setup.duty, setup.attributes, phase)
        }
        Duty::Barrier { period_ns } => barrier::run(&mut worker, period_ns, setup.parties),
        Duty::Adapt { period_ns } => adapt::run(&mut worker, period_ns),
        Duty::Throttle(throttling) => {
            let node = setup.node.as_ref().ok_or_else(|| Error::Missing {
                what: "the node to slow".into(),
                remedy: "name its group".into(),
            })?;
            // The first worker of a node has the first slot; this one follows another.
            if setup.slot > 0 {
                throttle::let_go_on(throttling, node)?;
            }
            follow::run(&mut worker, throttle::make(throttling, node)?)
        }
    }
}

/// The scheduling class, before the first level is served.
fn take_attributes(attributes: Attributes) -> Result<(), Error> {
    match attributes {
        Attributes::Fair { slice_ns, .. } => match sched::attributes_of(0)? {
            Attributes::Fair { .. } if slice_ns == 0 => {}
            // A kernel without custom slices ignores the value; the load is held
            // all the same, so what was kept is doctor's business.
            Attributes::Fair { nice, .. } => {
                sched::set_attributes(0, Attributes::Fair { nice, slice_ns })?;
            }
            // Inherited from who started sandbag. Weights and caps do not limit a real-time
            // task, so it must not stay one.
            inherited => {
                let stat = Process::new(&Root::default(), std::process::id()).stat();
                let nice = stat.map_or(0, |stat| stat.nice);
                let fair = sched::set_attributes(0, Attributes::Fair { nice, slice_ns });
                // Out of SCHED_IDLE only a privileged user comes; it is limited as well.
                if slice_ns > 0 || inherited.is_real_time() {
                    fair?;
                }
            }
        },
        Attributes::Fifo { .. } => {
            watch_real_time();
            sched::set_attributes(0, attributes)?;
        }
        // With its first level: a reservation of nothing is refused.
        Attributes::Deadline { .. } | Attributes::Other { .. } => {}
    }
    Ok(())
}

/// Longest time that a real-time burner runs without sleeping once. It sleeps in every
/// period, of 100 ms at most, so only one that has gone wrong gets there.
const LONGEST_WITHOUT_SLEEP_US: u64 = 1_000_000;

/// The watchdog of real-time burners is the kernel's own: a task of such a
/// class that does not sleep for RLIMIT_RTTIME is killed (getrlimit(2)).
fn watch_real_time() {
    let limit = libc::rlimit {
        rlim_cur: LONGEST_WITHOUT_SLEEP_US,
        rlim_max: LONGEST_WITHOUT_SLEEP_US,
    };
    // SAFETY: a valid limit; lowering one needs no privilege.
    unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) };
}

/// Keeps what the loop touches in memory, so that memory pressure beside it
/// cannot make it wait for a disk. Only pages that are touched are locked; a
/// refusal (RLIMIT_MEMLOCK) costs accuracy under pressure and nothing else.
fn lock_memory() {
    // SAFETY: no pointers.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_was_inherited_is_left_and_an_ordinary_one_kept() {
        let class = |policy: i32| Attributes::Other {
            policy: policy.cast_unsigned(),
        };
        let spinner = |slice_ns| Attributes::Fair { nice: 0, slice_ns };
        for (inherited, slice_ns) in [
            (class(libc::SCHED_BATCH), 0),
            (class(libc::SCHED_BATCH), 100_000_000),
            (Attributes::Fifo { priority: 50 }, 0),
            (spinner(50_000_000), 0),
        ] {
            let taken = std::thread::spawn(move || {
                // Real-time tasks are refused to an ordinary user, and in a group without a budget.
                let before = sched::set_attributes(0, inherited).ok()?;
                take_attributes(spinner(slice_ns)).unwrap();
                Some((before, sched::attributes_of(0).unwrap()))
            });
            let Some((before, after)) = taken.join().unwrap() else {
                continue;
            };
            assert!(matches!(after, Attributes::Fair { .. }), "{after:?}");
            if matches!(before, Attributes::Fair { .. }) {
                assert_eq!(after, before);
            }
        }
    }

    #[test]
    fn a_setup_survives_the_command_line() {
        let setup = BurnerSetup {
            board_fd: 3,
            alarm_fd: 4,
            watchdog_fd: Some(5),
            slot: 17,
            cpu: 1025,
            parties: 4,
            node: None,
            is_apart: true,
            duty: Duty::Pace {
                period_ns: 20_000_000,
            },
            attributes: Attributes::Fair {
                nice: 0,
                slice_ns: 100_000_000,
            },
        };
        assert_eq!(
            BurnerSetup::from_args(&setup.to_args()),
            Some(setup.clone())
        );
        let hog = BurnerSetup {
            duty: Duty::Barrier {
                period_ns: 10_000_000,
            },
            attributes: Attributes::Fifo { priority: 99 },
            ..setup
        };
        assert_eq!(BurnerSetup::from_args(&hog.to_args()), Some(hog));
        assert_eq!(BurnerSetup::from_args(&["x".into()]), None);
    }
}
