// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line of the doctor's report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandbag_ui::text::visible;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    Warn,
    No,
    Untried,
}

impl CheckState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::No => "NO",
            Self::Untried => "untried",
        }
    }
}

/// Something that was looked at or tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub state: CheckState,
    pub why: String,
    /// What to do, one line; absent where there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What was measured, with the unit in the name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<&'static str, f64>,
}

impl Check {
    pub fn new(name: &'static str, state: CheckState, why: impl Into<String>) -> Self {
        Self {
            name,
            state,
            why: why.into(),
            remedy: None,
            figures: BTreeMap::new(),
        }
    }

    pub fn ok(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, CheckState::Ok, why)
    }

    pub fn warn(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, CheckState::Warn, why)
    }

    pub fn no(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, CheckState::No, why)
    }

    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub fn figure(mut self, name: &'static str, value: f64) -> Self {
        self.figures.insert(name, value);
        self
    }
}

/// Checks for people: name, state and reason in columns, the remedy below.
pub fn table(title: &str, checks: &[Check]) -> String {
    let name = checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut text = format!("{title}\n");
    for check in checks {
        let state = check.state.word();
        // Found on the machine, such as the load that a journal names.
        let why = visible(&check.why);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:name$}  {state:7}  {why}", check.name);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "  {:name$}  {:7}  -> {remedy}", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_the_reason_and_one_for_the_remedy() {
        let checks = [
            Check::ok("pace", "works"),
            Check::no("real-time", "none").remedy("ask for some"),
        ];
        assert_eq!(
            table("Methods", &checks),
            [
                "Methods",
                "  pace       ok       works",
                "  real-time  NO       none",
                "                      -> ask for some\n",
            ]
            .join("\n")
        );
    }

    #[test]
    fn what_is_absent_is_not_in_the_document() {
        let check = Check::ok("slice", "kept").figure("kept_ms", 100.0);
        assert_eq!(
            serde_json::to_string(&check).unwrap(),
            r#"{"name":"slice","state":"ok","why":"kept","figures":{"kept_ms":100.0}}"#
        );
    }
}
