// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of how far ranks are apart, of what took how long, and of noise
//! that leaves nothing to the work. Pure.

use std::time::Duration;

use crate::bench::{LONGEST_NS, NoiseLoad, RankSpread};
use sandbag_ui::quantity::{percent, time};
use serde_json::{Value, json};

/// Phases of a run for which the drift is told: those of `scale predict`.
const PHASES: f64 = 1e5;

/// In one or two lines; `phase_ns`: how long a phase takes.
#[must_use]
pub fn said_of_apart(apart: &RankSpread, phase_ns: f64) -> String {
    let seconds = PHASES * phase_ns / 1e9;
    let far_ns = apart.begin_ns + apart.clocks_ns_per_s * seconds;
    format!(
        "Ranks that began together replay {} apart from the first to the last (±{})\nafter {} \
         phases: {} at the begin, and clocks that part by {} in a second\n(±{}). Over 10^5 \
         phases: --drift {}.\n",
        time(apart.end_ns),
        time(apart.error_ns),
        apart.phases,
        time(apart.begin_ns),
        time(apart.clocks_ns_per_s),
        time(apart.clocks_error_ns_per_s),
        nanoseconds(far_ns),
    )
}

/// As it is read.
fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns < 1e4 => format!("{ns:.0}ns"),
        _ => format!("{:.0}us", ns / 1e3),
    }
}

/// What `scale predict --drift FILE.json` reads.
#[must_use]
pub fn drift_json(first_to_last_ns: f64, deviation_ns: f64, phases: u64) -> Value {
    json!({
        "first_to_last": first_to_last_ns,
        "standard_deviation": deviation_ns,
        "phases": phases,
    })
}

/// What was asked and what it took.
#[must_use]
pub fn said_of_time(asked: Duration, took_ns: u64, how: &str) -> String {
    format!(
        "Asked for {}, took {}: {how}.\n",
        time(asked.as_nanos() as f64),
        time(took_ns as f64)
    )
}

/// Of noise that saturates; nothing of other.
#[must_use]
pub fn said_of_load(load: Option<NoiseLoad>) -> String {
    let Some(load) = load.filter(|load| load.saturated) else {
        return String::new();
    };
    format!(
        "SATURATED: noise takes {} % of a rank's time, and its events pile up by {} % of it.\n\
         What is measured is how little is left, not what the trace does to a program.\n",
        percent(load.noise_pct),
        percent(load.piled_pct)
    )
}

/// Of phases that were longer than can be told; nothing of none.
#[must_use]
pub fn said_of_capped(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => format!(
            "{count} of the times are longer than {}, and count as that: what is told is too little.\n",
            time(f64::from(LONGEST_NS))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_capped_is_said() {
        assert_eq!(said_of_capped(0), "");
        assert!(said_of_capped(3).starts_with("3 of the times are longer than 4.29 s"));
    }

    #[test]
    fn the_drift_is_said_for_a_long_run() {
        let apart = RankSpread {
            begin_ns: 400.0,
            end_ns: 700.0,
            deviation_ns: 350.0,
            error_ns: 90.0,
            clocks_ns_per_s: 100.0,
            clocks_error_ns_per_s: 6.0,
            phases: 3000,
        };
        let text = said_of_apart(&apart, 2e6);
        // 200 s of 100 ns, and the begin.
        assert!(text.contains("--drift 20us"), "{text}");
        assert!(
            text.contains("700 ns apart") && text.contains("±90.0 ns"),
            "{text}"
        );
    }

    #[test]
    fn only_what_saturates_is_said() {
        let load = |saturated| NoiseLoad {
            noise_pct: 95.0,
            piled_pct: 0.5,
            saturated,
        };
        assert_eq!(said_of_load(None), "");
        assert_eq!(said_of_load(Some(load(false))), "");
        assert!(said_of_load(Some(load(true))).starts_with("SATURATED: noise takes 95.0 %"));
    }
}
