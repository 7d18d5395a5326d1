// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile is: per CPU, a piecewise-constant load with an explicit end.

use std::fmt;

use crate::{Format, Result};

/// The load of one CPU over one step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProfileCell {
    /// Busy share of the delivered time (wall minus steal), 0 to 100.
    pub load_pct: f64,
    /// Steal as a share of the wall time, 0 to 100.
    pub steal_pct: f64,
}

impl ProfileCell {
    /// A load without steal.
    pub const fn load(load_pct: f64) -> Self {
        Self {
            load_pct,
            steal_pct: 0.0,
        }
    }
}

/// From `start_ns` (included) to `end_ns` (excluded), counted from the
/// beginning of the profile, each CPU has the given load.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Begin, ns since the beginning of the profile.
    pub start_ns: u64,
    /// End, ns since the beginning of the profile; later than the begin.
    pub end_ns: u64,
    /// One per CPU of [`ProfileHeader::cpus`], in its order; `None` where the load
    /// is unknown (a hole in the recording, a CPU that was offline).
    pub cells: Vec<Option<ProfileCell>>,
}

impl Step {
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// When a recording began. Formats that write local time without a usable
/// zone keep it as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// A point in time.
    Utc(jiff::Timestamp),
    /// The time on the recording machine's wall; its zone is not known.
    Local(jiff::civil::DateTime),
}

impl Begin {
    /// `ns` earlier; `None` beyond the calendar.
    pub fn earlier(self, ns: u64) -> Option<Self> {
        self.shifted(jiff::SignedDuration::from_nanos(-i64::try_from(ns).ok()?))
    }

    /// `ns` later; `None` beyond the calendar.
    pub fn later(self, ns: u64) -> Option<Self> {
        self.shifted(jiff::SignedDuration::from_nanos(i64::try_from(ns).ok()?))
    }

    fn shifted(self, by: jiff::SignedDuration) -> Option<Self> {
        Some(match self {
            Self::Utc(t) => Self::Utc(t.checked_add(by).ok()?),
            Self::Local(t) => Self::Local(t.checked_add(by).ok()?),
        })
    }
}

impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc(t) => t.fmt(f),
            Self::Local(t) => t.fmt(f),
        }
    }
}

impl std::str::FromStr for Begin {
    type Err = jiff::Error;

    /// `2026-11-21T01:10:52Z` is a point in time, without zone a local time.
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse()
            .map(Self::Utc)
            .or_else(|_| text.parse().map(Self::Local))
    }
}

/// What is known of a profile before its first step.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileHeader {
    /// Kernel numbers of the CPUs, ascending unless an operation asked for
    /// another order; never twice the same.
    pub cpus: Vec<u32>,
    /// What it was read from.
    pub format: Format,
    /// The machine it was recorded on.
    pub host: Option<String>,
    /// When the recording began.
    pub begins_at: Option<Begin>,
    /// Whether steal was recorded; where it was not it reads as 0.
    pub has_steal: bool,
}

impl ProfileHeader {
    /// A profile of unknown origin.
    pub fn new(cpus: Vec<u32>, format: Format) -> Self {
        Self {
            cpus,
            format,
            host: None,
            begins_at: None,
            has_steal: false,
        }
    }
}

/// A profile read as a stream, in memory that does not grow with its length.
///
/// Steps are contiguous: the first starts at 0, each starts where the one
/// before ended, and none is empty. The end of the last is the end of the
/// profile.
pub trait Steps: Send {
    fn header(&self) -> &ProfileHeader;
    /// The next step; `None` after the last. After an error the stream is at
    /// its end.
    ///
    /// # Errors
    /// A fault of the input at this point.
    fn next_step(&mut self) -> Result<Option<Step>>;
    /// What the user should hear, complete once the stream is at its end.
    fn warnings(&self) -> Vec<String>;
}

pub type BoxSteps = Box<dyn Steps>;

impl<T: Steps + ?Sized> Steps for &mut T {
    fn header(&self) -> &ProfileHeader {
        (**self).header()
    }
    fn next_step(&mut self) -> Result<Option<Step>> {
        (**self).next_step()
    }
    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }
}

impl Steps for BoxSteps {
    fn header(&self) -> &ProfileHeader {
        (**self).header()
    }
    fn next_step(&mut self) -> Result<Option<Step>> {
        (**self).next_step()
    }
    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }
}

/// Collects the mean of cells over time.
///
/// Load is a share of the delivered time, so loads are weighted with it: the
/// mean over two steps is the load that one longer sample would have shown.
/// Unknown cells count for nothing but [`Mean::unknown_ns`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Mean {
    known_ns: f64,
    delivered_ns: f64,
    busy_ns: f64,
    stolen_ns: f64,
    load_ns: f64,
    pub(crate) unknown_ns: u64,
    only: EqualCells,
}

/// A mean of equal cells is that cell, without a rounding error.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum EqualCells {
    #[default]
    Nothing,
    This(ProfileCell),
    Several,
}

impl Mean {
    pub(crate) fn add(&mut self, cell: Option<ProfileCell>, length_ns: u64) {
        let Some(cell) = cell else {
            self.unknown_ns = self.unknown_ns.saturating_add(length_ns);
            return;
        };
        self.only = match self.only {
            EqualCells::Nothing => EqualCells::This(cell),
            EqualCells::This(same) if same == cell => self.only,
            _ => EqualCells::Several,
        };
        let length = length_ns as f64;
        let stolen = length * cell.steal_pct / 100.0;
        self.known_ns += length;
        self.stolen_ns += stolen;
        self.delivered_ns += length - stolen;
        self.busy_ns += (length - stolen) * cell.load_pct / 100.0;
        self.load_ns += length * cell.load_pct / 100.0;
    }

    /// `None` where nothing is known.
    pub(crate) fn cell(&self) -> Option<ProfileCell> {
        match self.only {
            EqualCells::Nothing => None,
            EqualCells::This(cell) => Some(cell),
            EqualCells::Several => Some(ProfileCell {
                load_pct: if self.delivered_ns > 0.0 {
                    (self.busy_ns / self.delivered_ns * 100.0).clamp(0.0, 100.0)
                } else {
                    (self.load_ns / self.known_ns * 100.0).clamp(0.0, 100.0)
                },
                steal_pct: (self.stolen_ns / self.known_ns * 100.0).clamp(0.0, 100.0),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_weighs_with_the_delivered_time() {
        let mut mean = Mean::default();
        mean.add(Some(ProfileCell::load(100.0)), 100);
        mean.add(
            Some(ProfileCell {
                load_pct: 0.0,
                steal_pct: 50.0,
            }),
            100,
        );
        mean.add(None, 1000);
        let cell = mean.cell().unwrap();
        assert!((cell.load_pct - 100.0 / 1.5).abs() < 1e-9);
        assert!((cell.steal_pct - 25.0).abs() < 1e-9);
        assert_eq!(mean.unknown_ns, 1000);
    }

    #[test]
    fn a_begin_is_read_as_it_is_printed() {
        for text in ["2026-11-21T01:10:52Z", "2026-11-21T01:10:52"] {
            assert_eq!(text.parse::<Begin>().unwrap().to_string(), text);
        }
        assert!("yesterday".parse::<Begin>().is_err());
    }
}
