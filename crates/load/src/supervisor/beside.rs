// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions that other runs of ours hold on the same CPUs for this one: a load, jitter.

use std::collections::BTreeMap;
use std::io;

use nix::sys::signal::Signal;
use sandbag_linux::process::Process;
use sandbag_linux::{Root, sched};

use super::running::signal_to;
use crate::node::Ratios;
use crate::node::protocol::{Reply, Request};
use crate::node::socket::{Directory, ask};
use crate::node::spec::NodeName;
use crate::node::speed_share::SpeedShare;
use sandbag_run::Error;
use sandbag_ui::units::ASK_LIMIT;

/// Such a run.
pub struct BesideRun {
    /// Its supervisor, a child of this process.
    pub pid: u32,
    /// What it holds, in a word.
    pub name: &'static str,
    /// Of a load that is a part of the node's speed: its socket, and which part.
    pub load: Option<(Directory, NodeName, SpeedShare)>,
}

/// All of them.
pub(super) struct BesideRuns {
    runs: Vec<BesideRun>,
    /// CPU and CPU time of each of their workers, which are their children, confined to a
    /// CPU; by process.
    workers: BTreeMap<u32, (u32, u64)>,
    /// Those that ended before they were asked to.
    lost: Vec<&'static str>,
    asked_to_end: bool,
}

impl BesideRuns {
    pub fn new(runs: Vec<BesideRun>) -> Self {
        Self {
            runs,
            workers: BTreeMap::new(),
            lost: Vec::new(),
            asked_to_end: false,
        }
    }

    /// CPU time that their workers used so far on each of these CPUs, ns.
    pub fn used_ns(&mut self, root: &Root, cpus: &[u32]) -> Vec<u64> {
        for run in &self.runs {
            for pid in Process::new(root, run.pid).children().unwrap_or_default() {
                let Ok(allowed) = sched::affinity(pid) else {
                    continue;
                };
                let mut allowed = allowed.iter();
                if let (Some(cpu), None) = (allowed.next(), allowed.next())
                    && let Ok(stat) = Process::new(root, pid).schedstat()
                {
                    self.workers.insert(pid, (cpu, stat.exec_ns));
                }
            }
        }
        let of = |cpu: &u32| -> u64 {
            let on_it = self.workers.values().filter(|(on, _)| on == cpu);
            on_it.map(|(_, ns)| ns).sum()
        };
        cpus.iter().map(of).collect()
    }

    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().map(|run| run.pid)
    }

    /// Whether nothing is known of any: what one used that has ended counts all the same.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.workers.is_empty()
    }

    /// A child was reaped: if it is one of these, its name, and whether it ended too early. It
    /// gets no signal from then on, since its number may be another process's.
    pub fn ended(&mut self, pid: u32) -> Option<(&'static str, bool)> {
        let at = self.runs.iter().position(|run| run.pid == pid)?;
        let name = self.runs.remove(at).name;
        if !self.asked_to_end {
            self.lost.push(name);
        }
        Some((name, !self.asked_to_end))
    }

    /// Those that ended before they were asked to.
    pub fn lost(&self) -> &[&'static str] {
        &self.lost
    }

    /// They end with the load, also where the command goes on.
    pub fn end(&mut self) {
        self.asked_to_end = true;
        self.tell(Signal::SIGTERM);
    }

    /// Fails where one ended: before the run begins, as a condition is not there.
    pub fn all_are_there(&self) -> Result<(), Error> {
        match self.lost.first() {
            None => Ok(()),
            Some(name) => Err(Error::Start {
                what: format!("the {name}"),
                cause: io::Error::other("it ended before the run began"),
            }),
        }
    }

    pub fn tell(&self, signal: Signal) {
        for run in &self.runs {
            signal_to(run.pid, signal);
        }
    }

    /// The loads follow the node's new speeds.
    pub fn set_speeds(&self, speeds: &Ratios) -> Result<(), String> {
        for (directory, name, share) in self.runs.iter().filter_map(|run| run.load.as_ref()) {
            let loads = share.loads(speeds);
            match ask(directory, name, &Request::Load { loads }, ASK_LIMIT) {
                Ok(Reply::Error { message }) => return Err(format!("its load: {message}")),
                Ok(_) => {}
                Err(error) => return Err(format!("its load: {error}")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn one_that_was_reaped_gets_no_signal() {
        let run = |pid, name| BesideRun {
            pid,
            name,
            load: None,
        };
        let mut beside = BesideRuns::new(vec![run(7, "load"), run(8, "jitter")]);
        assert_eq!(beside.ended(9), None);
        beside.all_are_there().unwrap();
        assert_eq!(beside.ended(7), Some(("load", true)));
        assert_eq!(beside.pids().collect::<Vec<_>>(), [8]);
        assert_eq!(beside.ended(7), None);
        let error = beside.all_are_there().unwrap_err().to_string();
        assert_eq!(error, "start the load: it ended before the run began");
    }

    #[test]
    fn one_that_was_asked_to_end_is_not_lost() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut beside = BesideRuns::new(vec![BesideRun {
            pid: child.id(),
            name: "jitter",
            load: None,
        }]);
        beside.end();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(15));
        assert_eq!(beside.ended(child.id()), Some(("jitter", false)));
        assert!(beside.lost().is_empty());
        beside.all_are_there().unwrap();
    }
}
