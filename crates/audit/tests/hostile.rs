// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever figures stand in an audit: if it is read, it can be shown in every form
//! and compared.

use proptest::prelude::*;
use sandbag_audit::compare::{CompareOptions, compare};
use sandbag_audit::fixture::Maker;
use sandbag_audit::report::terminal::{self, TerminalStyle};
use sandbag_audit::report::{csv, file, junit, page};

const WILD: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "5e-324",
    "18446744073709551615",
    "4294967295",
    "1e999",
    "null",
    "\"\"",
    "[]",
    "-0.0",
];

/// The text with the number of this rank replaced.
fn changed(text: &str, rank: usize, wild: &str) -> String {
    let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let starts: Vec<usize> = text
        .match_indices([':', '[', ','])
        .map(|(at, _)| at + 1)
        .filter(|at| text[*at..].starts_with(|c: char| c == '-' || c.is_ascii_digit()))
        .collect();
    let start = starts[rank % starts.len()];
    let rest = &text[start..];
    let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
    format!("{}{wild}{}", &text[..start], &rest[end..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn what_is_read_is_shown(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&WILD[..])), 1..6),
    ) {
        let whole = Maker::eight().cpus(3).rounds(2).make();
        let mut text = file::write(&whole);
        for (rank, wild) in &changes {
            text = changed(&text, rank.index(1 << 20), wild);
        }
        if let Ok(audit) = file::read(text.as_bytes()) {
            prop_assert!(!terminal::audit(&audit, &TerminalStyle::default()).contains("NaN"));
            prop_assert!(csv::csv(&audit).starts_with("kind,"));
            prop_assert!(junit::junit(&audit).ends_with("</testsuites>\n"));
            prop_assert!(page::audit(&audit).ends_with("</html>"));
            let options = CompareOptions {
                confidence: 0.99,
                tolerance_pct: 0.5,
                anyway: true,
            };
            if let Ok(found) = compare(&whole, &audit, &options) {
                prop_assert!(!terminal::comparison(&found, &TerminalStyle::default()).is_empty());
                let page = page::comparison(&found, &whole, &audit, ["a", "b"]);
                prop_assert!(page.ends_with("</html>"));
            }
        }
    }
}
