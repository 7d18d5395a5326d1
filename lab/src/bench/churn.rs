// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disturbance "groups come and go": ten times a second a new group is
//! made, a running spinner is moved into it, and the previous group is
//! removed. The weights alternate between 100 and 10000, so that the
//! competition at the level of groups changes with each step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::bench::place::{Layout, PlaceGroup};
use sandbag_linux::clock;

const PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Churn {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Churn {
    pub fn start(layout: Layout, spinners: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || turn(&layout, &spinners, &stopped));
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Ends it; its outcome.
    pub fn finish(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(anyhow!("the thread that makes and removes groups died")),
        }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The outcome was for `finish`; here only the groups matter, and
            // they are gone when the thread is.
            let _ = thread.join();
        }
    }
}

fn turn(layout: &Layout, spinners: &[u32], stop: &AtomicBool) -> Result<()> {
    let mut previous: Option<PlaceGroup> = None;
    let mut next = clock::monotonic();
    for made in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let weight = if made % 2 == 0 { 10_000 } else { 100 };
        let group = layout.make(&format!("churn-{made}"), weight)?;
        for pid in spinners {
            match group.take(*pid) {
                Err(e) if !e.is_absent() => return Err(e.into()),
                _ => {}
            }
        }
        // The spinners have left the previous group, which is removed.
        drop(previous.replace(group));
        next += PERIOD.as_nanos() as u64;
        clock::sleep_until(next);
    }
    Ok(())
}
