// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that works, from outside.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbag_linux::sched;
use sandbag_run::child;

use crate::error::{Error, Result};
use crate::work::{Answer, WORK_VERB, WorkOrder};

/// Between two looks at whether to stop; a signal is noticed at once.
const LOOK: Duration = Duration::from_secs(1);
/// Longer than an answer of any sane process.
const LONGEST_ANSWER: usize = 1 << 16;

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
        let until = Instant::now() + patience;
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|cause| WorkerEnd::Died(format!("it says nonsense: {cause}")));
            }
            if stop() {
                return Err(WorkerEnd::Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(WorkerEnd::Silent);
            }
            let mut some = [0; 4096];
            match self
                .is_ready(left.min(LOOK))
                .then(|| self.answers.read(&mut some))
            {
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
        // Where it is held nothing may get to run, not even to die.
        if let Ok(anywhere) = sched::affinity(0) {
            let _ = sched::set_affinity(self.child.id(), &anywhere);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
