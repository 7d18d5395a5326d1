// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What sandbag can do, held against what was agreed.

use crate::dir::Dir;

/// The agreed text; `UPDATE=1 cargo test -p sandbag --test cli capabilities`
/// writes it anew.
const AGREED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/capabilities.txt");

#[test]
fn no_command_option_format_method_or_exit_code_disappears() {
    let assert = Dir::new().run(&["generate", "capabilities"]).success();
    let found = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(AGREED, &found).unwrap();
    }
    let agreed = std::fs::read_to_string(AGREED).unwrap();
    for (agreed, found) in agreed.lines().zip(found.lines()) {
        assert_eq!(agreed, found);
    }
    assert_eq!(agreed.lines().count(), found.lines().count());
}
