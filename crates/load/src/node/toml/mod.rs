// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several nodes in a file.
//!
//! ```toml
//! [defaults]                     # for every node that does not say otherwise
//! method = "hogs"
//!
//! [[node]]
//! name = "small"
//! cpus = "0-1"                   # or: cores = 2
//! speed = 0.5                    # or "50%", "1200MHz", { "0" = 1, "1" = 0.8 }
//! command = ["./app", "arg"]
//!
//! [[node]]
//! name = "changing"
//! cpus = [2, 3]
//! profile = "speeds.csv"         # speed over time, percent
//! hog-sync = "barrier"           # an option of the method
//! commands = ["./one", ["./two", "an argument"]]
//! env = { OMP_NUM_THREADS = 2 }
//! cwd = "work"
//! ```
//!
//! Defaults stand in a table of their own, because a key that is written below
//! a `[[node]]` belongs to that node wherever it was meant to belong. Files
//! (`profile`, `cwd`) are named from the directory of the nodes file. A
//! command that is one text is split into words as a shell would, but no shell
//! runs it.

mod fields;
mod node;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ::toml::de::{DeTable, DeValue};

use crate::node::spec::{Cpus, NodeName, NodeSpec, Origin, SpecError};
use fields::{Fields, TomlText};

const LARGEST: u64 = 1 << 20;

/// What can stand in a nodes file besides the keys of a node itself.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary<'a> {
    pub methods: &'a [&'a str],
    /// Options of methods; their values are handed on as text.
    pub options: &'a [&'a str],
}

/// Several nodes that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct NodesFile {
    /// At least one; no name and no CPU twice.
    pub nodes: Vec<NodeSpec>,
}

impl NodesFile {
    pub fn read(path: &Path, vocabulary: &Vocabulary<'_>) -> Result<Self, SpecError> {
        let (name, dir) = if path.as_os_str() == "-" {
            ("standard input".to_owned(), PathBuf::new())
        } else {
            (
                path.display().to_string(),
                path.parent().map(Path::to_owned).unwrap_or_default(),
            )
        };
        let fault = |what: String, remedy: &str| SpecError {
            file: Some(name.as_str().into()),
            line: None,
            key: String::new(),
            what,
            remedy: remedy.to_owned(),
            not_possible: false,
        };
        let mut bytes = Vec::new();
        let read = if path.as_os_str() == "-" {
            std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes)
        } else {
            File::open(path).and_then(|f| f.take(LARGEST + 1).read_to_end(&mut bytes))
        };
        read.map_err(|cause| fault(cause.to_string(), "name a file that can be read"))?;
        if bytes.len() as u64 > LARGEST {
            return Err(fault(
                format!("it is larger than {LARGEST} bytes"),
                "name a nodes file",
            ));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| fault("it is not UTF-8 text".into(), "save it as UTF-8"))?;
        Self::parse(&text, &name, &dir, vocabulary)
    }

    /// Reads a text; `name` is for messages, files are named from `dir`.
    pub fn parse(
        text: &str,
        name: &str,
        dir: &Path,
        vocabulary: &Vocabulary<'_>,
    ) -> Result<Self, SpecError> {
        let text = TomlText::new(text, name);
        let document = DeTable::parse(text.text()).map_err(|error| {
            let at = error.span().map(|span| span.start);
            text.fault(at, "", error.message(), "mend the TOML (https://toml.io)")
        })?;
        let top = Fields::of(&text, document.get_ref());
        for field in top.iter() {
            match field.key {
                "node" | "defaults" => {}
                key if node::knows(key, vocabulary) => {
                    return Err(text.fault(
                        Some(field.at),
                        key,
                        "it stands before the first [[node]]",
                        "put it below [[node]], or below [defaults] for all nodes",
                    ));
                }
                key => return Err(text.unknown(field.at, key, &["node", "defaults"])),
            }
        }
        let defaults = match top.get("defaults") {
            None => None,
            Some(field) => match field.value.get_ref() {
                DeValue::Table(table) => Some(Fields::of(&text, table)),
                _ => return Err(field.wrong("a table", "write [defaults] on a line of its own")),
            },
        };
        if let Some(defaults) = &defaults {
            node::check_keys(defaults, vocabulary, true)?;
        }
        let no_nodes = || {
            text.fault(
                None,
                "",
                "there are no nodes in it",
                "write a [[node]] with name, cpus and speed",
            )
        };
        let field = top.get("node").ok_or_else(no_nodes)?;
        let DeValue::Array(tables) = field.value.get_ref() else {
            return Err(field.wrong("a list of tables", "write [[node]] with two brackets"));
        };
        let mut nodes = Vec::new();
        for table in tables.iter() {
            let DeValue::Table(fields) = table.get_ref() else {
                return Err(field.wrong("a list of tables", "write [[node]] on a line of its own"));
            };
            let at = table.span().start;
            let fields = Fields::of(&text, fields);
            nodes.push(node::read(&fields, defaults.as_ref(), at, dir, vocabulary)?);
        }
        if nodes.is_empty() {
            Err(no_nodes())
        } else {
            Self::new(nodes)
        }
    }

    pub fn new(nodes: Vec<NodeSpec>) -> Result<Self, SpecError> {
        let mut names: BTreeMap<&NodeName, &Origin> = BTreeMap::new();
        let mut owners: BTreeMap<u32, &NodeSpec> = BTreeMap::new();
        for node in &nodes {
            if let Some(other) = names.insert(&node.name, &node.origin) {
                return Err(node.origin.fault(
                    "name",
                    format!("`{}` is the name of another node{}", node.name, on(other)),
                    "give each node a name of its own",
                ));
            }
            let Cpus::List(cpus) = &node.cpus else {
                continue;
            };
            for cpu in cpus.iter() {
                if let Some(other) = owners.insert(cpu, node) {
                    let place = on(&other.origin);
                    return Err(node.origin.fault(
                        "cpus",
                        format!("CPU {cpu} is also one of node `{}`{place}", other.name),
                        "give each CPU to one node",
                    ));
                }
            }
        }
        Ok(Self { nodes })
    }
}

fn on(origin: &Origin) -> String {
    match origin.line {
        0 => String::new(),
        line => format!(" (line {line})"),
    }
}
