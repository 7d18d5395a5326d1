// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says that a test cannot run here; `scripts/count-tests` counts the line. Test modules of
//! several crates include this file by its path.

use std::fmt::Display;
use std::io::{Write as _, stderr};

/// Written by no macro: the test harness shows those only if the test fails.
pub fn say_skipped(test: &str, why: impl Display) {
    let _ = writeln!(stderr(), "skipped {test}: {why}");
}
