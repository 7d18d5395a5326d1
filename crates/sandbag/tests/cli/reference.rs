// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/reference is what the program says of itself, so that nothing that it
//! can do changes or disappears by accident.

use std::fs;

use serde_json::Value;

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

/// Names of all fields at any depth.
fn fields(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Object(all) => {
            for (name, value) in all {
                found.push(name.clone());
                fields(value, found);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| fields(one, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_jitter_json_is_described() {
    let page = fs::read_to_string(format!("{AGREED}/status-json.md")).unwrap();
    let dir = Dir::new();
    let tick = "--period 10ms --jitter 1us --length 25us --cpus 0,1 -d 3s";
    dir.line(&format!("jitter synth {tick} -o a.sbj")).success();
    for (words, least) in [("show a.sbj", 25), ("compare a.sbj a.sbj", 15)] {
        let shown = dir.line(&format!("jitter {words} --json")).success();
        let shown = serde_json::from_slice(&shown.get_output().stdout).unwrap();
        let mut names = Vec::new();
        fields(&shown, &mut names);
        names.sort();
        names.dedup();
        assert!(names.len() >= least, "{words}: {names:?}");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{words}: {name}");
        }
    }
}
