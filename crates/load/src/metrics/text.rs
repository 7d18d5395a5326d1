// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of the metrics. Names, kinds and meanings stand once, here; the reference is
//! generated from them.
//!
//! Sources: OpenMetrics 1.0; Prometheus' exposition formats, "Text-based format" 0.0.4.

use std::fmt::Write as _;

use crate::live::{CpuReading, WatchedRun};

/// A metric: name without the suffix of a counter, kind, labels beside `run`, meaning.
pub struct Family {
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: &'static str,
    pub help: &'static str,
}

/// All metrics, in the order in which they are written.
pub const FAMILIES: [Family; 9] = [
    family(
        "sandbag_run",
        "info",
        "method load cpus",
        "A run, by the process id of its supervisor",
    ),
    family(
        "sandbag_run_paused",
        "gauge",
        "",
        "1 while the run is stopped by Ctrl-Z",
    ),
    family(
        "sandbag_load_asked_ratio",
        "gauge",
        "cpu",
        "Load that was asked in the last second",
    ),
    family(
        "sandbag_load_got_ratio",
        "gauge",
        "cpu",
        "Load that the run took in the last second",
    ),
    family(
        "sandbag_others_ratio",
        "gauge",
        "cpu",
        "Load by all others in the last second",
    ),
    family(
        "sandbag_steal_ratio",
        "gauge",
        "cpu",
        "Time that the hypervisor took in the last second",
    ),
    family(
        "sandbag_load_seconds",
        "counter",
        "cpu",
        "CPU time that the run has taken",
    ),
    family(
        "sandbag_program_cpus",
        "gauge",
        "",
        "CPUs that the run's program used in the last second",
    ),
    family(
        "sandbag_node_speed_asked_ratio",
        "gauge",
        "cpu",
        "Speed that is asked of a node's CPU",
    ),
];

const fn family(
    name: &'static str,
    kind: &'static str,
    labels: &'static str,
    help: &'static str,
) -> Family {
    Family {
        name,
        kind,
        labels,
        help,
    }
}

impl Family {
    /// What follows the name in a sample.
    pub fn suffix(&self) -> &'static str {
        match self.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        }
    }
}

/// Which of the two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For a scrape.
    OpenMetrics,
    /// For the textfile collector, which knows no `info` and names a counter with its suffix.
    Prometheus,
}

impl Form {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// All that is known of these runs.
pub fn text(runs: &[&WatchedRun], form: Form) -> String {
    let mut out = String::new();
    for family in &FAMILIES {
        let samples: Vec<Sample> = runs
            .iter()
            .flat_map(|run| samples(family.name, run))
            .collect();
        if !samples.is_empty() {
            write_family(&mut out, family, &samples, form);
        }
    }
    if form == Form::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// Labels beside their values, and a value.
type Sample = (Vec<(&'static str, String)>, f64);

fn write_family(out: &mut String, family: &Family, samples: &[Sample], form: Form) {
    let suffix = family.suffix();
    let (name, kind) = match form {
        Form::OpenMetrics => (family.name.to_owned(), family.kind),
        Form::Prometheus if family.kind == "info" => (format!("{}{suffix}", family.name), "gauge"),
        Form::Prometheus => (format!("{}{suffix}", family.name), family.kind),
    };
    let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {}.", family.help);
    for (labels, value) in samples {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let _ = writeln!(
            out,
            "{}{suffix}{{{}}} {value}",
            family.name,
            labels.join(",")
        );
    }
}

fn samples(family: &str, seen: &WatchedRun) -> Vec<Sample> {
    let run = || ("run", seen.run.pid.to_string());
    let one = |value: Option<f64>| {
        value
            .map(|value| (vec![run()], value))
            .into_iter()
            .collect()
    };
    let each = |value: &dyn Fn(&CpuReading) -> Option<f64>| -> Vec<Sample> {
        let of = |cpu: &CpuReading| Some((vec![run(), ("cpu", cpu.cpu.to_string())], value(cpu)?));
        seen.reading.cpus.iter().filter_map(of).collect()
    };
    match family {
        "sandbag_run" => {
            let facts = [
                ("method", &seen.run.method),
                ("load", &seen.run.load),
                ("cpus", &seen.run.cpus),
            ];
            let facts = facts.map(|(name, value)| (name, value.clone()));
            vec![([vec![run()], facts.to_vec()].concat(), 1.0)]
        }
        "sandbag_run_paused" => one(Some(f64::from(u8::from(seen.reading.paused)))),
        "sandbag_load_asked_ratio" => each(&|cpu| Some(cpu.asked_pct / 100.0)),
        "sandbag_load_got_ratio" => each(&|cpu| Some(cpu.got_pct / 100.0)),
        "sandbag_others_ratio" => each(&|cpu| Some(cpu.others_pct()? / 100.0)),
        "sandbag_steal_ratio" => each(&|cpu| Some(cpu.steal_pct()? / 100.0)),
        "sandbag_load_seconds" => each(&|cpu| Some(cpu.total_ns as f64 / 1e9)),
        "sandbag_program_cpus" => one(seen.program_pct.map(|pct| pct / 100.0)),
        "sandbag_node_speed_asked_ratio" => {
            let speeds = seen.node.iter().flat_map(|node| &node.speeds);
            speeds
                .map(|s| (vec![run(), ("cpu", s.cpu.to_string())], s.asked))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A label's value as both forms write it.
fn escaped(value: &str) -> String {
    let value = sandbag_ui::text::visible(value);
    value.replace('\\', r"\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use sandbag_linux::procstat::CpuDelta;
    use sandbag_run::journal::RunInfo;

    use super::*;
    use crate::live::Reading;

    fn seen(load: &str) -> WatchedRun {
        let kernel = CpuDelta {
            busy_ns: 700,
            idle_ns: 200,
            steal_ns: 100,
            back_ns: 0,
        };
        let reading = Reading {
            cpus: vec![CpuReading {
                cpu: 3,
                asked_pct: 50.0,
                got_pct: 50.25,
                total_ns: 12_500_000_000,
                burns: true,
                kernel: Some(kernel),
            }],
            paused: false,
        };
        let run = RunInfo {
            pid: 4711,
            cpus: "3".to_owned(),
            method: "pace".to_owned(),
            ..RunInfo::of_this_process(load)
        };
        WatchedRun::seen(run, None, reading, Some(37.5))
    }

    #[test]
    fn both_forms_say_the_same() {
        let seen = seen("a \"day\"\n\\\u{1b}");
        let runs = [&seen];
        insta::assert_snapshot!("openmetrics", text(&runs, Form::OpenMetrics));
        insta::assert_snapshot!("prometheus", text(&runs, Form::Prometheus));
        assert_eq!(text(&[], Form::OpenMetrics), "# EOF\n");
    }

    #[test]
    fn every_metric_is_written_with_its_labels() {
        let text = text(&[&seen("x")], Form::OpenMetrics);
        for family in &FAMILIES {
            if !family.name.starts_with("sandbag_node") {
                assert!(
                    text.contains(&format!("# TYPE {} ", family.name)),
                    "{}",
                    family.name
                );
            }
            let samples = samples(family.name, &seen("x"));
            for (labels, _) in samples {
                let names: Vec<&str> = labels.iter().skip(1).map(|(name, _)| *name).collect();
                assert_eq!(names.join(" "), family.labels, "{}", family.name);
            }
        }
    }
}
