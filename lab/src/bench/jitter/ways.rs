// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All ways of replaying, by `jitter verify`: by their own clocks, and by what a program
//! on that CPU saw. The recorder is a real-time task below the injectors, so that other
//! programs of a shared machine do not affect it.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Bench;
use super::figures::Figures;
use super::figures::Target::{self, Least, Most};

/// Ways of replaying: the row of `jitter verify`, the heading of the table, and targets of
/// the length error (p50, us) and of the share within 0.2 us of its time (%).
const WAYS: [(&str, &str, Target, Target); 5] = [
    (
        "polled",
        "By a program that asks, half of the events shorter than 22 us",
        Most(0.2),
        Least(99.0),
    ),
    (
        "safeguards",
        "By a process beside, the same trace",
        Most(1.0),
        Target::None,
    ),
    (
        "inside, safeguards",
        "Inside the program, the same trace",
        Most(1.0),
        Target::None,
    ),
    (
        "no safeguards",
        "By a process beside, without safeguards",
        Target::None,
        Target::None,
    ),
    (
        "inside, no safeguards",
        "Inside the program, without safeguards",
        Target::None,
        Target::None,
    ),
];

pub fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let words = format!(
        "jitter verify mixed.sbj --cpus {} --share 1 -d {}s --priority 2 --real-time 1 --json -q",
        bench.cpu, bench.seconds
    );
    let rows: Vec<Value> = serde_json::from_str(&bench.run(&words)?)?;
    for (name, title, longer, exact) in WAYS {
        let row = rows.iter().find(|row| row["name"] == name);
        let row = row.with_context(|| format!("no row {name:?}"))?;
        add(title, [longer, exact], row, figures);
    }
    Ok(())
}

fn add(title: &str, [longer, exact]: [Target; 2], row: &Value, figures: &mut Figures) {
    let (own, seen, counts) = (&row["own"][0], &row["judged"], &row["counts"]);
    let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3);
    let (start, length) = (&own["start_error"], &own["length_error"]);
    let exact_pct = own["exact_pct"].as_f64().filter(|_| exact != Target::None);
    let beside = us(&row["measured"][0][1]["overhead_ns"]);
    let floor = beside.or(us(&row["inside"]["overhead_ns"]));
    let asked = counts["asked"].as_f64().map(|asked| asked.max(1.0));
    let short = counts["below_floor"].as_f64().zip(asked);
    let none = Target::None;
    let length_p50 = us(&length["p50_ns"]).map(f64::abs);
    let seen_start = us(&seen["start_error"]["p50_ns"]);
    let seen_length = us(&seen["length_error"]["p50_ns"]);
    let values = [
        ("begins late, p50, us", none, us(&start["p50_ns"])),
        ("begins late, p99, us", none, us(&start["p99_ns"])),
        ("begins late, worst, us", none, us(&start["most_ns"])),
        ("longer, p50, us, size", longer, length_p50),
        ("longer, p99, us", none, us(&length["p99_ns"])),
        ("longer, worst, us", none, us(&length["most_ns"])),
        ("within 0.2 us of their time, %", exact, exact_pct),
        ("as the program saw it: late, p50, us", none, seen_start),
        ("as the program saw it: longer, p50, us", none, seen_length),
        (
            "reproduced, % of the events",
            none,
            seen["reproduced_pct"].as_f64(),
        ),
        ("by chance, %", none, seen["by_chance_pct"].as_f64()),
        ("floor: what injecting costs, us", none, floor),
        (
            "too short to be injected, %",
            none,
            short.map(|(short, of)| short * 100.0 / of),
        ),
    ];
    // Where nothing could be injected there is no error.
    let there =
        |(what, target, value): (&'static str, _, Option<f64>)| Some((what, target, value?));
    figures.add_all(title, values.into_iter().filter_map(there));
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
        add("polled", [Most(0.2), Least(99.0)], &row, &mut figures);
        let text = figures.render();
        assert!(text.contains("40.000") && text.contains("-2.000"), "{text}");
        assert!(!text.contains("begins late"), "{text}");
        assert!(text.contains("within 0.2 us"), "{text}");
        assert!(text.contains("15.500"), "{text}");
    }
}
