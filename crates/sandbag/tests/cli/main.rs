// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binary as a user meets it, without root: what it says and what it
//! exits with. Runs that change the machine are tested in `machine-tests`.

/// [`insta::assert_snapshot`] without the expression in the file.
macro_rules! assert_snapshot {
    ($($arguments:tt)*) => {
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!($($arguments)*)
        })
    };
}

#[path = "../../../base/ui/tests/support/readable.rs"]
mod page;
#[path = "../../../base/linux/tests/support/patience.rs"]
mod patience;
#[path = "../../../base/linux/tests/support/skipped.rs"]
mod skipped;

mod algebra;
mod audit;
mod bad_input;
mod cases;
mod dir;
mod foreign_text;
mod help;
mod https;
mod jitter;
mod jitter_inside;
mod jitter_replay;
mod jitter_synth;
mod output;
mod pages;
mod profiles;
mod reference;
mod scale;
mod slow;
mod synth;
