// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profiles of cpu-load-generator as it is on PyPI.
//!
//! ```text
//! [{"cpu_num": 0, "repeat": 2, "sequence": [{"load": 0.5, "duration_s": 10},
//!                                           {"load": 1.0, "duration_s": 5}]},
//!  {"cpu_num": 1, "repeat": 1, "sequence": [{"load": 0.1, "duration_s": 60}]}]
//! ```
//!
//! All CPUs begin together, each passes through its sequence `repeat` times.
//! Read in GaetanoCarlucci/CPULoadGenerator at commit b6e4a690:
//! `cpu_load_generator/_interface.py` (`from_profile`),
//! `cpu_load_generator/__main__.py` (`-p`) and
//! `load_profiles/default_profile.json`.
//!
//! CPU after CPU, so the document is held in memory: at most 64 MiB, and 16
//! bytes per entry of a sequence, however often it is repeated.

use std::io::Read;

use serde::Deserialize;

use crate::number::{MAX_CPU, NS_PER_S};
use crate::reader::Lines;
use crate::stream::make_steps;
use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Step};
use sandbag_ui::quantity::Seconds;

const MAX_DOCUMENT: u64 = 64 << 20;
/// Of all CPUs together: a repetition may be any number.
const MAX_STEPS: u64 = 10_000_000;

#[derive(Debug, Deserialize)]
struct Sequence {
    cpu_num: u32,
    repeat: u64,
    sequence: Vec<SequencePhase>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct SequencePhase {
    load: Load,
    duration_s: Duration,
}

/// A share of one CPU.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Load(f64);

impl TryFrom<f64> for Load {
    type Error = String;

    fn try_from(load: f64) -> Result<Self, String> {
        match load {
            0.0..=1.0 => Ok(Self(load)),
            _ => Err(format!(
                "load {load:?} is not between 0 and 1 (the share of one CPU)"
            )),
        }
    }
}

/// Nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Duration(u64);

impl TryFrom<f64> for Duration {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        let ns = (seconds * NS_PER_S as f64).round();
        if (0.0..u64::MAX as f64).contains(&ns) {
            Ok(Self(ns as u64))
        } else {
            Err(format!(
                "duration_s {seconds:?} is no length of time in seconds"
            ))
        }
    }
}

pub(super) fn read(lines: Lines) -> Result<BoxSteps> {
    let (from, file) = lines.into_parts();
    let nowhere = |fault: Fault| fault.at(&file, None);
    let mut text = Vec::new();
    let read = from.take(MAX_DOCUMENT + 1).read_to_end(&mut text);
    read.map_err(|e| nowhere(Fault::Io(e)))?;
    if text.len() as u64 > MAX_DOCUMENT {
        let message = format!("the document is longer than {MAX_DOCUMENT} bytes");
        return Err(nowhere(Fault::Json(message)));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let mut all: Vec<Sequence> = serde_json::from_slice(text).map_err(|e| {
        let mut error = Fault::json(&e).at(&file, e.line() as u64);
        if let Some(place) = &mut error.place {
            place.column = Some(e.column() as u64);
        }
        error
    })?;
    all.sort_by_key(|s| s.cpu_num);
    for pair in all.windows(2) {
        if pair[0].cpu_num == pair[1].cpu_num {
            let name = format!("cpu_num {}", pair[0].cpu_num);
            return Err(nowhere(Fault::Duplicate(name)));
        }
    }
    if let Some(last) = all.last().filter(|last| last.cpu_num > MAX_CPU) {
        return Err(nowhere(Fault::unexpected(
            "the number of a CPU",
            last.cpu_num.to_string(),
        )));
    }
    let cpus: Vec<u32> = all.iter().map(|s| s.cpu_num).collect();
    let mut loads: Vec<SequenceCpu> = all.into_iter().map(SequenceCpu::new).collect();
    let steps = loads
        .iter()
        .map(SequenceCpu::steps)
        .fold(0, u64::saturating_add);
    let ends: Option<Vec<u64>> = loads.iter().map(SequenceCpu::end_ns).collect();
    let Some(ends) = ends.filter(|_| steps <= MAX_STEPS) else {
        return Err(nowhere(Fault::unexpected(
            format!("at most {MAX_STEPS} steps in less than 500 years"),
            format!("{steps} steps, sequences times their repetitions"),
        )));
    };
    let end_ns = ends.iter().copied().max().unwrap_or(0);
    if end_ns == 0 {
        return Err(nowhere(Fault::NothingLeft { end: Seconds(0) }));
    }
    let early = ends.iter().filter(|ns| **ns < end_ns).count();
    let early = match early {
        0 => Vec::new(),
        early => vec![format!(
            "{early} CPUs end before the profile does and have no load from there on"
        )],
    };
    let mut at_ns = 0;
    let header = ProfileHeader::new(cpus, Format::CpuLoadGenerator);
    Ok(make_steps(header, early, move || {
        if at_ns >= end_ns {
            return Ok(None);
        }
        let start_ns = at_ns;
        at_ns = end_ns;
        let mut cells = Vec::with_capacity(loads.len());
        for cpu in &mut loads {
            let (load, until_ns) = cpu.at(start_ns);
            at_ns = at_ns.min(until_ns);
            cells.push(Some(ProfileCell::load(load * 100.0)));
        }
        Ok(Some(Step {
            start_ns,
            end_ns: at_ns,
            cells,
        }))
    }))
}

/// One CPU and where it is in its sequence.
struct SequenceCpu {
    phases: Vec<SequencePhase>,
    /// Rounds that are not begun.
    rounds: u64,
    /// The next phase of this round.
    next: usize,
    load: f64,
    until_ns: u64,
}

impl SequenceCpu {
    fn new(mut from: Sequence) -> Self {
        from.sequence.retain(|phase| phase.duration_s.0 > 0);
        Self {
            next: from.sequence.len(),
            phases: from.sequence,
            rounds: from.repeat,
            load: 0.0,
            until_ns: 0,
        }
    }

    fn steps(&self) -> u64 {
        self.rounds.saturating_mul(self.phases.len() as u64)
    }

    /// `None` beyond what is counted.
    fn end_ns(&self) -> Option<u64> {
        let mut lengths = self.phases.iter().map(|phase| phase.duration_s.0);
        let round_ns = lengths.try_fold(0u64, u64::checked_add)?;
        round_ns.checked_mul(self.rounds)
    }

    /// Its load from a time on, and until when.
    fn at(&mut self, ns: u64) -> (f64, u64) {
        while self.until_ns <= ns {
            if self.next == self.phases.len() && self.rounds > 0 && self.next > 0 {
                self.rounds -= 1;
                self.next = 0;
            }
            match self.phases.get(self.next) {
                Some(phase) => {
                    self.next += 1;
                    self.load = phase.load.0;
                    self.until_ns += phase.duration_s.0;
                }
                None => {
                    self.load = 0.0;
                    self.until_ns = u64::MAX;
                }
            }
        }
        (self.load, self.until_ns)
    }
}
