// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of `mpstat -P ALL`.
//!
//! ```text
//! Linux 6.1.0 (vm)  11/21/26  _x86_64_  (2 CPU)
//!
//! 17:58:53  CPU  %usr  %nice  %sys %iowait  %irq  %soft  %steal  %guest  %gnice  %idle
//! 17:58:54    0 35.35   0.00 10.10    0.00  0.00   0.00    0.00    0.00    0.00  54.55
//! ```
//!
//! Read as the text of sar ([`super::sar`]), whose tables it shares but for
//! the order of their columns: sar has `%steal` before `%irq`, mpstat after
//! it. With `-T` a row names its core, socket and node too.

use crate::Format;
use crate::reader::ImportReader;
use sandbag_input::head::words;

use super::frame::import_samples;
use super::sample::BY_MPSTAT;
use super::sar::{self, Sar, SarProgram};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::MpstatText,
    looks_like: |head| head.lines().take(50).any(is_header),
    open: |input| import_samples(Format::MpstatText, input, |lines| Sar::new(lines, &MPSTAT)),
};

const MPSTAT: SarProgram = SarProgram {
    format: Format::MpstatText,
    need_p_all: "run `LC_ALL=C mpstat -P ALL 1`",
    need_interval: "without an interval mpstat shows the mean since the boot: run \
                    `LC_ALL=C mpstat -P ALL 1`",
    for_times: BY_MPSTAT,
};

/// The header of a table of CPU load in the order of mpstat. Versions before
/// 10 have no steal or no irq but count interrupts.
fn is_header(line: &[u8]) -> bool {
    let place = |wanted: &[u8]| words(line).position(|name| name == wanted);
    let irq_first = match (place(b"%irq"), place(b"%steal")) {
        (Some(irq), Some(steal)) => irq < steal,
        (Some(_), None) => true,
        (None, _) => false,
    };
    sar::is_header(line) && (irq_first || place(b"intr/s").is_some())
}
