// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of options: ranks, drift, the cost of messages.

use std::path::PathBuf;

use crate::bench::RankSpread;
use crate::predict::{Drift, LogGp, MOST_RANKS, Spread};

use sandbag_ui::BadInput;
use sandbag_ui::units;

/// `16`, `16,32`, `1..1e6`: powers of two in the range, and its ends.
pub(super) fn ranks(text: &str) -> Result<Ranks, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (from, until) = part.split_once("..").unwrap_or((part, part));
        let (from, until) = (count(from)?, count(until)?);
        if from > until {
            return Err(format!("{from} is more than {until}"));
        }
        let powers = (0..64).map(|power| 1u64 << power);
        all.extend(powers.filter(|n| (from..until).contains(n)));
        all.extend([from, until]);
    }
    all.sort_unstable();
    all.dedup();
    Ok(Ranks(all))
}

/// Ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranks(pub Vec<u64>);

fn count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bad =
        || format!("`{text}` is no number of ranks: expected numbers such as 16, 16,32 or 1..1e6");
    let value: f64 = text.parse().map_err(|_| bad())?;
    if value.fract() != 0.0 {
        return Err(bad());
    }
    if (1.0..=MOST_RANKS as f64).contains(&value) {
        Ok(value as u64)
    } else {
        Err(format!("{text} ranks: there are 1 to 10^9"))
    }
}

/// A time with fractions of a nanosecond: `5us`, `0.2us`, `0.1ns`; ns.
pub(super) fn short_time(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let bad = || format!("`{text}`: expected a time with its unit, such as 5us, 80ns or 0.1ns");
    let at = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e');
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let value: f64 = number.trim().parse().map_err(|_| bad())?;
    let ns = match unit.trim() {
        "ns" => value,
        "us" => value * 1e3,
        "ms" => value * 1e6,
        "s" => value * 1e9,
        "" if value == 0.0 => 0.0,
        _ => return Err(bad()),
    };
    if (0.0..=1e12).contains(&ns) {
        Ok(ns)
    } else {
        Err(bad())
    }
}

/// `L,o,g,G`.
pub(super) fn loggp(text: &str) -> Result<LogGp, String> {
    let parts: Vec<f64> = text.split(',').map(short_time).collect::<Result<_, _>>()?;
    let [l_ns, o_ns, g_ns, g_byte_ns] = parts[..] else {
        return Err("expected L,o,g,G, such as 5us,1us,0.5us,0.1ns".to_owned());
    };
    Ok(LogGp {
        l_ns,
        o_ns,
        g_ns,
        g_byte_ns,
        bytes: 1,
    })
}

/// How far ranks drift apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DriftArg {
    /// Distance, ns.
    Known(u64, Spread),
    /// The JSON of `scale bench`.
    Measured(PathBuf),
}

/// `5300us`, `5300us,normal`, `bench.json`.
pub(super) fn drift(text: &str) -> Result<DriftArg, String> {
    if text.ends_with(".json") {
        return Ok(DriftArg::Measured(text.into()));
    }
    let (time, spread) = match text.split_once(',') {
        None => (text, Spread::Uniform),
        Some((time, "uniform")) => (time, Spread::Uniform),
        Some((time, "normal")) => (time, Spread::Normal),
        Some(_) => return Err("expected TIME, TIME,uniform or TIME,normal".to_owned()),
    };
    let time = units::duration(time)
        .map_err(|wrong| format!("{wrong}, or a file .json of `scale bench --json`"))?;
    Ok(DriftArg::Known(units::nanos(time), spread))
}

impl DriftArg {
    /// The drift after `phases` phases of this quantum. A measured drift grows with time.
    pub(super) fn over(&self, phases: u64, quantum_ns: u64) -> sandbag_ui::Result<Drift> {
        let path = match self {
            Self::Known(end_ns, spread) => {
                let (end_ns, spread) = (*end_ns, *spread);
                return Ok(Drift { end_ns, spread });
            }
            Self::Measured(path) => path,
        };
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| BadInput(format!("{name}: {e}")))?;
        let wrong = |what: &str| BadInput(format!("{name}: {what}"));
        let figures: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| wrong(&e.to_string()))?;
        let drift = &figures["drift_ns"];
        let (end_ns, measured) = drift["first_to_last"]
            .as_f64()
            .zip(drift["phases"].as_u64())
            .filter(|(end_ns, phases)| *end_ns >= 0.0 && *phases > 0)
            .ok_or_else(|| {
                wrong(
                    "it has no drift (drift_ns): expected what `scale bench --json` writes, of \
                     two or more ranks that did not wait for CPUs, or of virtual ones",
                )
            })?;
        let known = |value: &serde_json::Value| value.as_f64().filter(|value| *value > 0.0);
        let bench_quantum_ns =
            known(&figures["quantum_ns"]).ok_or_else(|| wrong("it has no quantum (quantum_ns)"))?;
        let quanta_ns = phases as f64 * quantum_ns as f64;
        let end_ns = match serde_json::from_value::<RankSpread>(drift.clone()) {
            // A phase is longer than its quantum, in the ratio that was measured.
            Ok(spread) => {
                let slowdown = &figures["slowdown"];
                let phase_ns = known(&slowdown["jitter_ns"]).or(known(&slowdown["quiet_ns"]));
                spread.after_ns(quanta_ns * phase_ns.unwrap_or(bench_quantum_ns) / bench_quantum_ns)
            }
            // Virtual ranks have one clock: they drift by the noise that they meet.
            Err(_) => end_ns * quanta_ns / (measured as f64 * bench_quantum_ns),
        };
        Ok(Drift {
            end_ns: end_ns.max(0.0) as u64,
            spread: Spread::Uniform,
        })
    }
}

/// Shares of nodes: `9:1`.
pub(super) fn shares(text: &str) -> Result<TraceShares, String> {
    let share = |part: &str| match part.trim().parse::<u32>() {
        Ok(share) if share > 0 => Ok(u64::from(share)),
        _ => Err("expected shares of nodes such as 9:1".to_owned()),
    };
    text.split(':')
        .map(share)
        .collect::<Result<_, _>>()
        .map(TraceShares)
}

/// In the order of the traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TraceShares(pub Vec<u64>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(ranks("16"), Ok(Ranks(vec![16])));
        assert_eq!(ranks("3..20,7"), Ok(Ranks(vec![3, 4, 7, 8, 16, 20])));
        assert_eq!(ranks("1..1e6").unwrap().0.len(), 21);
        for bad in ["0", "-1", "1.5", "x", "", "8..4", "1e10", "NaN"] {
            assert!(ranks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_have_four_times() {
        let cost = loggp("5us,1us,0.5us,0.1ns").unwrap();
        assert_eq!(
            (cost.l_ns, cost.o_ns, cost.g_ns, cost.g_byte_ns),
            (5e3, 1e3, 500.0, 0.1)
        );
        assert!(loggp("5us,1us,0,0").is_ok());
        for bad in ["5us,1us", "5,1,1,1", "5us,1us,1us,-1ns", "a,b,c,d"] {
            assert!(loggp(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_measured_drift_grows_with_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.json");
        let with = |text: &str| {
            std::fs::write(&path, text).unwrap();
            DriftArg::Measured(path.clone()).over(10_000, 2_000_000)
        };
        let found = |text| with(text).unwrap().end_ns;
        // Of half of the predicted quantum.
        let virtually =
            r#"{"quantum_ns": 1000000, "drift_ns": {"first_to_last": 70.0, "phases": 1000}}"#;
        assert_eq!(found(virtually), 1400);
        // The rank that is released late has the fast clock: the distance grows for all that.
        // 10 000 phases of 2.2 ms are 22 s.
        let meeting = r#"{"quantum_ns": 1000000, "slowdown": {"jitter_ns": 1100000, "quiet_ns": 1},
            "drift_ns": {"begin": 50.0, "first_to_last": 50.0, "standard_deviation": 1.0,
            "error": 9.0, "clocks_ns_per_s": 100.0, "clocks_error_ns_per_s": 1.0, "phases": 1000}}"#;
        assert_eq!(found(meeting), 2250);
        assert_eq!(found(&meeting.replace("1100000", "null")), 50);
        let of_any = r#"{"drift_ns": {"first_to_last": 5.0, "phases": 10}}"#;
        let negative = of_any.replace("5.0", "-5.0");
        let of_none = of_any.replace("10", "0");
        for bad in [
            "{}",
            "x",
            r#"{"drift_ns": null}"#,
            of_any,
            &negative,
            &of_none,
        ] {
            let error = with(bad).unwrap_err().to_string();
            assert!(error.contains("b.json"), "{bad}: {error}");
        }
    }

    #[test]
    fn drifts_have_a_shape() {
        use DriftArg::{Known, Measured};
        assert_eq!(drift("5300us"), Ok(Known(5_300_000, Spread::Uniform)));
        assert_eq!(drift("4ms,normal"), Ok(Known(4_000_000, Spread::Normal)));
        assert_eq!(drift("b.json"), Ok(Measured("b.json".into())));
        assert!(drift("4ms,odd").is_err() && drift("far").is_err());
        assert!(drift("-4ms").unwrap_err().contains("less than 0"));
        assert_eq!(shares("9:1"), Ok(TraceShares(vec![9, 1])));
        assert!(shares("9:0").is_err());
    }
}
