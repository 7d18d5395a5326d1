// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synchronisation of jitter (De, Kothari and Mann 2008): when ranks are at the same
//! position of their traces.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Written `none`, `once`, `phase`, `every:K`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Each group has a random position of its own.
    #[default]
    None,
    /// All begin at a common position; then they drift apart.
    Once,
    /// All are set to a common random position every N phases, beginning with the
    /// first; 1: at each, without drift.
    Phases(u32),
}

impl FromStr for Sync {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => return Ok(Self::None),
            "once" => return Ok(Self::Once),
            "phase" => return Ok(Self::Phases(1)),
            _ => {}
        }
        // Like the numbers of phases of other options: 1e3, too.
        let every = text.trim().strip_prefix("every:");
        match every.and_then(|every| every.parse::<f64>().ok()) {
            Some(every) if (1.0..=f64::from(u32::MAX)).contains(&every) => {
                Ok(Self::Phases(every as u32))
            }
            _ => Err("expected none, once, phase or every:K (K phases)".to_owned()),
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Once => f.write_str("once"),
            Self::Phases(1) => f.write_str("phase"),
            Self::Phases(every) => write!(f, "every:{every}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in ["none", "once", "phase", "every:100"] {
            assert_eq!(text.parse::<Sync>().unwrap().to_string(), text);
        }
        assert_eq!("every:1e3".parse(), Ok(Sync::Phases(1000)));
        for text in ["every:0", "every:", "every:1e10", "twice", ""] {
            assert!(
                text.parse::<Sync>().unwrap_err().contains("every:K"),
                "{text}"
            );
        }
    }
}
