// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traces, the same on every machine.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbag_jitter::synth::{Arrivals, Component, Lengths, NoiseModel, synthesise};
use sandbag_jitter::{JitterTrace, format, import};

/// Events at random of two kinds, short and long.
#[derive(Debug, Clone, Copy)]
pub struct TraceFile {
    pub cpus: u32,
    pub seconds: u64,
    pub per_ms: f64,
    /// Share of them that is long.
    pub long_share: f64,
    /// Shortest and longest of the long ones, ns.
    pub long_ns: (f64, f64),
}

/// 0.6 events a millisecond, a tenth of them 50 to 450 us, as the tests' traces.
pub const NOISY: TraceFile = TraceFile {
    cpus: 1,
    seconds: 400,
    per_ms: 0.6,
    long_share: 0.1,
    long_ns: (50e3, 450e3),
};

/// Events of many phases, 2 % of the time.
pub const LONG: TraceFile = TraceFile {
    per_ms: 0.001,
    long_share: 1.0,
    long_ns: (20e6, 20e6),
    ..NOISY
};

/// Synchronised virtual ranks all replay the same part of a trace, of some 10 to 100 ms:
/// it has to have enough events to be like the whole.
pub const MANY_SMALL: TraceFile = TraceFile {
    per_ms: 6.0,
    long_share: 0.02,
    long_ns: (20e3, 60e3),
    seconds: 100,
    ..NOISY
};

/// Events that timers can make: 500 us every 5 ms in the mean, a tenth of the
/// time.
pub const FOR_TIMERS: TraceFile = TraceFile {
    cpus: 2,
    seconds: 120,
    per_ms: 0.2,
    long_share: 1.0,
    long_ns: (300e3, 700e3),
};

impl fmt::Display for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (self.long_ns.0 / 1e3, self.long_ns.1 / 1e3);
        write!(
            f,
            "a synthetic trace of {} CPUs, {} events a millisecond",
            self.cpus, self.per_ms
        )?;
        match self.long_share {
            1.0 => write!(f, " of {least} to {most} us"),
            share => write!(
                f,
                " of 5 to 15 us, {} % of them of {least} to {most} us",
                share * 100.0
            ),
        }
    }
}

impl TraceFile {
    pub fn trace(&self, seed: u64) -> Result<JitterTrace> {
        let even =
            |least: f64, most: f64| Lengths::Quantiles(vec![least, (least + most) / 2.0, most]);
        let (least, most) = self.long_ns;
        let lengths = Lengths::Mixed(vec![
            (1.0 - self.long_share, even(5e3, 15e3)),
            (self.long_share, even(least, most)),
        ]);
        let arrivals = Arrivals::Poisson {
            per_s: self.per_ms * 1e3,
        };
        let model = NoiseModel {
            cpus: (0..self.cpus).collect(),
            duration_ns: self.seconds * 1_000_000_000,
            seed,
            components: vec![Component::new(arrivals, lengths)],
        };
        Ok(synthesise(&model)?.trace)
    }

    pub fn write(&self, dir: &Path, name: &str) -> Result<PathBuf> {
        let path = dir.join(name);
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let mut out = BufWriter::new(file);
        format::write(&self.trace(1)?, &mut out)?;
        out.flush()?;
        Ok(path)
    }
}

pub fn read(path: &Path) -> Result<JitterTrace> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    let read = import::read(
        BufReader::new(file),
        &name,
        &import::ImportOptions::default(),
    )?;
    Ok(read.into_trace()?)
}
