// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What held beside the speed of a node, and what all of it left to the programs, as rows.

use crate::report::run::Run;
use sandbag_ui::text::visible;

/// The columns of the rows.
pub(crate) const HEAD: [&str; 5] = ["beside", "cpu", "asked %", "got %", "verdict"];

/// A row for each part and CPU, in the order of effects, and for what was left. `run` is
/// shown in speeds. No rows where nothing held beside the speed.
pub(crate) fn rows(run: &Run) -> Vec<[String; 5]> {
    if run.parts.is_empty() {
        return Vec::new();
    }
    let percent = |value: f64| format!("{value:.2}");
    let mut rows = Vec::new();
    for part in &run.parts {
        for (n, cell) in part.cpus.iter().enumerate() {
            let first = |text: String| if n == 0 { text } else { String::new() };
            rows.push([
                first(visible(&part.name)),
                cell.cpu.to_string(),
                percent(cell.asked_pct),
                percent(cell.got_pct),
                first(part.verdict.to_string()),
            ]);
        }
        if part.cpus.is_empty() {
            let unknown = || "-".to_owned();
            let name = visible(&part.name);
            rows.push([
                name,
                unknown(),
                unknown(),
                unknown(),
                part.verdict.to_string(),
            ]);
        }
    }
    for (n, cpu) in run.cpus.iter().enumerate() {
        let cells = run.parts.iter().flat_map(|part| &part.cpus);
        let taken = cells.filter(|cell| cell.cpu == cpu.cpu);
        let taken: f64 = taken.map(|cell| cell.asked_pct).sum();
        rows.push([
            if n == 0 {
                "left".to_owned()
            } else {
                String::new()
            },
            cpu.cpu.to_string(),
            percent((cpu.asked_pct - taken).max(0.0)),
            cpu.left_pct.map_or_else(|| "-".to_owned(), percent),
            String::new(),
        ]);
    }
    rows
}
