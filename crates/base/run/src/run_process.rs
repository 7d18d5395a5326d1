// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose run it is, beyond doubt: a process number is used again, and means
//! another process in another PID namespace (pid_namespaces(7)) that shares
//! our directory of journals.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

use sandbag_linux::Root;
use sandbag_linux::process::{self, Process};
use serde::{Deserialize, Serialize};

use crate::process_identity::ProcessIdentity;

/// The first namespace of process numbers has this inode on every kernel
/// (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const FIRST_NAMESPACE: u64 = 4_026_531_836;

/// What makes a process number one process for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunProcess {
    /// When it began, clock ticks since boot.
    pub start_ticks: u64,
    /// Inode of the PID namespace in which it has its number.
    pub pid_namespace: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
}

impl RunProcess {
    /// This process; `None` where `/proc` does not say.
    pub fn own() -> Option<Self> {
        static OWN: OnceLock<Option<RunProcess>> = OnceLock::new();
        OWN.get_or_init(|| {
            let root = Root::default();
            Some(Self {
                start_ticks: Process::current(&root).stat().ok()?.times.start_ticks,
                pid_namespace: fs::metadata("/proc/self/ns/pid").ok()?.ino(),
                boot: boot(&root)?,
            })
        })
        .clone()
    }

    /// The process that has the number `pid` in its namespace, by the number
    /// that it has here; `None` if it has ended or cannot be seen from here.
    pub fn find(&self, pid: u32) -> Option<ProcessIdentity> {
        let root = Root::default();
        if self.is_of_earlier_boot() {
            return None;
        }
        let here = |pid| ProcessIdentity {
            pid,
            start_ticks: self.start_ticks,
        };
        let is = |named: ProcessIdentity| {
            ProcessIdentity::of(&root, named.pid).is_ok_and(|now| now == Some(named))
        };
        if self.is_of_our_namespace() && is(here(pid)) {
            return Some(here(pid));
        }
        let mut numbers = process::pids(&root).unwrap_or_default().into_iter();
        numbers
            .find(|number| self.has_number(*number, pid) && is(here(*number)))
            .map(here)
    }

    /// Whether it has certainly ended.
    pub fn has_ended(&self, pid: u32) -> bool {
        let all_seen = || {
            self.is_of_our_namespace()
                || Self::own().is_some_and(|own| own.pid_namespace == FIRST_NAMESPACE)
        };
        self.is_of_earlier_boot() || (all_seen() && self.find(pid).is_none())
    }

    /// Whether the machine was started anew since.
    pub fn is_of_earlier_boot(&self) -> bool {
        Self::own().is_some_and(|own| own.boot != self.boot)
    }

    /// Whether its number means the same to us.
    pub fn is_of_our_namespace(&self) -> bool {
        Self::own().is_some_and(|own| own.pid_namespace == self.pid_namespace)
    }

    /// Whether the process `number` of ours is `pid` in that namespace.
    fn has_number(&self, number: u32, pid: u32) -> bool {
        let namespace = fs::metadata(format!("/proc/{number}/ns/pid"));
        namespace.is_ok_and(|meta| meta.ino() == self.pid_namespace)
            && fs::read_to_string(format!("/proc/{number}/status"))
                .is_ok_and(|status| innermost_number(&status) == Some(pid))
    }
}

fn boot(root: &Root) -> Option<String> {
    let text = root.read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// The last of `NSpid:`, the number in the namespace that the process is in.
fn innermost_number(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let numbers = lines.find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

/// The name of a run in those of its journal, groups and units: the process
/// number, and for another PID namespace than the first what else makes it
/// unique. Letters and digits only, beginning with the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    pid: u32,
    /// Namespace and start, outside of the first namespace.
    of: Option<(u64, u64)>,
}

impl RunId {
    /// That of this process.
    pub fn own() -> Self {
        Self::new(std::process::id(), RunProcess::own().as_ref())
    }

    /// Process number of the supervisor in its PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// That of the supervisor `pid`.
    pub fn new(pid: u32, process: Option<&RunProcess>) -> Self {
        let of = process
            .filter(|process| process.pid_namespace != FIRST_NAMESPACE)
            .map(|process| (process.pid_namespace, process.start_ticks));
        Self { pid, of }
    }
}

impl std::str::FromStr for RunId {
    type Err = ();

    /// From what it is displayed as.
    fn from_str(name: &str) -> Result<Self, ()> {
        let numbers: Result<Vec<u64>, _> = name.split('x').map(str::parse).collect();
        let (pid, of) = match numbers.map_err(drop)?[..] {
            [pid] => (pid, None),
            [pid, namespace, start] => (pid, Some((namespace, start))),
            _ => return Err(()),
        };
        Ok(Self {
            pid: pid.try_into().map_err(drop)?,
            of,
        })
    }
}

impl From<u32> for RunId {
    fn from(pid: u32) -> Self {
        Self { pid, of: None }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            None => write!(f, "{}", self.pid),
            Some((namespace, start)) => write!(f, "{}x{namespace}x{start}", self.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_was_meant_is_found() {
        let own = RunProcess::own().unwrap();
        let us = std::process::id();
        assert_eq!(own.find(us).unwrap().pid, us);
        assert!(!own.has_ended(us));
        let changed = |change: fn(&mut RunProcess)| {
            let mut changed = own.clone();
            change(&mut changed);
            changed
        };
        let later = changed(|process| process.start_ticks += 1);
        assert!(later.find(us).is_none() && later.has_ended(us));
        let rebooted = changed(|process| process.boot = "another".into());
        assert!(rebooted.find(us).is_none() && rebooted.has_ended(us));
        // Number and start are the same; from the first namespace all can be
        // seen, from another it may live.
        let elsewhere = changed(|process| process.pid_namespace += 1_000_000);
        assert!(elsewhere.find(us).is_none());
        let sees_all = own.pid_namespace == FIRST_NAMESPACE;
        assert_eq!(elsewhere.has_ended(us), sees_all);
    }

    #[test]
    fn runs_of_two_namespaces_have_different_names() {
        let process = |pid_namespace| RunProcess {
            start_ticks: 5,
            pid_namespace,
            boot: String::new(),
        };
        let name = |namespace| RunId::new(1, Some(&process(namespace))).to_string();
        assert_eq!(name(FIRST_NAMESPACE), "1");
        assert_eq!(name(4_026_532_198), "1x4026532198x5");
        assert_eq!(RunId::new(1, None), RunId::from(1));
        for namespace in [FIRST_NAMESPACE, 4_026_532_198] {
            let run = RunId::new(1, Some(&process(namespace)));
            assert_eq!(run.to_string().parse(), Ok(run));
        }
        for other in ["", "x", "1x2", "1x2x3x4", "4294967296"] {
            assert!(other.parse::<RunId>().is_err(), "{other}");
        }
    }

    #[test]
    fn the_innermost_number_is_the_last() {
        assert_eq!(innermost_number("Name:\tx\nNSpid:\t4242\t7\t1\n"), Some(1));
        assert_eq!(innermost_number("Name:\tx\n"), None);
    }
}
