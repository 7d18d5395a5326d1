// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The predictor against the compute-barrier benchmark with virtual ranks: each
//! computes and suffers for itself, and the slowest of each phase is looked for
//! afterwards.
//!
//! What the host has of its own would be in the measurement, and the slowest of
//! 2048 is mostly that; so each phase is done several times with the same events,
//! and the fastest counts. What is left of the host is told with the prediction: by
//! how much the slowest is later, in a replay of the ranks by themselves, with what each
//! took for the same phase without jitter than with the quantum.

use std::process::Command;

use anyhow::Result;
use sandbag_linux::interrupt;
use serde_json::{Value, json};

use super::traces::{MANY_SMALL, TraceFile};
use super::{Section, Stand};

/// Powers of two that are told.
const FROM: u64 = 16;
const UNTIL: u64 = 2048;
/// Trials of a phase.
const REPEATS: &str = "3";

/// Of one number of ranks, percent of the quantum.
#[derive(Debug, Clone, Copy, PartialEq)]
struct VirtualPair {
    ranks: u64,
    /// And the half of its 95 % interval.
    measured: (f64, f64),
    /// Predicted.
    alone: f64,
    /// What the host's own adds to that.
    host: f64,
    /// Interval of the prediction with the host's own.
    predicted: (f64, f64),
    /// By a replay with the host's own, over positions by chance.
    replayed: f64,
    /// Measured less a replay of ranks where these were, and the half of its 95 %
    /// interval, points.
    beside: Option<(f64, f64)>,
    /// Half of the interval of that replay without the host's own, points.
    alone_error: f64,
}

impl VirtualPair {
    /// From the figures of `scale bench --virtual`.
    fn all(figures: &Value) -> Vec<Self> {
        let list = |name: &str| figures[name].as_array().cloned().unwrap_or_default();
        let with_host = list("predicted_with_host");
        let each = list("slowdowns").into_iter().zip(list("predicted"));
        each.zip(with_host)
            .filter_map(|((one, point), with_host)| {
                let mean = point["mean"]["slowdown_pct"].as_f64()?;
                let interval = &point["mean"]["interval_pct"];
                let interval = interval[0].as_f64().zip(interval[1].as_f64());
                let with = |name: &str| with_host[name].as_f64();
                let host = with("pct")? - with("alone_pct")?;
                let (low, high) = interval.unwrap_or((mean, mean));
                Some(Self {
                    ranks: one["ranks"].as_u64()?,
                    measured: (one["over_quantum_pct"].as_f64()?, with("apart_points")?),
                    alone: mean,
                    host,
                    // How sure the host's own is, is in the measured interval.
                    predicted: (low + host, high + host),
                    replayed: with("pct")?,
                    beside: {
                        let beside = &with_host["beside_points"];
                        beside[0].as_f64().zip(beside[1].as_f64())
                    },
                    alone_error: with("alone_points")?,
                })
            })
            .collect()
    }

    /// Nothing is beside a replay of the same positions but chance.
    fn none_beside(&self) -> bool {
        self.beside.is_some_and(|(more, error)| more.abs() <= error)
    }

    /// The two intervals meet.
    fn inside(&self) -> bool {
        self.meets(self.measured)
    }

    /// The same of what would have been measured at all positions, not at these: what was
    /// measured without what these are beside all (a control variate).
    fn inside_anywhere(&self) -> bool {
        self.beside.is_some_and(|(more, error)| {
            self.meets((self.replayed + more, error.hypot(self.alone_error)))
        })
    }

    fn meets(&self, (found, error): (f64, f64)) -> bool {
        let (low, high) = self.predicted;
        found + error >= low && found - error <= high
    }
}

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let made = TraceFile {
        cpus: 2,
        ..MANY_SMALL
    };
    let (trace, of) = stand.trace_or(&made)?;
    // Shorter phases are more of them.
    let (seconds, quantum) = if stand.quick {
        (40, "200us")
    } else {
        (600, "1ms")
    };
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut inside, mut anywhere, mut none, mut count) = (0, 0, 0, 0);
    for sync in stand.syncs {
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
        command.arg("--jitter").arg(&trace);
        let found = stand.figures(command)?;
        for one in VirtualPair::all(&found) {
            if !(FROM..=UNTIL).contains(&one.ranks) {
                continue;
            }
            count += 1;
            inside += u32::from(one.inside());
            anywhere += u32::from(one.inside_anywhere());
            none += u32::from(one.none_beside());
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
             {quantum}`, {seconds} s for each synchronisation; {of}. Percent of the calibrated quantum. \
             Host: what the host's own adds to the prediction, by a replay of the ranks with what \
             each took for the same phase without jitter, less one without that. In brackets 95 % \
             intervals: of the measured less the host's own, from phase to phase, and of the \
             prediction. Inside: they meet. Of \
             {count} inside: {inside}. Beside: measured less a replay of ranks that are where these \
             were, points, with its 95 % interval: no chance of positions is in that, and no \
             prediction. Of {count} hold none: {none}. That and the replay at positions by chance are \
             what would have been measured at all positions; of {count} inside: {anywhere}."
        ),
        heads: vec![
            "sync",
            "ranks",
            "phases",
            "measured",
            "predicted",
            "host",
            "with the host's own",
            "inside",
            "beside",
        ],
        rows,
        figures: figures.into(),
    })
}

fn line(sync: &str, one: &VirtualPair, phases: u64) -> Vec<String> {
    let (found, error) = one.measured;
    let (low, high) = one.predicted;
    vec![
        sync.to_owned(),
        one.ranks.to_string(),
        phases.to_string(),
        format!("{found:.2} ({:.2}..{:.2})", found - error, found + error),
        format!("{:.2}", one.alone),
        format!("{:.2}", one.host),
        format!("{:.2} ({low:.2}..{high:.2})", one.alone + one.host),
        if one.inside() { "yes" } else { "no" }.to_owned(),
        one.beside.map_or_else(String::new, |(more, error)| {
            format!("{more:+.2} ({:+.2}..{:+.2})", more - error, more + error)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(with_host: &Value) -> Value {
        json!({
            "slowdowns": [{"ranks": 16, "over_quantum_pct": 30.0}],
            "predicted": [{"mean": {"slowdown_pct": 21.5, "interval_pct": [21.2, 22.0]}}],
            "predicted_with_host": [with_host],
        })
    }

    #[test]
    fn the_host_is_in_both() {
        let host = json!({
            "pct": 30.4, "alone_pct": 21.0, "apart_points": 1.0, "alone_points": 0.1,
            "beside_points": [-0.3, 0.2],
        });
        let all = VirtualPair::all(&figures(&host));
        assert_eq!(all[0].measured, (30.0, 1.0));
        assert!((all[0].host - 9.4).abs() < 1e-9);
        let (low, high) = all[0].predicted;
        assert!((low - 30.6).abs() < 1e-9 && (high - 31.4).abs() < 1e-9);
        assert!(all[0].inside() && !all[0].none_beside());
        // 30.1 of 30.6 to 31.4.
        assert!(!all[0].inside_anywhere());
        let far = json!({
            "pct": 32.0, "alone_pct": 21.0, "apart_points": 1.0, "alone_points": 0.1,
        });
        assert!(!VirtualPair::all(&figures(&far))[0].inside());
        assert!(VirtualPair::all(&json!({})).is_empty());
    }
}
