// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of ours that suffers its portion from within and looks at the
//! same time: what `jitter verify` judges injection inside a program by.
//!
//! sandbag is one static binary, into which nothing can be preloaded. So the
//! program does what any other does that asks by itself: it is linked with
//! c/jitter.c and calls [`api::init`]. Timer, signal handler and booking are
//! those of the preloaded library; what is missing is what stands in front of
//! the C library's calls (c/preload*.c), and the loop calls none of them.
//!
//! It is a process of its own, because a process can load one plan, and is
//! told by arguments what to do. What it saw it prints.

use std::io::{self, BufWriter, Write as _};

use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock};

use crate::inside::api;

/// The first argument of its process.
pub const VERB: &str = "__inside-collector";

/// Room for what is seen.
const ROOM: usize = 1_000_000;
/// It is awake so much before the beginning, ns.
const EARLY_NS: u64 = 5_000_000;
/// Readings of the clock by which its own cost is known.
const READINGS: u32 = 20_000;
/// A gap of less than so many readings is none.
const TIMES_LEAST: u64 = 4;

/// What it is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorSetup {
    /// Where, kernel number.
    pub cpu: u32,
    /// As a real-time task of this priority; else as an ordinary one.
    pub real_time: Option<u8>,
    /// From when on, CLOCK_MONOTONIC, ns: when due times of its plan begin.
    pub begin_ns: u64,
    /// For how long, ns.
    pub length_ns: u64,
    /// What is no longer is not noted, ns.
    pub threshold_ns: u64,
}

/// What it saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectorReport {
    /// So much after the beginning it began to look, ns.
    pub from_ns: u64,
    /// Stretches in which it did not run: begin and length, ns since the
    /// beginning.
    pub gaps: Vec<(u64, u64)>,
}

impl CollectorSetup {
    /// As command-line arguments.
    #[must_use]
    pub fn to_args(&self) -> Vec<String> {
        let priority = self.real_time.map_or(0, u64::from);
        [
            u64::from(self.cpu),
            priority,
            self.begin_ns,
            self.length_ns,
            self.threshold_ns,
        ]
        .map(|number| number.to_string())
        .to_vec()
    }

    /// From the arguments of [`to_args`](Self::to_args).
    #[must_use]
    pub fn from_args(arguments: &[String]) -> Option<Self> {
        let numbers: Vec<u64> = arguments
            .iter()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let [cpu, priority, begin_ns, length_ns, threshold_ns] = numbers[..] else {
            return None;
        };
        Some(Self {
            cpu: u32::try_from(cpu).ok()?,
            real_time: match priority {
                0 => None,
                priority => Some(u8::try_from(priority).ok()?),
            },
            begin_ns,
            length_ns,
            threshold_ns,
        })
    }
}

impl CollectorReport {
    /// From what the process printed; `None` if that is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let from_ns = lines.next()?.parse().ok()?;
        let gap = |line: &str| {
            let (due, length) = line.split_once(' ')?;
            Some((due.parse().ok()?, length.parse().ok()?))
        };
        Some(Self {
            from_ns,
            gaps: lines.map(gap).collect::<Option<_>>()?,
        })
    }
}

/// What the process does.
///
/// # Errors
/// The CPU or the priority is not to be had, there is no plan for it, or
/// nobody reads what it prints.
pub fn run(setup: CollectorSetup) -> io::Result<()> {
    let other = |error: sandbag_linux::Error| io::Error::other(error.to_string());
    sched::set_affinity(0, &CpuList::from_iter([setup.cpu])).map_err(other)?;
    // Every page touched.
    let mut gaps = vec![(u64::MAX, 0); ROOM];
    gaps.clear();
    let threshold_ns = setup.threshold_ns.max(least_ns() * TIMES_LEAST);
    if let Some(priority) = setup.real_time {
        let priority = u32::from(priority);
        sched::set_attributes(0, Attributes::Fifo { priority }).map_err(other)?;
    }
    if !api::init() {
        return Err(io::Error::other("there is no plan for this process"));
    }
    clock::sleep_until(setup.begin_ns.saturating_sub(EARLY_NS));
    let from_ns = look(&setup, threshold_ns, &mut gaps);
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{from_ns}")?;
    for (due_ns, length_ns) in gaps {
        writeln!(out, "{due_ns} {length_ns}")?;
    }
    out.flush()
}

/// The least difference of two readings, ns.
fn least_ns() -> u64 {
    let mut last = clock::monotonic();
    let mut least_ns = u64::MAX;
    for _ in 0..READINGS {
        let now = clock::monotonic();
        if now > last {
            least_ns = least_ns.min(now - last);
        }
        last = now;
    }
    match least_ns {
        u64::MAX => 0,
        ns => ns,
    }
}

/// The loop; when it began, ns since the beginning.
fn look(setup: &CollectorSetup, threshold_ns: u64, gaps: &mut Vec<(u64, u64)>) -> u64 {
    let begin_ns = setup.begin_ns;
    let end_ns = begin_ns.saturating_add(setup.length_ns);
    let mut last = clock::monotonic();
    while last < begin_ns {
        last = clock::monotonic();
    }
    let from_ns = last - begin_ns;
    while last < end_ns {
        let now = clock::monotonic();
        if now - last > threshold_ns && gaps.len() < ROOM {
            gaps.push((last - begin_ns, now - last));
        }
        last = now;
    }
    from_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_the_command_line() {
        for real_time in [None, Some(98)] {
            let setup = CollectorSetup {
                cpu: 7,
                real_time,
                begin_ns: u64::MAX,
                length_ns: 5,
                threshold_ns: 0,
            };
            assert_eq!(CollectorSetup::from_args(&setup.to_args()), Some(setup));
        }
        for words in ["", "1 2 3 4", "1 2 3 4 x", "1 300 3 4 5"] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(CollectorSetup::from_args(&words), None, "{words:?}");
        }
    }

    #[test]
    fn what_it_prints_is_read_back() {
        let seen = CollectorReport {
            from_ns: 3,
            gaps: vec![(10, 5), (20, 700)],
        };
        assert_eq!(CollectorReport::parse("3\n10 5\n20 700\n"), Some(seen));
        for text in ["", "x", "3\n10", "3\n10 5 6"] {
            assert_eq!(CollectorReport::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn it_looks_from_the_beginning_to_the_end() {
        let begin_ns = clock::monotonic() + 2_000_000;
        let setup = CollectorSetup {
            cpu: 0,
            real_time: None,
            begin_ns,
            length_ns: 5_000_000,
            threshold_ns: 0,
        };
        let mut gaps = Vec::new();
        look(&setup, 0, &mut gaps);
        assert!(clock::monotonic() >= begin_ns + setup.length_ns);
        // Every reading is one, and they touch.
        assert!(gaps.len() > 10);
        let touch = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 == pair[1].0;
        assert!(gaps.len() >= ROOM || gaps.windows(2).all(touch));
        // One that begins late looks at nothing.
        gaps.clear();
        assert!(look(&setup, 0, &mut gaps) >= setup.length_ns && gaps.is_empty());
    }
}
