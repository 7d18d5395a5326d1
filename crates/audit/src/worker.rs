// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that works, from outside.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbag_linux::process::Process;
use sandbag_linux::{Root, sched};
use sandbag_run::child;

use crate::error::{Error, Result};
use crate::work::{Answer, WORK_VERB, WorkOrder};

/// Between two looks at whether to stop; a signal is noticed at once.
const LOOK: Duration = Duration::from_secs(1);
/// Longer than an answer of any sane process.
const LONGEST_ANSWER: usize = 1 << 16;

/// What is left of a time for which we wait. Of what a look took, no more than twice its length
/// counts: where we were away for longer (stopped, or frozen as by `docker pause`), the process
/// that we wait for mostly was, too.
#[derive(Debug)]
pub(crate) struct Patience {
    left: Duration,
    look: Duration,
}

impl Patience {
    pub(crate) fn new(time: Duration, look: Duration) -> Self {
        Self { left: time, look }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    /// The length of the next look.
    pub(crate) fn look(&self) -> Duration {
        self.look.min(self.left)
    }

    pub(crate) fn spend(&mut self, took: Duration) {
        self.left = self.left.saturating_sub(took.min(self.look * 2));
    }
}

/// Moves the threads of a process away from the CPUs to which they are pinned. Where real-time
/// tasks have a CPU, a thread that is held there does not get to run even to die.
pub(crate) fn unpin(pid: u32) {
    let threads = Process::new(&Root::default(), pid).threads();
    let (Ok(anywhere), Ok(threads)) = (sched::affinity(0), threads) else {
        return;
    };
    for thread in threads {
        let thread = thread.pid();
        // A thread that may stay where it is would not be moved.
        let elsewhere = sched::affinity(thread).map(|pinned| anywhere.without(&pinned));
        if let Some(elsewhere) = elsewhere.ok().filter(|cpus| !cpus.is_empty()) {
            let _ = sched::set_affinity(thread, &elsewhere);
        }
    }
}

/// A process under our own hidden verb. It ends with this.
#[derive(Debug)]
pub struct WorkProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: ChildStdout,
    read: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEnd {
    Stopped,
    /// It says nothing: it was killed.
    Silent,
    /// It died, or makes no sense.
    Died(String),
}

impl WorkProcess {
    /// Starts it. To be called on the main thread: it dies with the thread that
    /// made it.
    pub fn start() -> Result<Self> {
        let failed = |cause: std::io::Error| Error::Worker(cause.to_string());
        let mut child = child::own(WORK_VERB, &[], &[], true)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        match (orders, answers) {
            (Some(orders), Some(answers)) => Ok(Self {
                child,
                orders: Some(orders),
                answers,
                read: Vec::new(),
            }),
            _ => Err(Error::Worker("it has no pipes".to_owned())),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order and sleeps until it is answered.
    pub fn ask(
        &mut self,
        order: &WorkOrder,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<Answer, WorkerEnd> {
        if stop() {
            return Err(WorkerEnd::Stopped);
        }
        let mut line = serde_json::to_vec(order).unwrap_or_default();
        line.push(b'\n');
        let sent = self.orders.as_mut().map(|orders| orders.write_all(&line));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.reap());
        }
        let mut patience = Patience::new(patience, LOOK);
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|cause| WorkerEnd::Died(format!("it says nonsense: {cause}")));
            }
            if stop() {
                return Err(WorkerEnd::Stopped);
            }
            if patience.is_over() {
                return Err(WorkerEnd::Silent);
            }
            let begin = Instant::now();
            let is_ready = self.is_ready(patience.look());
            patience.spend(begin.elapsed());
            let mut some = [0; 4096];
            match is_ready.then(|| self.answers.read(&mut some)) {
                None => {}
                Some(Ok(0) | Err(_)) => return Err(self.reap()),
                Some(Ok(count)) if self.read.len() + count <= LONGEST_ANSWER => {
                    self.read.extend_from_slice(&some[..count]);
                }
                Some(Ok(_)) => return Err(WorkerEnd::Died("it does not stop talking".to_owned())),
            }
        }
    }

    /// Waits for an answer; interrupted by a signal it is as if time was up.
    fn is_ready(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(self.answers.as_fd(), PollFlags::POLLIN)];
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
        matches!(poll(&mut fds, time), Ok(1..))
    }

    fn reap(&mut self) -> WorkerEnd {
        drop(self.orders.take());
        let how = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(cause) => cause.to_string(),
        };
        let words = child::last_words(&mut self.child);
        WorkerEnd::Died(if words.is_empty() {
            how
        } else {
            format!("{how}: {words}")
        })
    }
}

impl Drop for WorkProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.kill();
        // Killed, it starts no thread that would be missed.
        unpin(self.child.id());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[path = "../../base/linux/tests/support/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use std::thread;

    use sandbag_linux::CpuList;

    use super::skipped::say_skipped;
    use super::*;
    use crate::fixture::alone;

    #[test]
    fn an_absence_of_ours_does_not_count() {
        let minute = Duration::from_secs(60);
        let mut patience = Patience::new(minute, LOOK);
        // We were frozen for an hour.
        patience.spend(60 * minute);
        assert!(!patience.is_over());
        assert_eq!(patience.look(), LOOK);
        for _ in 0..58 {
            assert!(!patience.is_over());
            patience.spend(LOOK);
        }
        assert!(patience.is_over(), "{patience:?}");
        // An interrupted look is a part of one.
        let mut patience = Patience::new(LOOK, LOOK);
        patience.spend(LOOK / 4);
        assert_eq!(patience.look(), LOOK / 4 * 3);
    }

    #[test]
    fn every_thread_is_moved_from_its_cpu() {
        let cpus = sched::affinity(0).unwrap();
        let only = CpuList::from_iter(cpus.iter().next());
        let Some(mut child) = alone("worker::tests::every_thread_is_moved_from_its_cpu") else {
            let held = thread::spawn(move || {
                sched::set_affinity(0, &only).unwrap();
                let _ = std::io::stdin().read(&mut [0]);
            });
            return held.join().unwrap();
        };
        if cpus == only {
            say_skipped("every_thread_is_moved_from_its_cpu", "one CPU");
            return;
        }
        let mut child = child
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pinned = || {
            let threads = Process::new(&Root::default(), child.id()).threads();
            let mut threads = threads.unwrap().into_iter();
            threads.any(|thread| sched::affinity(thread.pid()).is_ok_and(|cpus| cpus == only))
        };
        let begin = Instant::now();
        while !pinned() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(20));
        }
        unpin(child.id());
        let is_pinned = pinned();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_pinned);
    }
}
