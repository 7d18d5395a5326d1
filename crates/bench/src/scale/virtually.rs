// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The predictor against the compute-barrier benchmark with virtual ranks: each
//! computes and suffers for itself, and the slowest of each phase is looked for
//! afterwards.
//!
//! What the host has of its own would be in the measurement, and the slowest of
//! 2048 is mostly that; so each phase is done several times with the same events,
//! and the fastest counts. What is left of the host is told with the prediction
//! where ranks are never synchronised (as it was in the same phase without jitter).
//! Synchronised, ranks meet the same jitter in a phase, so the slowest is later by it
//! than the slowest without: the difference of the two is held against the
//! prediction.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use sandbag_lab::interrupt;
use serde_json::{Value, json};

use super::run::run;
use super::traces::{MANY_SMALL, Made};
use super::{Section, Stand};

/// Powers of two that are told.
const FROM: u64 = 16;
const UNTIL: u64 = 2048;
/// Trials of a phase.
const REPEATS: &str = "3";

/// Of one number of ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Compared {
    ranks: u64,
    /// Percent of the quantum, and the half of its 95 % interval.
    measured: (f64, f64),
    /// The same, predicted, with its interval.
    predicted: (f64, Option<(f64, f64)>),
}

impl Compared {
    /// From the figures of `scale bench --virtual`.
    fn all(figures: &Value) -> Vec<Self> {
        let list = |name: &str| figures[name].as_array().cloned().unwrap_or_default();
        let calibrated = figures["calibrated_ns"].as_f64().unwrap_or(1.0);
        let with_host = list("predicted_with_host");
        let each = list("slowdowns").into_iter().zip(list("predicted"));
        each.enumerate()
            .filter_map(|(i, (one, point))| {
                let mean = point["mean"]["slowdown_pct"].as_f64()?;
                let interval = &point["mean"]["interval_pct"];
                let interval = interval[0].as_f64().zip(interval[1].as_f64());
                let jitter_ns = one["jitter_ns"].as_f64()?;
                let (measured, error, predicted) = match with_host.get(i) {
                    Some(with) => (
                        one["over_quantum_pct"].as_f64()?,
                        with["apart_points"].as_f64()?,
                        with["pct"].as_f64()?,
                    ),
                    None => {
                        let added = jitter_ns - one["quiet_ns"].as_f64()?;
                        let error = one["added_error_points"].as_f64()?;
                        (added / calibrated * 100.0, error, mean)
                    }
                };
                // With the host's own it is as sure as without.
                let moved =
                    interval.map(|(low, high)| (low - mean + predicted, high - mean + predicted));
                Some(Self {
                    ranks: one["ranks"].as_u64()?,
                    measured: (measured, error),
                    predicted: (predicted, moved),
                })
            })
            .collect()
    }

    /// The two intervals meet.
    fn inside(&self) -> bool {
        let (mean, interval) = self.predicted;
        let (low, high) = interval.unwrap_or((mean, mean));
        let (found, error) = self.measured;
        found + error >= low && found - error <= high
    }
}

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let made = Made {
        cpus: 2,
        ..MANY_SMALL
    };
    let (trace, of) = match stand.trace {
        Some(path) => (path.to_owned(), path.display().to_string()),
        None => (
            made.write(stand.dir, "virtual.sbj")?,
            "a made trace of two CPUs, 6 events a millisecond of 5 to 15 us, one in fifty of 20 to \
             60 us"
                .to_owned(),
        ),
    };
    // Shorter phases are more of them.
    let (seconds, quantum) = if stand.quick {
        (40, "200us")
    } else {
        (600, "1ms")
    };
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut inside, mut count) = (0, 0);
    for sync in stand.syncs {
        let file = stand.dir.join("virtual.json");
        let mut command = Command::new(stand.sandbag);
        command.args(["-q", "scale", "bench", "--virtual", "--clock", "cpu"]);
        command.args(["--repeats", REPEATS, "--quantum", quantum]);
        command.args([
            "--ranks",
            "2048",
            "--sync",
            sync,
            "-d",
            &format!("{seconds}s"),
        ]);
        command.arg("--jitter").arg(&trace).arg("--json").arg(&file);
        run(&mut command)?;
        let text = fs::read_to_string(&file).context("read the figures")?;
        let found: Value = serde_json::from_str(&text)?;
        for one in Compared::all(&found) {
            if !(FROM..=UNTIL).contains(&one.ranks) {
                continue;
            }
            count += 1;
            inside += u32::from(one.inside());
            rows.push(line(sync, &one, found["phases"].as_u64().unwrap_or(0)));
        }
        eprintln!("sync {sync}: {inside} of {count} inside so far");
        figures.push(json!({"sync": sync, "figures": found}));
        interrupt::check()?;
    }
    Ok(Section {
        title: "Against virtual ranks",
        note: format!(
            "`sandbag scale bench --virtual --clock cpu --ranks 2048 --repeats {REPEATS} --quantum \
             {quantum}`, {seconds} s for each synchronisation; {of}. Percent of the calibrated quantum. Never synchronised: slowdown \
             and prediction both with the host's own noise; else: what jitter adds to the slowest \
             rank. In brackets 95 % intervals: of the measured, from how far phases with jitter are from \
             the same phases without (or with the host's own as predicted), and of the prediction. \
             Inside: they meet. Of {count} inside: {inside}."
        ),
        heads: vec!["sync", "ranks", "phases", "measured", "predicted", "inside"],
        rows,
        figures: figures.into(),
    })
}

fn line(sync: &str, one: &Compared, phases: u64) -> Vec<String> {
    let (found, error) = one.measured;
    let (mean, interval) = one.predicted;
    let interval =
        interval.map_or_else(String::new, |(low, high)| format!(" ({low:.2}..{high:.2})"));
    vec![
        sync.to_owned(),
        one.ranks.to_string(),
        phases.to_string(),
        format!("{found:.2} ({:.2}..{:.2})", found - error, found + error),
        format!("{mean:.2}{interval}"),
        if one.inside() { "yes" } else { "no" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(with_host: Value) -> Value {
        json!({
            "calibrated_ns": 1000.0,
            "slowdowns": [{
                "ranks": 16, "jitter_ns": 1300.0, "quiet_ns": 1100.0,
                "over_quantum_pct": 30.0, "added_error_points": 1.0,
            }],
            "predicted": [{"mean": {"slowdown_pct": 21.5, "interval_pct": [21.2, 22.0]}}],
            "predicted_with_host": with_host,
        })
    }

    #[test]
    fn synchronised_what_jitter_adds_is_compared() {
        let all = Compared::all(&figures(Value::Null));
        assert_eq!(all[0].measured, (20.0, 1.0));
        assert_eq!(all[0].predicted, (21.5, Some((21.2, 22.0))));
        assert!(!all[0].inside());
    }

    #[test]
    fn never_synchronised_the_host_is_in_both() {
        let all = Compared::all(&figures(json!([{"pct": 30.9, "apart_points": 1.0}])));
        assert_eq!(all[0].measured, (30.0, 1.0));
        assert_eq!(all[0].predicted.0, 30.9);
        assert!(all[0].inside());
        assert!(Compared::all(&json!({})).is_empty());
    }
}
