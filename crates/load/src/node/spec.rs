// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node as it is asked for, before the machine is looked at. It knows where each
//! of its keys was written, in a nodes file or on the command line, so that a later
//! fault (a CPU that is offline) can name the place.

use sandbag_ui::{ExitStatus, exit};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use sandbag_linux::CpuList;

use crate::node::speed::{BadSpeed, Speeds};

/// Longest name: it becomes part of a socket's path, which the kernel limits
/// to 108 bytes, and of group names.
pub const LONGEST_NAME: usize = 40;

/// The name of a node: letters, digits, `_`, `-` and `.`, beginning with a
/// letter or a digit. It is a file name on any system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name for a node; write at most {LONGEST_NAME} letters, digits, - _ and ., \
     beginning with a letter or digit"
)]
pub struct BadName(String);

impl NodeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let fits = (1..=LONGEST_NAME).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(text.escape_debug().take(LONGEST_NAME).collect()))
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cpus {
    List(CpuList),
    Cores(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeCourse {
    /// Always the same, until it is changed by [`set`](crate::node::protocol).
    Constant(Speeds),
    /// A load profile of any known format whose values are speeds in percent.
    Profile(PathBuf),
}

/// One virtual node, as asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSpec {
    pub name: NodeName,
    pub cpus: Cpus,
    pub course: NodeCourse,
    /// How it is slowed; `None` for the default.
    pub method: Option<String>,
    /// Options of the method by name, as they would be written on the
    /// command line (`hog-sync` = `barrier`).
    pub options: BTreeMap<String, String>,
    /// What runs in it, program and arguments; none for a node that waits for
    /// `sandbag slow exec`.
    pub commands: Vec<Vec<String>>,
    pub env: BTreeMap<String, String>,
    /// Where they run; `None` for where we are.
    pub cwd: Option<PathBuf>,
    pub origin: Origin,
}

/// Where the keys of a node were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub file: Option<Arc<str>>,
    pub line: u64,
    pub keys: BTreeMap<String, u64>,
}

impl Origin {
    pub fn fault(
        &self,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> SpecError {
        SpecError {
            file: self.file.clone(),
            line: Some(self.keys.get(key).copied().unwrap_or(self.line)).filter(|line| *line > 0),
            key: key.to_owned(),
            what: what.into(),
            remedy: remedy.into(),
            not_possible: false,
        }
    }

    /// Where a key was written, or the node where it was not: `n.toml:5`.
    pub fn place(&self, key: &str) -> String {
        let line = self.keys.get(key).unwrap_or(&self.line);
        match &self.file {
            Some(file) => format!("{file}:{line}"),
            None => "command line".to_owned(),
        }
    }

    pub fn bad_speed(&self, bad: BadSpeed) -> SpecError {
        let what = format!("`{}`: {}", bad.value, bad.reason);
        self.fault("speed", what, bad.remedy)
    }
}

/// What is wrong with a description of nodes, where, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    pub file: Option<Arc<str>>,
    pub line: Option<u64>,
    /// The key, or empty where the file as a whole is meant.
    pub key: String,
    pub what: String,
    pub remedy: String,
    /// It is well described, but this machine cannot have it, or not now.
    pub not_possible: bool,
}

impl SpecError {
    /// The description is not at fault: the machine is.
    pub fn of_the_machine(self) -> Self {
        Self {
            not_possible: true,
            ..self
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, _) if !self.key.is_empty() => f.write_str("--")?,
            (None, _) => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for SpecError {}

impl ExitStatus for BadName {}

impl ExitStatus for SpecError {
    fn exit_code(&self) -> u8 {
        if self.not_possible {
            exit::NOT_POSSIBLE
        } else {
            exit::USAGE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_file_names() {
        for name in ["a", "small-1", "node_2.big", "7"] {
            assert_eq!(name.parse::<NodeName>().unwrap().to_string(), name);
        }
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in ["", ".", "..", ".a", "-a", "a/b", "a b", "é", "a\n", &long] {
            let error = name.parse::<NodeName>().unwrap_err().to_string();
            assert!(error.contains("letters, digits"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_fault_names_its_place() {
        let mut origin = Origin {
            file: Some("n.toml".into()),
            line: 3,
            keys: BTreeMap::from([("speed".to_owned(), 5)]),
        };
        let fault = origin.fault("speed", "`0`: too slow", "write more");
        assert_eq!(
            fault.to_string(),
            "n.toml:5: speed: `0`: too slow; write more"
        );
        let fault = origin.fault("cpus", "missing", "write some");
        assert_eq!(fault.to_string(), "n.toml:3: cpus: missing; write some");
        assert_eq!(origin.place("speed"), "n.toml:5");
        assert_eq!(origin.place("cwd"), "n.toml:3");
        origin = Origin::default();
        let fault = origin.fault("speed", "`0`: too slow", "write more");
        assert_eq!(fault.to_string(), "--speed: `0`: too slow; write more");
    }
}
