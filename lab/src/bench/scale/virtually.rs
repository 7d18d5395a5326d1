// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The predictor against the compute-barrier benchmark with virtual ranks: each computes
//! and is delayed by itself, and the slowest of each phase is found afterwards.
//!
//! Jitter of the host would be in the measurement, and the slowest of 2048 is mostly
//! that; so each phase is done several times with the same events, and the fastest
//! counts. What is left of the host is added to the prediction: by how much the slowest
//! is later in a replay of the ranks with the times that they took for the same phase
//! without jitter than with the quantum.

use anyhow::Result;
use sandbag_linux::interrupt;
use serde_json::{Value, json};

use super::traces::{MANY_SMALL, TraceFile};
use super::{Section, Stand, around, overlap, predicted};
use crate::table::{interval, yes};

/// Numbers of ranks in the table.
const RANKS: std::ops::RangeInclusive<u64> = 16..=2048;
/// Trials of a phase.
const REPEATS: &str = "3";

/// Of one number of ranks, percent of the quantum.
#[derive(Debug, Clone, Copy, PartialEq)]
struct VirtualPair {
    ranks: u64,
    /// With half of its 95 % interval.
    measured: (f64, f64),
    /// Predicted without the host's jitter.
    alone: f64,
    /// What jitter of the host adds to that.
    host: f64,
    /// Interval of the prediction with that.
    predicted: (f64, f64),
    /// By a replay with the host's jitter, over random positions.
    replayed: f64,
    /// Measured less a replay of ranks at the same positions, with half of its 95 %
    /// interval, points.
    beside: Option<(f64, f64)>,
    /// Half of the interval of that replay without the host's jitter, points.
    alone_error: f64,
}

impl VirtualPair {
    /// From the figures of `scale bench --virtual`.
    fn all(figures: &Value) -> Vec<Self> {
        let list = |name: &str| figures[name].as_array().cloned().unwrap_or_default();
        let each = list("slowdowns").into_iter().zip(list("predicted"));
        let all = each.zip(list("predicted_with_host"));
        all.filter_map(|((one, point), with_host)| {
            let (alone, (low, high)) = predicted(&point)?;
            let with = |name: &str| with_host[name].as_f64();
            let host = with("pct")? - with("alone_pct")?;
            let beside = &with_host["beside_points"];
            Some(Self {
                ranks: one["ranks"].as_u64()?,
                measured: (one["over_quantum_pct"].as_f64()?, with("apart_points")?),
                alone,
                host,
                // The error of the host's share is in the measured interval.
                predicted: (low + host, high + host),
                replayed: with("pct")?,
                beside: beside[0].as_f64().zip(beside[1].as_f64()),
                alone_error: with("alone_points")?,
            })
        })
        .collect()
    }

    /// The difference from a replay of the same positions is only chance.
    fn none_beside(&self) -> bool {
        self.beside.is_some_and(|(more, error)| more.abs() <= error)
    }

    fn inside(&self) -> bool {
        overlap(around(self.measured), self.predicted)
    }

    /// The same of what would have been measured at all positions, not at these: the
    /// measurement without the difference of these from all (a control variate).
    fn inside_anywhere(&self) -> bool {
        self.beside.is_some_and(|(more, error)| {
            let anywhere = (self.replayed + more, error.hypot(self.alone_error));
            overlap(around(anywhere), self.predicted)
        })
    }
}

pub(super) fn measure(stand: &Stand<'_>) -> Result<Section> {
    let made = TraceFile {
        cpus: 2,
        ..MANY_SMALL
    };
    let (trace, of) = stand.trace_or(&made)?;
    // Shorter phases are more of them.
    let (seconds, quantum) = stand.form((40, "200us"), (600, "1ms"));
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut inside, mut anywhere, mut none, mut count) = (0, 0, 0, 0);
    for sync in &stand.args.syncs {
        let mut command = stand.bench(&format!(
            "--virtual --clock cpu --repeats {REPEATS} --quantum {quantum} --ranks 2048 \
             --sync {sync} -d {seconds}s"
        ));
        command.arg("--jitter").arg(&trace);
        let found = stand.figures(command)?;
        for one in VirtualPair::all(&found) {
            if !RANKS.contains(&one.ranks) {
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
             Host: what jitter of the host adds to the prediction, by a replay of the ranks with what \
             each took for the same phase without jitter, less one without that. In brackets 95 % \
             intervals: of the measured less the host's share, from phase to phase, and of the \
             prediction. Inside: they overlap. Of {count} inside: {inside}. Beside: measured less a \
             replay of ranks at the same positions, points, with its 95 % interval: neither the choice \
             of positions nor the prediction is in that. Of {count} the interval has 0: {none}. That \
             and the replay at random positions are what would have been measured at all positions; of \
             {count} inside: {anywhere}."
        ),
        heads: "sync | ranks | phases | measured | predicted | host | with the host's own | inside | beside",
        rows,
        figures: figures.into(),
    })
}

fn line(sync: &str, one: &VirtualPair, phases: u64) -> Vec<String> {
    vec![
        sync.to_owned(),
        one.ranks.to_string(),
        phases.to_string(),
        interval(one.measured.0, around(one.measured), 2),
        format!("{:.2}", one.alone),
        format!("{:.2}", one.host),
        interval(one.alone + one.host, one.predicted, 2),
        yes(one.inside()),
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
