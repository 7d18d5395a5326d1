// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a reader of a format is given, and what it gives.

use std::cell::Cell;
use std::io::Read;

use clap::ValueEnum;
use serde::de::DeserializeOwned;

use super::number;
use super::rows::{LinePlace, TextLines};
use crate::{CpuCounts, Distribution, Fault, JitterTrace, Result};

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum JitterRecording {
    Trace(JitterTrace),
    /// Only how they are distributed.
    Distribution(Distribution),
}

impl JitterRecording {
    pub(super) fn distribution(
        recorder: impl Into<String>,
        series: impl IntoIterator<Item = CpuCounts>,
        mut warnings: Vec<String>,
        whole: LinePlace<'_>,
    ) -> Result<Self> {
        let (recorder, series) = (recorder.into(), Vec::from_iter(series));
        if series.is_empty() {
            return Err(whole.fault(Fault::NothingKnown));
        }
        let least_pct = |one: &CpuCounts| one.noise_pct().map_or(0.0, |(least, _)| least);
        if let Some(one) = series.iter().find(|one| least_pct(one) > 100.0) {
            warnings.push(format!(
                "the events of cpu{} take {:.0} % of the time in which they were counted, which \
                 cannot be: a count or the time is wrong, or the time was rounded",
                one.cpu,
                least_pct(one)
            ));
        }
        Ok(Self::Distribution(Distribution {
            recorder,
            series,
            warnings,
        }))
    }

    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Trace(trace) => &trace.warnings,
            Self::Distribution(distribution) => &distribution.warnings,
        }
    }

    pub(super) fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        match self {
            Self::Trace(trace) => trace.warnings.extend(warnings),
            Self::Distribution(distribution) => distribution.warnings.extend(warnings),
        }
    }

    /// The events.
    ///
    /// # Errors
    /// There is only a distribution.
    pub fn into_trace(self) -> Result<JitterTrace> {
        match self {
            Self::Trace(trace) => Ok(trace),
            Self::Distribution(distribution) => Err(Fault::NotEvents(distribution.recorder).into()),
        }
    }
}

/// The unit of times that a file does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Picoseconds
    Ps,
}

impl Unit {
    pub(super) fn in_ns(self) -> f64 {
        match self {
            Self::Ns => 1.0,
            Self::Us => 1e3,
            Self::Ps => 1e-3,
        }
    }
}

/// Facts that a file may lack, and the parts of it that are needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// The unit of its times.
    pub unit: Option<Unit>,
    /// The CPU on which it was recorded; by default the number at the end of the file's
    /// name, else 0.
    pub cpu: Option<u32>,
    /// Causes of events are not needed: they are not kept in memory.
    pub without_causes: bool,
}

/// What a reader reads from.
pub(super) struct Input<'a> {
    pub(super) lines: TextLines<'a>,
    pub(super) options: &'a ImportOptions,
    name: &'a str,
}

impl<'a> Input<'a> {
    pub(super) fn new(
        from: impl Read + Send + 'a,
        name: &'a str,
        options: &'a ImportOptions,
        cut: &'a Cell<Option<String>>,
    ) -> Self {
        let lines = TextLines::new(Box::new(from), name, cut);
        Self {
            lines,
            options,
            name,
        }
    }

    /// The file as a whole.
    pub(super) fn whole(&self) -> LinePlace<'a> {
        self.lines.whole()
    }

    pub(super) fn json<T: DeserializeOwned>(self, what: &'static str) -> Result<T> {
        let whole = self.whole();
        serde_json::from_reader(self.lines.into_reader())
            .map_err(|cause| whole.fault(Fault::Json { what, cause }))
    }

    /// The CPU of a file that holds one and does not name it. Tools that write a file per
    /// CPU put its number at the end of the name.
    pub(super) fn only_cpu(&self) -> u32 {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        let mut parts = file.rsplit(['.', '_']);
        let ending = parts
            .find(|part| !matches!(*part, "dat" | "txt" | "out" | "raw" | "gz" | "xz" | "zst"));
        let of_name = ending.and_then(number::cpu);
        self.options.cpu.or(of_name).unwrap_or(0)
    }
}
