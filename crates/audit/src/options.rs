// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of an audit, and its progress.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sandbag_linux::CpuList;
use sandbag_linux::user::User;

use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub struct AuditOptions {
    /// The CPUs to test; empty: all that are online.
    pub cpus: CpuList,
    pub tests: Vec<TestRequest>,
    /// Of the order of the CPUs in each round.
    pub seed: u64,
    /// By which verdicts are given, after correction for many comparisons,
    /// above .5 and below 1.
    pub confidence: f64,
    /// Differences up to this do not count, percent.
    pub tolerance_pct: f64,
    /// Rounds go on until the intervals are this wide to either side, percent.
    pub precision_pct: f64,
    /// The fewest rounds of a test, at least 3, and the most.
    pub rounds: (u32, u32),
    /// The longest that a test is to take once the fewest rounds are done.
    pub limit: Duration,
    /// About how long the longest of a test's three runs is to take.
    pub longest_run: Duration,
    /// Size of the memory test's array; `None`: a bounded share of what is
    /// free.
    pub memory_bytes: Option<u64>,
    /// Calls of the system call test on each CPU in the fewest rounds.
    pub calls: u64,
    /// Directories on whose file systems a word is written and read. `/dev/null`
    /// is always tried as well.
    pub files: Vec<PathBuf>,
    /// Who commands are run as; `None`: as we are.
    pub user: Option<User>,
    /// Whether a CPU that others disturb makes the audit unequal.
    pub contention_fails: bool,
}

impl Default for AuditOptions {
    /// Some minutes on 2 CPUs.
    fn default() -> Self {
        Self {
            cpus: CpuList::default(),
            tests: TestRequest::all(),
            seed: 1,
            confidence: 0.99,
            tolerance_pct: 0.5,
            precision_pct: 0.3,
            rounds: (12, 200),
            limit: Duration::from_secs(45),
            longest_run: Duration::from_millis(160),
            memory_bytes: None,
            calls: 8_000_000,
            files: vec![PathBuf::from("/tmp")],
            user: None,
            contention_fails: true,
        }
    }
}

impl AuditOptions {
    /// Under a minute on 2 CPUs: what is large is seen.
    pub fn quick() -> Self {
        Self {
            precision_pct: 1.0,
            tolerance_pct: 2.0,
            rounds: (6, 60),
            limit: Duration::from_secs(6),
            longest_run: Duration::from_millis(80),
            calls: 1_000_000,
            ..Self::default()
        }
    }

    /// About the least time for a number of tests that run on one CPU after the other
    /// (`by_turns`), and for one of those that run on all at once.
    pub fn least_time(&self, by_turns: usize, at_once: usize, cpus: usize) -> Duration {
        let runs = by_turns as f64 * cpus as f64 + at_once as f64;
        // Lengths of 1, 1/2 and 1/4.
        self.longest_run.mul_f64(1.75 * runs) * self.rounds.0
    }

    /// Refuses directories that are not there, before anything is measured for them.
    pub fn check(&self) -> Result<()> {
        let writes = |test: &TestRequest| matches!(test, TestRequest::Io | TestRequest::Both);
        let files = self.files.iter().filter(|_| self.tests.iter().any(writes));
        for path in files {
            std::fs::metadata(path).map_err(|source| Error::File {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TestRequest {
    /// A three-dimensional array, its elements moved between neighbours.
    Memory,
    /// Calls that only return information.
    Syscall,
    /// A word written and read, on each file system named.
    Io,
    /// Memory, calls and words in one program, as in the paper.
    Both,
    /// Long vectors, no I/O.
    Compute,
    /// Share of time that the system takes from a loop that only looks at the
    /// clock.
    Noise,
    Command {
        name: String,
        command: String,
    },
}

impl TestRequest {
    /// Those that need nothing to be named, in the order of the default run.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Compute,
            Self::Memory,
            Self::Syscall,
            Self::Io,
            Self::Both,
            Self::Noise,
        ]
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Memory => "memory",
            Self::Syscall => "syscall",
            Self::Io => "io",
            Self::Both => "both",
            Self::Compute => "compute",
            Self::Noise => "noise",
            Self::Command { name, .. } => name,
        }
    }
}

/// Why a text names no test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no test: there are memory, syscall, io, both, compute, noise and name=command")]
pub struct NoSuchTest(String);

impl FromStr for TestRequest {
    type Err = NoSuchTest;

    fn from_str(text: &str) -> std::result::Result<Self, NoSuchTest> {
        if let Some((name, command)) = text.split_once('=') {
            let (name, command) = (name.trim(), command.trim());
            let taken = Self::all().iter().any(|test| test.name() == name);
            if name.is_empty() || command.is_empty() || taken || name.starts_with("io:") {
                return Err(NoSuchTest(text.to_owned()));
            }
            return Ok(Self::Command {
                name: name.to_owned(),
                command: command.to_owned(),
            });
        }
        let found = Self::all()
            .into_iter()
            .find(|test| test.name() == text.trim());
        found.ok_or_else(|| NoSuchTest(text.to_owned()))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum AuditProgress {
    Preparing {
        name: String,
    },
    Round {
        name: String,
        /// Its rounds so far.
        round: u32,
        /// Its widest interval, to one side, percent; `None` before the fewest
        /// rounds are done.
        half_width_pct: Option<f64>,
        /// Of the whole audit, 0 to 1; at least.
        done: f64,
    },
    /// A test has enough, or cannot go on.
    Over {
        name: String,
        rounds: u32,
        /// Its widest interval, to one side, percent.
        half_width_pct: Option<f64>,
        /// Why it could not go on.
        failure: Option<String>,
    },
    /// What the user should hear at once.
    Remark(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_takes_no_longer_on_many_cpus() {
        let options = AuditOptions::default();
        let of = |by_turns, at_once, cpus| options.least_time(by_turns, at_once, cpus).as_millis();
        assert_eq!([of(0, 1, 1), of(0, 1, 256)], [3360; 2]);
        assert_eq!(of(1, 0, 256), 3360 * 256);
    }

    #[test]
    fn a_directory_that_is_not_there_is_refused_where_it_is_needed() {
        let with = |tests| AuditOptions {
            tests,
            files: vec!["/no/such/directory".into()],
            ..AuditOptions::default()
        };
        let error = with(TestRequest::all()).check().unwrap_err().to_string();
        assert!(error.starts_with("--file /no/such/directory: "), "{error}");
        assert!(with(vec![TestRequest::Compute]).check().is_ok());
    }
}
