// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histogram of lengths, as bars on the terminal.

use std::fmt::Write as _;

use sandbag_ui::quantity::time;

/// Widest bar, characters.
const BAR: usize = 50;
/// Shown together: events of a decade in three parts (1, 2, 5).
const PARTS: [u64; 3] = [1, 2, 5];

/// How many have which length in ns; counts on a logarithmic scale, for they
/// too reach over decades.
pub(super) fn decades(lengths: impl Iterator<Item = (u64, u64)>) -> String {
    let bounds: Vec<u64> = (1..11)
        .flat_map(|decade| PARTS.map(|part| part * 10u64.pow(decade)))
        .collect();
    let mut counts = vec![0u64; bounds.len()];
    for (length_ns, count) in lengths {
        let bin = bounds.partition_point(|bound| *bound <= length_ns);
        let sum = &mut counts[bin.saturating_sub(1)];
        *sum = sum.saturating_add(count);
    }
    let first = counts.iter().position(|n| *n > 0).unwrap_or(0);
    let last = counts.iter().rposition(|n| *n > 0).unwrap_or(0);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |n: u64| match n {
        0 => 0,
        n => {
            let share = (1.0 + n as f64).log10() / (1.0 + most as f64).log10();
            ((share * BAR as f64).round() as usize).max(1)
        }
    };
    let mut text = String::new();
    for (bound, n) in bounds.iter().zip(&counts).take(last + 1).skip(first) {
        let _ = writeln!(
            text,
            "  from {:>8} {:<BAR$} {n}",
            time(*bound as f64),
            "█".repeat(bar(*n))
        );
    }
    text.trim_end().to_owned()
}
