// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit codes of audits.

use sandbag_ui::exit::{FAILED, KEPT, MISSED, UNDECIDED};

use crate::model::{Audit, AuditVerdict as Equality, Test};

/// The table for `audit show`.
pub const SHOW_HELP: &str = "\
Exit codes:
  0 shown, 1 failed, 2 wrong usage or bad input; with --strict also 1 every
  test of the audit failed, 3 CPUs are unequal, 4 undecided.";

/// The table for `audit compare`.
pub const COMPARE_HELP: &str = "\
Exit codes:
  0 nothing changed, 1 failed, 2 wrong usage or bad input, 3 changed (slower or
  faster), 4 undecided. What an audit could not resolve decides nothing.";

/// The table for `audit gather`.
pub const GATHER_HELP: &str = "\
Exit codes:
  0 no host and no CPU is slower, 1 an audit cannot be used, lacks a test of
  the others or did other work in it, or sandbag failed, 2 wrong usage or bad
  input, 3 a host or a CPU is slower, 4 undecided, or the own audit of a host
  is not complete, undecided or unequal.";

/// The table for audits.
pub const HELP: &str = "\
Exit codes:
  0 all CPUs are equal, 1 failed, also every test, 2 wrong usage or bad input,
  3 unequal, with --fail-on inequality only if a CPU itself charges more,
  4 undecided: too few runs, the machine too noisy, a CPU lost on the way, or a
  test that failed part way, 5 not possible on this machine, 130 interrupted
  before anything was measured.
  What this kernel's accounting cannot resolve decides nothing.";

/// The code of an audit.
pub fn of_audit(audit: &Audit) -> u8 {
    // To be asked to stop is no failure.
    let failed = |test: &Test| test.samples.is_empty() && test.failure.is_some();
    if audit.tests.iter().all(failed) {
        FAILED
    } else {
        of_equality(audit.verdict)
    }
}

/// The code of a verdict on CPUs.
pub fn of_equality(verdict: Equality) -> u8 {
    match verdict {
        Equality::Equal | Equality::NotResolvable => KEPT,
        Equality::Undecided => UNDECIDED,
        Equality::Unequal => MISSED,
    }
}
