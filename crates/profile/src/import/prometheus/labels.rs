// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the labels of a series say.

use std::collections::BTreeMap;
use std::fmt;

use crate::import::counters::CpuState;

/// node_exporter's counter, and what it was called before version 0.16.
const COUNTERS: [&str; 2] = ["node_cpu_seconds_total", "node_cpu"];
/// What a series itself is called, among its labels.
pub(super) const NAME: &str = "__name__";

/// Whether a metric is known to count CPU time.
pub(super) fn is_counter(name: &str) -> bool {
    COUNTERS.contains(&name)
}

/// Labels, those that matter here apart.
#[derive(Debug, Default)]
pub(super) struct Labels {
    pub(super) name: Option<String>,
    pub(super) cpu: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) machine: MachineLabels,
    pub(super) others: OtherLabels,
}

impl Labels {
    pub(super) fn set(&mut self, key: &str, value: String) {
        let slot = match key {
            NAME => &mut self.name,
            "cpu" => &mut self.cpu,
            "mode" => &mut self.mode,
            "instance" => &mut self.machine.instance,
            "job" => &mut self.machine.job,
            _ => {
                self.others.0.insert(key.to_owned(), value);
                return;
            }
        };
        *slot = Some(value);
    }
}

/// All other labels, by which two series of one CPU and mode differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OtherLabels(BTreeMap<String, String>);

impl OtherLabels {
    /// Those that `other` has not, or with another value.
    pub(super) fn without(&self, other: &Self) -> Self {
        let differs = |label: &(&String, &String)| other.0.get(label.0) != Some(label.1);
        let labels = self.0.iter().filter(differs);
        Self(labels.map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}

impl fmt::Display for OtherLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.0.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
        write!(f, "{{{}}}", labels.join(", "))
    }
}

/// The labels that identify a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MachineLabels {
    pub(super) instance: Option<String>,
    pub(super) job: Option<String>,
}

/// How well a machine answers to a name, the best first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answers {
    /// Its `instance` is the name, or none was given.
    Exactly,
    /// Its `instance` is the name with a port.
    WithPort,
    /// Its `job` is the name.
    #[default]
    AsJob,
}

impl MachineLabels {
    pub(super) fn answers(&self, name: Option<&str>) -> Option<Answers> {
        let Some(name) = name else {
            return Some(Answers::Exactly);
        };
        if let Some(instance) = self.instance.as_deref() {
            if instance == name {
                return Some(Answers::Exactly);
            }
            let port = instance
                .strip_prefix(name)
                .and_then(|p| p.strip_prefix(':'));
            if port.is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit())) {
                return Some(Answers::WithPort);
            }
        }
        (self.job.as_deref() == Some(name)).then_some(Answers::AsJob)
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.instance.as_deref().or(self.job.as_deref())
    }
}

impl fmt::Display for MachineLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.instance, &self.job) {
            (Some(instance), Some(job)) => write!(f, "{instance} (job {job})"),
            (None, Some(job)) => write!(f, "job {job}"),
            (Some(instance), None) => f.write_str(instance),
            (None, None) => f.write_str("one without a name"),
        }
    }
}

/// What a `mode` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Known(CpuState),
    /// Time that user or nice already contain.
    Guest,
    Unknown,
}

/// `interrupt` is what the BSDs have.
pub(super) fn mode(text: &str) -> Mode {
    Mode::Known(match text {
        "user" => CpuState::User,
        "nice" => CpuState::Nice,
        "system" => CpuState::System,
        "idle" => CpuState::Idle,
        "iowait" => CpuState::Iowait,
        "irq" | "interrupt" => CpuState::Irq,
        "softirq" => CpuState::Softirq,
        "steal" => CpuState::Steal,
        "guest" | "guest_nice" => return Mode::Guest,
        _ => return Mode::Unknown,
    })
}

/// What a state is called, by its number.
pub(super) const MODES: [&str; crate::import::counters::STATES] = [
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
];

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("vm:9100", Some(Answers::Exactly))]
    #[case("vm", Some(Answers::WithPort))]
    #[case("node", Some(Answers::AsJob))]
    #[case("v", None)]
    #[case("vm:", None)]
    #[case("", None)]
    fn names(#[case] name: &str, #[case] answers: Option<Answers>) {
        let machine = MachineLabels {
            instance: Some("vm:9100".into()),
            job: Some("node".into()),
        };
        assert_eq!(machine.answers(Some(name)), answers);
        assert_eq!(machine.answers(None), Some(Answers::Exactly));
    }

    #[test]
    fn modes_are_called_as_they_are_read() {
        for (i, name) in MODES.iter().enumerate() {
            let Mode::Known(state) = mode(name) else {
                panic!("{name}");
            };
            assert_eq!(state as usize, i);
        }
        assert_eq!(mode("guest_nice"), Mode::Guest);
        assert_eq!(mode("dpc"), Mode::Unknown);
    }
}
