// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands before the entry in a line of ftrace's text:
//! `COMM-PID [CPU] FLAGS STAMP: `, the flags with four, five, seven characters,
//! or, from `trace-cmd report`, none.

use super::number;

/// The CPU of a line and what follows its stamp, provided that `is_entry` says
/// so: a task may be called anything, also like a part of such a line.
pub(crate) fn entry(line: &str, is_entry: impl Fn(&str) -> bool) -> Option<(u32, &str)> {
    line.match_indices(": ").find_map(|(at, colon)| {
        let rest = line[at + colon.len()..].trim();
        let mut before = line[..at].split_whitespace().rev();
        let is_stamp = |word: &str| word.contains('.') && number::seconds(word).is_some();
        before.next().filter(|word| is_stamp(word))?;
        let word = before.next()?;
        let cpu = bracket_number(word).or_else(|| bracket_number(before.next()?))?;
        is_entry(rest).then_some((cpu, rest))
    })
}

fn bracket_number(word: &str) -> Option<u32> {
    number::cpu(word.strip_prefix('[')?.strip_suffix(']')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_be_called_anything() {
        for (line, cpu) in [
            ("       osnoise/8-961     [008] d.h.  5789.857532: x: y", 8),
            (
                " irq/179-dcvsh-i-343     [007] d..h2..  3937.898318: x: y",
                7,
            ),
            ("  a [1] 1.5: z-17 [003] 10.000001: x:       y", 3),
            ("kworker/7:0-85 (   85) [007] .....  1.1: x: y", 7),
        ] {
            let got = entry(line, |rest| rest.starts_with("x:")).unwrap();
            assert_eq!(got.0, cpu, "{line}");
            assert!(got.1.ends_with('y'));
        }
        for line in ["", "# x: y", "a-1 [000] x: y", "a-1 [0x0] .... 1.1: x: y"] {
            assert_eq!(entry(line, |_| true), None, "{line}");
        }
    }
}
