// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of osjitter and the summary of sysjitter: quantiles per CPU.
//! They are recognised so that the refusal can say why.

use super::{FormatReader, Head, Input, JitterRecording};
use crate::{Fault, Result};

pub(super) const READER: FormatReader = FormatReader {
    name: "tables of osjitter and sysjitter (refused)",
    looks_like,
    read,
};

fn is_osjitter(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("CPU") && words.next() == Some("TSC_khz")
}

fn looks_like(head: &Head<'_>) -> bool {
    head.text_lines().any(is_osjitter)
        || (head.text_lines().any(|line| line.starts_with("core_i:"))
            && head.text_lines().any(|line| line.starts_with("int_n")))
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut what = "a summary of sysjitter (its --raw files hold the events)";
    while let Some((place, line)) = input.lines.next_line()? {
        if is_osjitter(line) {
            what = "a table of osjitter";
        } else if what.starts_with("a summary") && !line.starts_with("core_i:") {
            continue;
        }
        return Err(place.fault(Fault::OnlyQuantiles(what)));
    }
    Err(input.lines.whole().fault(Fault::OnlyQuantiles(what)))
}

#[cfg(test)]
mod tests {
    use crate::import::tests::message;

    #[test]
    fn the_refusal_says_why() {
        let got = message("$ ./osjitter -t 60\n CPU  TSC_khz  #intr\n  0  2200000  60\n");
        assert!(
            got.starts_with("in:2: a table of osjitter holds quantiles only"),
            "{got}"
        );
        let got = message("core_i: 0 1\nthreshold(ns): 200 200\nint_n: 5 6\n");
        assert!(got.contains("--raw"), "{got}");
    }
}
