// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What shares the CPUs with a program, or slows it.

use serde::{Deserialize, Serialize};

/// Constants of a method in place of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<f64>,
    /// Weight of the group of `pace` or `shares` on each CPU, in those of a default group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Slice of pace's tasks, ms; 0 for the kernel's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<f64>,
    /// `--feel competitor`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub competitor: bool,
}

impl Tuning {
    /// Options of `sandbag load` by this method, each with its words in tables.
    fn parts(self, method: &str) -> impl Iterator<Item = (String, String)> {
        let period = |ms| (format!("--period={ms}ms"), format!(", period {ms} ms"));
        let weight = |weight| {
            (
                format!("--{method}-weight={weight}"),
                format!(", weight {weight}"),
            )
        };
        let slice = |ms| match ms {
            0.0 => ("--pace-slice=kernel".into(), ", the kernel's slice".into()),
            ms => (format!("--pace-slice={ms}ms"), format!(", slice {ms} ms")),
        };
        let (period, weight) = (self.period_ms.map(period), self.weight.map(weight));
        let feel = || ("--feel=competitor".into(), ", feel competitor".into());
        let feel = self.competitor.then(feel);
        [period, weight, self.slice_ms.map(slice), feel]
            .into_iter()
            .flatten()
    }

    pub fn options(self, method: &str) -> Vec<String> {
        self.parts(method).map(|(option, _)| option).collect()
    }

    /// After the method in tables; empty without constants.
    fn name(self) -> String {
        self.parts("").map(|(_, name)| name).collect()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    #[default]
    Unloaded,
    /// An ordinary task on each CPU that never sleeps: what a real competitor
    /// does.
    Spinners,
    /// `sandbag load`, all CPUs.
    Load {
        method: String,
        pct: f64,
        #[serde(flatten)]
        tuning: Tuning,
    },
    /// `sandbag replay` of a profile.
    Replay { profile: String },
    /// `sandbag slow` with nothing in the node; the program runs outside it,
    /// on the same CPUs.
    Beside { method: String, speed: f64 },
    /// The same with a node for each CPU, each with a period of its own.
    Apart { method: String, speed: f64 },
    /// `sandbag slow`: the program is in the node.
    Node { method: String, speed: f64 },
}

impl Condition {
    /// A load with the method's own constants.
    pub fn load(method: &str, pct: f64) -> Self {
        Self::Load {
            method: method.to_owned(),
            pct,
            tuning: Tuning::default(),
        }
    }

    /// The method that makes it, if one does.
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Load { method, .. }
            | Self::Beside { method, .. }
            | Self::Apart { method, .. }
            | Self::Node { method, .. } => Some(method),
            _ => None,
        }
    }

    /// The speed of its nodes; 1 where it has none.
    pub fn speed(&self) -> f64 {
        match self {
            Self::Beside { speed, .. } | Self::Apart { speed, .. } | Self::Node { speed, .. } => {
                *speed
            }
            _ => 1.0,
        }
    }

    /// As it is called in tables.
    pub fn name(&self) -> String {
        match self {
            Self::Unloaded => "nothing".to_owned(),
            Self::Spinners => "a spinner per CPU".to_owned(),
            Self::Load {
                method,
                pct,
                tuning,
            } => format!("{pct} % by {method}{}", tuning.name()),
            Self::Replay { profile } => format!("replay of {profile}"),
            Self::Beside { method, speed } => {
                format!("beside an empty node of speed {speed} by {method}")
            }
            Self::Apart { method, speed } => format!("speed {speed} by {method}, CPU by CPU"),
            Self::Node { method, speed } => format!("speed {speed} by {method}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_back_as_they_were_written() {
        for condition in [
            Condition::Unloaded,
            Condition::Node {
                method: "hogs".to_owned(),
                speed: 0.3,
            },
            Condition::load("pace", 50.0),
            Condition::Load {
                method: "pace".to_owned(),
                pct: 50.0,
                tuning: Tuning {
                    weight: Some(3.0),
                    slice_ms: Some(0.0),
                    ..Tuning::default()
                },
            },
        ] {
            let text = serde_json::to_string(&condition).unwrap();
            assert_eq!(serde_json::from_str::<Condition>(&text).unwrap(), condition);
        }
        // Rows of earlier versions.
        let before = r#"{"load":{"method":"pace","pct":50.0,"period_ms":5.0}}"#;
        let condition: Condition = serde_json::from_str(before).unwrap();
        assert_eq!(condition.name(), "50 % by pace, period 5 ms");
    }

    #[test]
    fn constants_become_options() {
        let tuning = Tuning {
            period_ms: Some(5.0),
            weight: Some(0.25),
            slice_ms: Some(0.1),
            competitor: true,
        };
        assert_eq!(
            tuning.options("pace"),
            [
                "--period=5ms",
                "--pace-weight=0.25",
                "--pace-slice=0.1ms",
                "--feel=competitor"
            ]
        );
        let kernels = Tuning {
            slice_ms: Some(0.0),
            ..Tuning::default()
        };
        assert_eq!(kernels.options("pace"), ["--pace-slice=kernel"]);
        assert!(Tuning::default().options("pace").is_empty());
    }
}
