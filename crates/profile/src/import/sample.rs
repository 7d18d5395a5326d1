// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the sampled formats have in common: samples with a stamp for their
//! end, and what a file says of itself.

use crate::number::NS_PER_S;
use crate::{Error, Fault, ProfileCell, Result};

/// What one stamp of a recording says.
#[derive(Debug, Default)]
pub(super) struct ImportSample {
    /// When the interval began, ns of the file's clock, where the file says.
    pub(super) start_ns: Option<i64>,
    pub(super) end_ns: i64,
    /// How far `start_ns` may lie from the end of the sample before without
    /// meaning a hole: the format's resolution.
    pub(super) slack_ns: i64,
    /// CPU and load; an offline CPU is absent or `None`, a load that cannot be is NaN.
    pub(super) cells: Vec<(u32, Option<ProfileCell>)>,
}

impl ImportSample {
    /// Whether the CPU has a value. In the usual, ascending order one
    /// comparison tells.
    pub(super) fn has(&self, cpu: u32) -> bool {
        self.cells.last().is_some_and(|(last, _)| cpu <= *last)
            && self.cells.iter().any(|(c, _)| *c == cpu)
    }
}

/// What a file says of itself, complete once it was read to its end.
#[derive(Debug, Default)]
pub(super) struct ImportSummary {
    pub(super) host: Option<String>,
    /// Whether stamps are local time; they are UTC otherwise.
    pub(super) local: bool,
    /// Whether stamps count from an unknown moment.
    pub(super) undated: bool,
    /// Whether steal was recorded, for any CPU at any time. Without it the
    /// steal of the cells is 0.
    pub(super) has_steal: bool,
    pub(super) warnings: Vec<String>,
}

pub(super) const CLOCKS_CHANGED: &str = "; if clocks were changed there (summer time, a clock set back), \
                              give the parts before and after it as files of their own";

/// The same for recordings of sysstat's daily files.
pub(super) const BY_SADF: &str = "; if clocks were changed there (summer time, a clock set back), \
                                  export the parts before and after it apart, or with `sadf -U`";

/// The same for mpstat, which records as it runs.
pub(super) const BY_MPSTAT: &str = "; if clocks were changed there (summer time, a clock set back), \
                                    give the parts before and after it as files of their own; \
                                    `TZ=UTC mpstat` records true times";

/// A recording as a stream of samples.
pub(super) trait Samples: Send {
    /// Reads the next sample into `sample`; false at the end.
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool>;
    fn about(&self) -> ImportSummary;
    /// By how much the stamps are ahead of UTC, where the file says so only
    /// behind them. Asked for at the end.
    fn ahead_of_utc_ns(&self) -> i64 {
        0
    }
    /// The fault at the place last read.
    fn here(&self, fault: Fault) -> Error;
    /// What to do about times that go back or skip an hour; begins with `; `.
    fn remedy_for_times(&self) -> &'static str {
        CLOCKS_CHANGED
    }
}

pub(super) type BoxSamples = Box<dyn Samples>;

/// An interval of sysstat, ns, at least a second; `None` if it is not known: one below 0
/// runs over and is written as 184467440737095516 s.
pub(super) fn interval_ns(seconds: i64) -> Option<i64> {
    const LONGEST_S: i64 = 366 * 86_400;
    (seconds <= LONGEST_S).then(|| seconds.max(1) * NS_PER_S as i64)
}

/// [`ImportSample::slack_ns`] where stamps and intervals are whole seconds, each
/// rounded for itself; over long intervals the clocks behind the two drift
/// apart.
pub(super) fn slack(interval_ns: i64) -> i64 {
    NS_PER_S as i64 + interval_ns / 100
}

/// A warning for each count above 0, which replaces `{}` in its text.
pub(super) fn count_warnings<const N: usize>(counts: [(u64, &str); N]) -> Vec<String> {
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    counts
        .map(|(count, text)| text.replacen("{}", &count.to_string(), 1))
        .collect()
}

/// Warnings of values that were left out, and of restarts.
pub(super) fn duplicate_and_restart_warnings(duplicates: u64, restarts: u64) -> Vec<String> {
    count_warnings([
        (
            duplicates,
            "{} values stand there for a CPU and stamp that already had one; the first was taken",
        ),
        (restarts, "the machine was restarted {} times"),
    ])
}
