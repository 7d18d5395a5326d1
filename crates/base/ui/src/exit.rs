// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit codes: one place, and the table that help and man page show.

use std::ffi::OsString;

use sandbag_stats::Verdict;

/// The load was kept; or whatever was asked succeeded.
pub const KEPT: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// Wrong usage or bad input.
pub const USAGE: u8 = 2;
/// The load was missed.
pub const MISSED: u8 = 3;
/// The machine was too noisy to say.
pub const UNDECIDED: u8 = 4;
/// Not possible on this machine.
pub const NOT_POSSIBLE: u8 = 5;
/// Our time limit ended it.
pub const TIMED_OUT: u8 = 124;
/// With a command: our own failure; detail in run.json and on stderr.
pub const OUR_FAILURE: u8 = 125;
/// With a command: it cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// With a command: it was not found.
pub const NOT_FOUND: u8 = 127;
/// Ended by a signal to us before there was anything to judge.
pub const INTERRUPTED: u8 = 130;

/// The table for help and man page.
pub const HELP: &str = "\
Exit codes:
  Without CMD: 0 kept (or done), 1 failed, 2 wrong usage or bad input,
  3 missed, 4 undecided (machine too noisy), 5 not possible on this machine,
  124 our time limit, 130 interrupted before the load began.
  With CMD: CMD's own code; 128+n if signal n ended it; 124 our time limit;
  125 our own failure, wrong usage and what is not possible included (the
  reason is on standard error, and in run.json if a run directory is left);
  126 CMD cannot be executed; 127 CMD not found; 130 interrupted twice, or
  before CMD began. With --strict, where there is a verdict, and 0 from CMD,
  also 3 and 4.";

pub fn of_verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Kept => KEPT,
        Verdict::Missed => MISSED,
        Verdict::Undecided => UNDECIDED,
    }
}

/// That of a command: its own, or 128 and its signal.
pub fn of_command(code: Option<i32>, signal: Option<i32>) -> u8 {
    let code = code.unwrap_or_else(|| 128 + signal.unwrap_or(0));
    u8::try_from(code).unwrap_or(OUR_FAILURE)
}

/// Commands that may wrap another.
const WRAPPING: [&str; 4] = ["load", "replay", "record", "slow"];

/// The code of arguments that are no command line of ours: as `env` and
/// `timeout` do, another one where a command was to be run.
pub fn of_usage(arguments: impl Iterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.collect();
    let ours: Vec<&OsString> = arguments.iter().take_while(|word| *word != "--").collect();
    let wraps = ours
        .iter()
        .any(|word| WRAPPING.iter().any(|name| *word == name));
    if wraps && ours.len() < arguments.len() {
        OUR_FAILURE
    } else {
        USAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_usage_beside_a_command_is_not_the_command_s_code() {
        let code = |words: &str| of_usage(words.split(' ').map(OsString::from));
        assert_eq!(code("load --nonsense -- true"), OUR_FAILURE);
        assert_eq!(code("-q replay -- true"), OUR_FAILURE);
        assert_eq!(code("load --nonsense"), USAGE);
        assert_eq!(code("compare 5 -- load --vs load"), USAGE);
    }
}
