// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit codes: one place, and the table that help and man page show.

use std::ffi::OsString;

use sandbag_audit::model::{Audit, Test, Verdict as Equality};
use sandbag_measure::Verdict;
use sandbag_node::socket::SocketError;
use sandbag_node::spec::SpecError;
use sandbag_profile::Taken;

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

/// The same for two audits compared.
pub const AUDIT_COMPARE_HELP: &str = "\
Exit codes:
  0 nothing changed, 1 failed, 2 wrong usage or bad input, 3 changed (slower or
  faster), 4 undecided. What an audit could not resolve decides nothing.";

/// The same for audits.
pub const AUDIT_HELP: &str = "\
Exit codes:
  0 all CPUs are equal, 1 failed, also every test, 2 wrong usage or bad input,
  3 unequal, with --fail-on inequality only if a CPU itself charges more,
  4 undecided: too few runs, the machine too noisy, or a CPU lost on the way,
  5 not possible on this machine, 130 interrupted before anything was measured.
  What this kernel's accounting cannot resolve decides nothing.";

/// The code of an audit.
#[must_use]
pub fn of_audit(audit: &Audit) -> u8 {
    // To be asked to stop is no failure.
    let failed = |test: &Test| test.samples.is_empty() && test.failure.is_some();
    match audit.tests.iter().all(failed) {
        true => FAILED,
        false => of_equality(audit.verdict),
    }
}

/// The code of a verdict on CPUs.
#[must_use]
pub fn of_equality(verdict: Equality) -> u8 {
    match verdict {
        Equality::Equal | Equality::NotResolvable => KEPT,
        Equality::Undecided => UNDECIDED,
        Equality::Unequal => MISSED,
    }
}

/// The code of a verdict.
#[must_use]
pub fn of_verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Kept => KEPT,
        Verdict::Missed => MISSED,
        Verdict::Undecided => UNDECIDED,
    }
}

/// That of a command: its own, or 128 and its signal.
#[must_use]
pub fn of_command(code: Option<i32>, signal: Option<i32>) -> u8 {
    let code = code.unwrap_or_else(|| 128 + signal.unwrap_or(0));
    u8::try_from(code).unwrap_or(OUR_FAILURE)
}

/// Commands that may wrap another.
const WRAPPING: [&str; 4] = ["load", "replay", "record", "slow"];

/// The code of arguments that are no command line of ours: as `env` and
/// `timeout` do, another one where a command was to be run.
#[must_use]
pub fn of_usage(arguments: impl Iterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.collect();
    let ours: Vec<&OsString> = arguments.iter().take_while(|word| *word != "--").collect();
    let wraps = ours
        .iter()
        .any(|word| WRAPPING.iter().any(|name| *word == name));
    match wraps && ours.len() < arguments.len() {
        true => OUR_FAILURE,
        false => USAGE,
    }
}

/// The code of an error. With a command all that is not the command's own
/// fault is one code: its other codes are the command's to use.
#[must_use]
pub fn of_error(error: &anyhow::Error, with_command: bool) -> u8 {
    match alone(error) {
        code @ (NOT_FOUND | NOT_EXECUTABLE) => code,
        _ if with_command => OUR_FAILURE,
        code => code,
    }
}

fn alone(error: &anyhow::Error) -> u8 {
    use sandbag_burner::Error as Burner;
    let taken = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(Taken::is_cause)
    };
    if error.chain().any(taken) {
        return USAGE;
    }
    if error.downcast_ref::<BadInput>().is_some() {
        return USAGE;
    }
    if error.downcast_ref::<NotPossible>().is_some() {
        return NOT_POSSIBLE;
    }
    if let Some(fault) = error.downcast_ref::<sandbag_profile::Error>() {
        return match is_no_room(&fault.fault) {
            true => FAILED,
            false => USAGE,
        };
    }
    if let Some(error) = error.downcast_ref::<sandbag_jitter::Error>() {
        use sandbag_jitter::Fault;
        return match &*error.fault {
            Fault::NoCounter(_) | Fault::NoRealTime { .. } => NOT_POSSIBLE,
            Fault::Kernel(cause) if cause.errno() == Some(libc::EPERM) => NOT_POSSIBLE,
            Fault::Kernel(_) | Fault::Displaced(_) => FAILED,
            // A packed file that is damaged is bad input.
            Fault::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => USAGE,
            Fault::Io(cause) if cause.kind() != std::io::ErrorKind::NotFound => FAILED,
            _ => USAGE,
        };
    }
    if let Some(error) = error.downcast_ref::<sandbag_inject::Error>() {
        use sandbag_inject::Error;
        return match error {
            Error::NotPossible { .. } => NOT_POSSIBLE,
            Error::NothingKnown
            | Error::NothingTogether
            | Error::NoCpu { .. }
            | Error::Option { .. }
            | Error::Group { .. } => USAGE,
            _ => FAILED,
        };
    }
    if let Some(error) = error.downcast_ref::<sandbag_inside::Error>() {
        use sandbag_inside::Error;
        return match error {
            Error::NotPreloadable { .. } | Error::NoPlace { .. } => NOT_POSSIBLE,
            _ => FAILED,
        };
    }
    if let Some(error) = error.downcast_ref::<sandbag_scale::Error>() {
        return match error {
            sandbag_scale::Error::Call { .. } => FAILED,
            _ => USAGE,
        };
    }
    if let Some(error) = error.downcast_ref::<sandbag_audit::Error>() {
        return match error {
            sandbag_audit::Error::NoCpus { .. } => NOT_POSSIBLE,
            sandbag_audit::Error::Option { .. } => USAGE,
            _ => FAILED,
        };
    }
    if let Some(fault) = error.downcast_ref::<SpecError>() {
        return if fault.not_possible {
            NOT_POSSIBLE
        } else {
            USAGE
        };
    }
    match error.downcast_ref::<SocketError>() {
        // A name that is nobody's, and one that is somebody's.
        Some(SocketError::NotRunning { .. }) => return USAGE,
        Some(SocketError::Running { .. }) => return NOT_POSSIBLE,
        _ => {}
    }
    match error.downcast_ref::<Burner>() {
        Some(Burner::Command { cause, .. }) => match cause.kind() {
            std::io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        },
        Some(Burner::NotPossible { .. } | Burner::Busy { .. }) => NOT_POSSIBLE,
        Some(Burner::NoCpu { .. } | Burner::Profile(_)) => USAGE,
        _ => FAILED,
    }
}

/// What could not be written is nobody's bad input.
fn is_no_room(fault: &sandbag_profile::Fault) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    let sandbag_profile::Fault::Io(cause) = fault else {
        return false;
    };
    matches!(
        cause.kind(),
        FileTooLarge | QuotaExceeded | StorageFull | WriteZero
    )
}

/// The user's input is wrong: says what and how to mend it.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Something that this machine has not: says what, and what could be done instead.
#[derive(Debug)]
pub struct NotPossible(pub String);

impl std::fmt::Display for NotPossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotPossible {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_bad_input() {
        let of = |errno| {
            let cause = std::io::Error::from_raw_os_error(errno);
            let error = sandbag_profile::Fault::Io(cause).at(&"day.csv".into(), None);
            of_error(&error.into(), false)
        };
        assert_eq!(of(libc::ENOSPC), FAILED);
        assert_eq!(of(libc::EFBIG), FAILED);
        assert_eq!(of(libc::ENOENT), USAGE);
    }

    #[test]
    fn what_the_machine_cannot_do_is_told_from_what_the_user_did_wrong() {
        let not_possible = sandbag_burner::Error::NotPossible {
            what: String::new(),
            remedy: String::new(),
        };
        let not_possible = not_possible.into();
        assert_eq!(of_error(&not_possible, false), NOT_POSSIBLE);
        assert_eq!(of_error(&not_possible, true), OUR_FAILURE);
        assert_eq!(of_error(&BadInput(String::new()).into(), false), USAGE);
        assert_eq!(of_error(&BadInput(String::new()).into(), true), OUR_FAILURE);
        let denied = sandbag_inject::Error::NotPossible {
            what: String::new(),
            remedy: String::new(),
        };
        assert_eq!(of_error(&denied.into(), false), NOT_POSSIBLE);
        let none = sandbag_audit::Error::NoCpus {
            asked: "0".to_owned(),
            why: "CPU 0 is not in our cpuset".to_owned(),
        };
        assert_eq!(of_error(&none.into(), false), NOT_POSSIBLE);
        let empty = sandbag_inject::Error::NothingKnown;
        assert_eq!(of_error(&empty.into(), false), USAGE);
        let fault = sandbag_node::spec::Origin::default().fault("cpus", "", "");
        assert_eq!(of_error(&fault.clone().into(), false), USAGE);
        let held = fault.of_the_machine();
        assert_eq!(of_error(&held.into(), false), NOT_POSSIBLE);
        let missing = sandbag_burner::Error::Command {
            program: "x".into(),
            cause: std::io::ErrorKind::NotFound.into(),
        };
        assert_eq!(of_error(&missing.into(), true), NOT_FOUND);
        assert_eq!(of_error(&anyhow::anyhow!("x"), true), OUR_FAILURE);
        assert_eq!(of_error(&anyhow::anyhow!("x"), false), FAILED);
    }

    #[test]
    fn wrong_usage_beside_a_command_is_not_the_command_s_code() {
        let code = |words: &str| of_usage(words.split(' ').map(OsString::from));
        assert_eq!(code("load --nonsense -- true"), OUR_FAILURE);
        assert_eq!(code("-q replay -- true"), OUR_FAILURE);
        assert_eq!(code("load --nonsense"), USAGE);
        assert_eq!(code("compare 5 -- load --vs load"), USAGE);
    }
}
