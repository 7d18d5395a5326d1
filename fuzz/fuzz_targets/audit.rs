// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbag_audit::compare::{CompareOptions, compare};
use sandbag_audit::report::terminal::{self, TerminalStyle};
use sandbag_audit::report::{csv, file, junit, page};

const OPTIONS: CompareOptions = CompareOptions {
    confidence: 0.99,
    tolerance_pct: 0.5,
    anyway: true,
};

// Whatever stands in the file: what is accepted can be shown in every form, and
// compared with itself.
fuzz_target!(|text: &[u8]| {
    let Ok(audit) = file::read(text) else { return };
    assert_eq!(file::read(file::write(&audit).as_bytes()).unwrap(), audit);
    let _ = terminal::audit(&audit, &TerminalStyle::default());
    let _ = csv::csv(&audit);
    let _ = junit::junit(&audit);
    let _ = page::audit(&audit);
    if let Ok(found) = compare(&audit, &audit, &OPTIONS) {
        let _ = terminal::comparison(&found, &TerminalStyle::default());
        let _ = page::comparison(&found, &audit, &audit, ["a", "b"]);
    }
});
