// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All ways of replaying, by `jitter verify`: by their own clocks, and by what
//! a program on that CPU saw. The recorder is a real-time task below the
//! injectors, so that a machine that others use, too, does not decide.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Bench;
use super::figures::{Figures, Target};

/// What a way should reach.
struct InjectionPath {
    /// Its row of the table.
    row: &'static str,
    title: &'static str,
    /// Of the length error, p50, us.
    longer: Target,
    /// Within 0.2 us of its time, %.
    exact: Target,
}

const WAYS: [InjectionPath; 5] = [
    InjectionPath {
        row: "polled",
        title: "By a program that asks, half of the events shorter than 22 us",
        longer: Target::Most(0.2),
        exact: Target::Least(99.0),
    },
    InjectionPath {
        row: "safeguards",
        title: "By a process beside, the same trace",
        longer: Target::Most(1.0),
        exact: Target::None,
    },
    InjectionPath {
        row: "inside, safeguards",
        title: "Inside the program, the same trace",
        longer: Target::Most(1.0),
        exact: Target::None,
    },
    InjectionPath {
        row: "no safeguards",
        title: "By a process beside, without safeguards",
        longer: Target::None,
        exact: Target::None,
    },
    InjectionPath {
        row: "inside, no safeguards",
        title: "Inside the program, without safeguards",
        longer: Target::None,
        exact: Target::None,
    },
];

pub fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let words = format!(
        "jitter verify mixed.sbj --cpus {} --share 1 -d {}s --priority 2 --real-time 1 --json -q",
        bench.cpu, bench.seconds
    );
    let rows: Vec<Value> = serde_json::from_str(&bench.run(&words)?)?;
    for way in &WAYS {
        let row = rows.iter().find(|row| row["name"] == way.row);
        let row = row.with_context(|| format!("no row {:?}", way.row))?;
        add(way, row, figures);
    }
    Ok(())
}

fn add(way: &InjectionPath, row: &Value, figures: &mut Figures) {
    let own = &row["own"][0];
    let mut put = |what: &str, target, value: Option<f64>| {
        // Where nothing could be injected there is no error.
        if let Some(value) = value {
            figures.add(way.title, what, target, value);
        }
    };
    let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3);
    let (start, length) = (&own["start_error"], &own["length_error"]);
    put("begins late, p50, us", Target::None, us(&start["p50_ns"]));
    put("begins late, p99, us", Target::None, us(&start["p99_ns"]));
    put(
        "begins late, worst, us",
        Target::None,
        us(&start["most_ns"]),
    );
    let longer = us(&length["p50_ns"]).map(f64::abs);
    put("longer, p50, us, size", way.longer, longer);
    put("longer, p99, us", Target::None, us(&length["p99_ns"]));
    put("longer, worst, us", Target::None, us(&length["most_ns"]));
    if way.exact != Target::None {
        let exact = own["exact_pct"].as_f64();
        put("within 0.2 us of their time, %", way.exact, exact);
    }
    let seen = &row["judged"];
    let late = us(&seen["start_error"]["p50_ns"]);
    put("as the program saw it: late, p50, us", Target::None, late);
    let longer = us(&seen["length_error"]["p50_ns"]);
    put(
        "as the program saw it: longer, p50, us",
        Target::None,
        longer,
    );
    let found = seen["reproduced_pct"].as_f64();
    put("reproduced, % of the events", Target::None, found);
    let chance = seen["by_chance_pct"].as_f64();
    put("by chance, %", Target::None, chance);
    let beside = us(&row["measured"][0][1]["overhead_ns"]);
    let floor = beside.or(us(&row["inside"]["overhead_ns"]));
    put("floor: what injecting costs, us", Target::None, floor);
    let counts = &row["counts"];
    let part = counts["below_floor"]
        .as_f64()
        .zip(counts["asked"].as_f64())
        .map(|(short, asked)| short * 100.0 / asked.max(1.0));
    put("too short to be injected, %", Target::None, part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_injected_events_has_no_errors() {
        let row = serde_json::json!({
            "name": "polled",
            "own": [{"start_error": null, "length_error": null, "exact_pct": 99.5}],
            "judged": {"start_error": null, "length_error": {"p50_ns": -2000},
                       "reproduced_pct": 3.0, "by_chance_pct": null},
            "counts": {"asked": 10, "below_floor": 4},
            "measured": [], "inside": {"overhead_ns": 15_500},
        });
        let mut figures = Figures::default();
        add(&WAYS[0], &row, &mut figures);
        let text = figures.render();
        assert!(text.contains("40.000") && text.contains("-2.000"), "{text}");
        assert!(!text.contains("begins late"), "{text}");
        assert!(text.contains("within 0.2 us"), "{text}");
        assert!(text.contains("15.500"), "{text}");
    }
}
