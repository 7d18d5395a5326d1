// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sandbag_load::node::{Cpus, NodeCourse, NodesFile, Vocabulary};

const WORDS: Vocabulary<'_> = Vocabulary {
    methods: &["hogs", "lim"],
    options: &["period", "hog-sync", "lim-variant"],
    host: "n1",
};

// Whatever stands in the file: what is accepted keeps the promises of
// `NodesFile`, what is refused is refused in one line that begins with the
// file's name.
fuzz_target!(|text: &str| {
    match NodesFile::parse(text, "n.toml", Path::new("dir"), &WORDS) {
        Err(error) => {
            assert!(error.to_string().starts_with("n.toml"));
            assert!(!error.remedy.is_empty());
        }
        Ok(file) => {
            assert!(!file.nodes.is_empty());
            let mut taken = std::collections::BTreeSet::new();
            let mut names = std::collections::BTreeSet::new();
            for node in &file.nodes {
                assert!(names.insert(&node.name));
                assert!(node.commands.iter().all(|words| !words.is_empty()));
                let Cpus::List(cpus) = &node.cpus else {
                    continue;
                };
                assert!(!cpus.is_empty());
                assert!(cpus.iter().all(|cpu| taken.insert(cpu)));
                if let NodeCourse::Constant(speeds) = &node.course
                    && let Ok(ratios) = speeds.resolve(cpus, |_| Some(3_000_000))
                {
                    assert!(ratios.values().iter().all(|mu| *mu > 0.0 && *mu <= 1.0));
                }
            }
        }
    }
});
