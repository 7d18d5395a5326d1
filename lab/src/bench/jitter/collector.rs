// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector: its own figures of its loop, and the cost of recording many events.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbag_jitter::{CpuNotes, Notes, format};

use super::Bench;
use super::figures::Figures;
use super::figures::Target::{Least, Most, None};
use crate::program::{RunCost, run_cost};

const TITLE: &str = "The collector";
/// Memory for the many events, MiB: 32 bytes an event and CPU, and some.
const MIB_PER_MILLION: u64 = 40;

pub fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let seconds = bench.seconds;
    let (used, path) = record(bench, &format!("-d {seconds}s"), "loop.sbj")?;
    let (notes, _) = read(&path)?;
    let all = notes.cpus.iter();
    let mean = |of: fn(&CpuNotes) -> f64| {
        all.clone().map(of).sum::<f64>() / notes.cpus.len().max(1) as f64
    };
    let sum = |of: fn(&CpuNotes) -> u64| all.clone().map(of).sum::<u64>() as f64;
    let read_ns = mean(|n| n.read_ns);
    let loop_ns = mean(|n| n.loop_ns);
    let in_readings = mean(|n| n.loop_ns / n.read_ns);
    let least_ns = mean(|n| n.least_ns);
    let threshold_ns = mean(|n| n.threshold_ns);
    let drift_ppm = mean(|n| n.drift_ppm.abs());
    let values = [
        ("a bare reading of the counter, ns", None, read_ns),
        ("a pass of the loop, ns", None, loop_ns),
        ("a pass of the loop, bare readings", Most(2.0), in_readings),
        (
            "storing an event, ns more than a pass",
            Most(50.0),
            mean(|n| n.store_ns),
        ),
        (
            "least difference of two readings (tmin), ns",
            None,
            least_ns,
        ),
        (
            "detectable above, ns (published: 300)",
            Most(300.0),
            threshold_ns,
        ),
        ("drift of the counter, ppm, size", None, drift_ppm),
        ("page faults of the loops", Most(0.0), sum(|n| n.faults)),
        ("events dropped", Most(0.0), sum(|n| n.dropped)),
        ("memory of an ordinary recording, MiB", None, used.most_mib),
    ];
    figures.add_all(TITLE, values);
    let millions = bench.events.div_ceil(1_000_000);
    let mib = millions * MIB_PER_MILLION * bench.cpus as u64;
    // Every reading is an event.
    let words = format!(
        "--events {} --threshold 1ns --preheat 0s --max-memory {mib}",
        bench.events
    );
    let (used, path) = record(bench, &words, "many.sbj")?;
    let bytes = std::fs::metadata(&path)?.len() as f64;
    let (notes, events) = read(&path)?;
    let dropped: u64 = notes.cpus.iter().map(|n| n.dropped).sum();
    let all = events.max(1) as f64;
    let asked = bench.events * bench.cpus as u64;
    let recorded = events as f64 * 100.0 / asked as f64;
    let cpu_ns = used.cpu_s * 1e9 / all;
    let values = [
        (
            "many: events recorded, of those asked for, %",
            Least(100.0),
            recorded,
        ),
        ("many: events dropped", Most(0.0), dropped as f64),
        (
            "many: CPU time of all of `record`, ns per event",
            None,
            cpu_ns,
        ),
        ("many: bytes per event in the file", None, bytes / all),
        ("many: memory, MiB", None, used.most_mib),
    ];
    figures.add_all(TITLE, values);
    std::fs::remove_file(path)?;
    Ok(())
}

fn record(bench: &Bench, words: &str, name: &str) -> Result<(RunCost, PathBuf)> {
    let words = format!("jitter record --attribute none -q {words} --force -o {name}");
    let used = run_cost(&mut bench.command(&words)).with_context(|| format!("sandbag {words}"))?;
    Ok((used, bench.dir.path().join(name)))
}

/// Its notes, and how many events it holds.
fn read(path: &Path) -> Result<(Notes, u64)> {
    let mut reader = format::TraceReader::new(BufReader::new(File::open(path)?))?;
    let mut events = 0;
    while let Some(block) = reader.next_block()? {
        events += block.events.len() as u64;
    }
    let notes = reader.notes().context("the recording was cut off")?;
    Ok((notes.clone(), events))
}
