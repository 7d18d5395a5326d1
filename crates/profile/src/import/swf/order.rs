// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The jobs of a log in the order in which they began.
//!
//! A log is sorted by submit time. No job begins before it is submitted, so
//! all that began before the submit time last read are known: only those that
//! wait are held, 72 bytes each. Where the log is not sorted, so are those
//! submitted within the greatest step back of the last one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::reader::Lines;
use crate::{Fault, Result};

use super::row::{LoggedJob, SwfRow};

/// Nothing that waits in a real queue comes near this many.
const MOST_HELD: usize = 2 << 20;

#[derive(Default)]
pub(super) struct InOrder {
    lines: Lines,
    /// How much earlier than the latest submit time one may still come.
    disorder_ns: u64,
    /// By begin, then by place in the log.
    held: BinaryHeap<Reverse<(u64, u64, LoggedJob)>>,
    read: u64,
    /// All that begin up to here were read.
    known_ns: u64,
    done: bool,
}

impl InOrder {
    pub(super) fn new(lines: Lines, disorder_ns: u64) -> Self {
        Self {
            lines,
            disorder_ns,
            ..Self::default()
        }
    }

    fn read(&mut self) -> Result<()> {
        let Some(line) = self.lines.next_whole_line()? else {
            self.done = true;
            return Ok(());
        };
        let row = SwfRow::parse(line).map_err(|fault| self.lines.here(fault))?;
        let SwfRow::Job(job) = row else { return Ok(()) };
        if self.held.len() >= MOST_HELD {
            return Err(self.lines.here(Fault::lacks(
                crate::Format::Swf,
                format!(
                    "more than {MOST_HELD} jobs wait at a time; is it sorted by submit time \
                     (`sort -s -n -k 2,2`)?"
                ),
            )));
        }
        self.known_ns = self
            .known_ns
            .max(job.submit_ns.saturating_sub(self.disorder_ns));
        self.held.push(Reverse((job.start_ns(), self.read, job)));
        self.read += 1;
        Ok(())
    }
}

impl Iterator for InOrder {
    type Item = Result<LoggedJob>;

    fn next(&mut self) -> Option<Result<LoggedJob>> {
        loop {
            let first = self.held.peek().map(|Reverse((start_ns, ..))| *start_ns);
            if self.done || first.is_some_and(|start_ns| start_ns < self.known_ns) {
                return self.held.pop().map(|Reverse((.., job))| Ok(job));
            }
            if let Err(e) = self.read() {
                self.done = true;
                self.held.clear();
                return Some(Err(e));
            }
        }
    }
}
