// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of characters: time from left to right, a percentage as the height of a bar, 0 to
//! 100 % whatever the data.

use crate::text::clock;

/// Characters for the bars; with the labels a line is at most 80 wide.
pub const WIDTH: usize = 64;
/// Eighths of a character, from nothing to all of it.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `values`, the first of `count` of which the others are unknown, over [`WIDTH`] columns:
/// repeated, or as means.
pub fn stretch(values: &[Option<f64>], count: usize) -> Vec<Option<f64>> {
    let mean = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    (0..if count == 0 { 0 } else { WIDTH })
        .map(|i| {
            let from = i * count / WIDTH;
            let to = ((i + 1) * count / WIDTH).max(from + 1).min(values.len());
            mean(&values[from.min(to)..to])
        })
        .collect()
}

/// Appends the values over time, `height` lines tall, with their name before them. A dot
/// stands where a value is unknown.
pub fn push(out: &mut String, label: &str, values: &[Option<f64>], height: usize) {
    let values = stretch(values, values.len());
    for line in (0..height).rev() {
        let top = line + 1 == height;
        let label = if top { label } else { "" };
        let scale = match height {
            1 => "",
            _ if top => " 100",
            _ if line == 0 => " 0",
            _ => "",
        };
        let bars: String = values.iter().map(|v| block(*v, line, height)).collect();
        let text = format!("{:>15}│{bars}", format!("{label}{scale}"));
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// What a bar shows on one line, counted from the bottom. A load that is not
/// zero is never nothing.
fn block(value: Option<f64>, line: usize, height: usize) -> char {
    let Some(pct) = value else {
        return if line == 0 { '·' } else { ' ' };
    };
    let mut eighths = (pct / 100.0 * (8 * height) as f64).round() as usize;
    if pct > 0.0 {
        eighths = eighths.max(1);
    }
    BLOCKS[eighths.saturating_sub(8 * line).min(8)]
}

/// Appends the axis of time below them.
pub fn push_axis(out: &mut String, end_s: f64) {
    let end = clock(end_s);
    out.push_str(&format!("{:>16}{end:>1$}\n", "0", WIDTH - 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_load_is_seen_and_an_unknown_one_is_a_dot() {
        assert_eq!(block(Some(0.5), 0, 4), '▁');
        assert_eq!(block(Some(0.0), 0, 1), ' ');
        assert_eq!(block(Some(100.0), 3, 4), '█');
        assert_eq!(block(None, 0, 4), '·');
        assert_eq!(block(None, 1, 4), ' ');
    }
}
