// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs in a node can read about it: environment variables.
//!
//! | variable | value |
//! |---|---|
//! | `SANDBAG_NODE` | the node's name |
//! | `SANDBAG_NODE_CPUS` | its CPUs: `0-1,4` |
//! | `SANDBAG_NODE_SPEED` | mean speed of its CPUs: `0.45` |
//! | `SANDBAG_NODE_SPEEDS` | speed of each CPU: `0-1=0.5,4=0.35` |
//!
//! The environment of a running program does not change: these are the
//! speeds at the program's start, and where they change, by a profile or by
//! `sandbag slow set`, the node's socket knows the present ones.

use std::collections::BTreeMap;

use crate::node::ratios::{Ratios, round_ratio};
use crate::node::spec::NodeName;

pub const NODE: &str = "SANDBAG_NODE";
pub const CPUS: &str = "SANDBAG_NODE_CPUS";
pub const SPEED: &str = "SANDBAG_NODE_SPEED";
pub const SPEEDS: &str = "SANDBAG_NODE_SPEEDS";
pub const ALL: [&str; 4] = [NODE, CPUS, SPEED, SPEEDS];

pub fn variables(name: &NodeName, speeds: &Ratios) -> BTreeMap<String, String> {
    [
        (NODE, name.to_string()),
        (CPUS, speeds.cpus().to_string()),
        (SPEED, round_ratio(speeds.mean()).to_string()),
        (SPEEDS, speeds.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// The node that a process is in; starting another node there is refused.
pub fn node_of(get: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    get(NODE).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::speed::Speeds;

    #[test]
    fn programs_can_read_what_they_got() {
        let ratios = Ratios::new(vec![(0, 0.5), (1, 0.5), (4, 1.0 / 3.0)]);
        let set = variables(&"small".parse().unwrap(), &ratios);
        assert_eq!(set.len(), ALL.len());
        assert_eq!(set[NODE], "small");
        assert_eq!(set[CPUS], "0,1,4");
        assert_eq!(set[SPEED], "0.4444");
        assert_eq!(set[SPEEDS], "0,1=0.5,4=0.3333");
        assert!(set[SPEEDS].parse::<Speeds>().is_ok());
        assert_eq!(
            node_of(|key| set.get(key).cloned()).as_deref(),
            Some("small")
        );
        assert_eq!(node_of(|_| Some(String::new())), None);
    }
}
