// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where results go: readers that leave, names that are taken, endings.

use std::process::{Command, Stdio};

use crate::dir::Dir;

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let dir = Dir::new();
    for arguments in [
        &["lab", "list"][..],
        &["generate", "completions", "bash"],
        &["jitter", "synth", "--like", "bgl-io-2007", "-o", "-"],
        &[
            "jitter",
            "record",
            "-d",
            "100ms",
            "--preheat",
            "0s",
            "-o",
            "-",
        ],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Command::new(assert_cmd::cargo::cargo_bin("sandbag"))
            .args(arguments)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(writer)
            .output()
            .unwrap();
        let text = String::from_utf8(ended.stderr).unwrap();
        assert!(!text.contains("roken pipe"), "{arguments:?}: {text}");
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {text}");
    }
}
