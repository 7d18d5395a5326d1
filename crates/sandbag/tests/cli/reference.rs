// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/reference is what the program says of itself, so that nothing that it
//! can do changes or disappears by accident.

use std::fs;

use crate::dir::Dir;

const AGREED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");

#[test]
fn the_reference_is_what_the_program_says() {
    let dir = Dir::new();
    dir.run(&["generate", "reference", "pages"]).success();
    let mut names = Vec::new();
    for page in fs::read_dir(dir.path().join("pages")).unwrap() {
        let path = page.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let agreed = fs::read_to_string(format!("{AGREED}/{name}")).unwrap_or_default();
        let found = fs::read_to_string(&path).unwrap();
        for (line, (agreed, found)) in agreed.lines().zip(found.lines()).enumerate() {
            assert_eq!(agreed, found, "{name}:{}: `make reference`", line + 1);
        }
        assert_eq!(agreed.lines().count(), found.lines().count(), "{name}");
        names.push(name);
    }
    assert!(names.len() == 6, "{names:?}");
}
