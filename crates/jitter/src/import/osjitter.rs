// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of osjitter and summaries of sysjitter: quantiles per CPU. They are recognised
//! so that the error can name them.

use sandbag_input::Head;

use super::input::{Input, JitterRecording};
use crate::{Fault, Result};

fn is_osjitter(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("CPU") && words.next() == Some("TSC_khz")
}

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let has = |begin: &str| head.text_lines().any(|line| line.starts_with(begin));
    head.text_lines().any(is_osjitter) || (has("core_i:") && has("int_n"))
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let summary = Fault::OnlyQuantiles("a summary of sysjitter (its --raw files hold the events)");
    while let Some((place, line)) = input.lines.next_line()? {
        if is_osjitter(line) {
            return Err(place.fault(Fault::OnlyQuantiles("a table of osjitter")));
        }
        if line.starts_with("core_i:") {
            return Err(place.fault(summary));
        }
    }
    Err(input.whole().fault(summary))
}
