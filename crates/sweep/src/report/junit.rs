// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thresholds as the XML that CI servers read (the format of JUnit's Ant task).

use std::fmt::Write as _;

use sandbag_ui::text::visible;

use crate::record::Sweep;
use crate::threshold::Outcome;

/// A test case for each threshold; one that is unsure is skipped, or fails with
/// `unsure_fails`.
pub fn junit(sweep: &Sweep, unsure_fails: bool) -> String {
    let fails = |outcome| outcome == Outcome::Failed || unsure_fails && outcome == Outcome::Unsure;
    let all = &sweep.thresholds;
    let failures = all.iter().filter(|one| fails(one.outcome)).count();
    let unsure = all.iter().filter(|one| one.outcome == Outcome::Unsure);
    let skipped = unsure.filter(|one| !fails(one.outcome)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\" errors=\"0\"",
        all.len()
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  \
         <testsuite name=\"sandbag sweep\" timestamp=\"{}\" {counts}>\n",
        escaped(&sweep.started_at)
    );
    for one in all {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "    <testcase classname=\"sandbag.sweep\" name=\"not {}\"",
            escaped(&one.fail_if)
        );
        let reason = escaped(&one.reason);
        let _ = match (fails(one.outcome), one.outcome) {
            (true, _) => writeln!(out, "><failure message=\"{reason}\"/></testcase>"),
            (_, Outcome::Unsure) => {
                writeln!(out, "><skipped message=\"unsure: {reason}\"/></testcase>")
            }
            _ => writeln!(out, "/>"),
        };
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in visible(text).chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            c => out.push(c),
        }
    }
    out
}
