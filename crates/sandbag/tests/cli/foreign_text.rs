// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names and texts that others chose: none drives a terminal, turns the
//! direction of writing or forges a line of ours, whatever command shows it.

use sandbag_audit::fixture::eight;
use sandbag_audit::model::Audit;
use sandbag_jitter::attribution::{
    Attribution, AttributionSummary, Cause, Count, CpuCauses, CpuCounters, NoiseOrigin, SourceKind,
};
use sandbag_jitter::{CpuTrace, JitterTrace, LoopClock, Span, TraceEvent, TraceHeader, format};
use sandbag_load::report::run::Run;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::dir::{Dir, fixture};

/// Red, by two introducers; backwards; and a line of its own.
const FOREIGN: &str = "\u{1b}[31mred\u{9b}31m\u{202e}\r\nFORGED";

/// Fails if something of [`FOREIGN`] got through.
fn harmless(dir: &Dir, arguments: &[&str]) {
    let output = dir.command(arguments).output().unwrap();
    let mut found = 0;
    for text in [output.stdout, output.stderr] {
        let text = String::from_utf8(text).unwrap();
        found += text.matches(r"\u001b[31mred\u009b31m\u202e").count();
        for line in text.lines() {
            let bad = |c: char| c.is_control() || c == '\u{202e}';
            assert!(!line.contains(bad), "{arguments:?}: {line:?}");
            assert!(
                !line.trim_start().starts_with("FORGED"),
                "{arguments:?}: {line:?}"
            );
        }
    }
    assert!(
        found > 0,
        "{arguments:?} does not show it: the test has lost its object"
    );
}

/// The record with every text replaced that may be anything.
fn spoiled<T: DeserializeOwned>(record: Value) -> Value {
    fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
        match value {
            Value::String(_) => all.push(at.to_owned()),
            Value::Array(values) => {
                for (i, value) in values.iter().enumerate() {
                    pointers(value, &format!("{at}/{i}"), all);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    pointers(value, &format!("{at}/{key}"), all);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    pointers(&record, "", &mut all);
    let mut spoiled = record;
    for pointer in all.iter().filter(|pointer| !pointer.ends_with("/sandbag")) {
        let text = spoiled.pointer_mut(pointer).unwrap();
        let before = std::mem::replace(text, FOREIGN.into());
        // Names of a fixed set are read as such.
        if T::deserialize(&spoiled).is_err() {
            *spoiled.pointer_mut(pointer).unwrap() = before;
        }
    }
    spoiled
}

/// Two CPUs for a second, with a task and a handler that have such names.
fn trace() -> Vec<u8> {
    let events = |shift: u64| -> Vec<TraceEvent> {
        (1..200)
            .map(|i| TraceEvent {
                start_ns: i * 5_000_000 + shift,
                length_ns: 10_000 + i % 7 * 1000,
            })
            .collect()
    };
    let source = |kind| NoiseOrigin {
        kind,
        name: FOREIGN.to_owned(),
        number: Some(7),
    };
    let known = vec![Span {
        from_ns: 0,
        until_ns: 1_000_000_000,
    }];
    let causes = |cpu: u32, shift| CpuCauses {
        cpu,
        known: known.clone(),
        causes: events(shift)
            .iter()
            .enumerate()
            .map(|(i, event)| Cause {
                start_ns: event.start_ns,
                length_ns: event.length_ns,
                source: (i % 3) as u32,
            })
            .collect(),
    };
    let count = Count {
        name: FOREIGN.to_owned(),
        count: 100,
    };
    let trace = JitterTrace {
        header: TraceHeader {
            recorder: FOREIGN.to_owned(),
            host: Some(FOREIGN.to_owned()),
            kernel: Some(FOREIGN.to_owned()),
            began_s: None,
            clock: LoopClock::Imported,
            cpus: vec![0, 1],
            real_time: None,
        },
        cpus: [0, 1]
            .map(|cpu| CpuTrace {
                cpu,
                known: known.clone(),
                events: events(u64::from(cpu) * 1000),
            })
            .to_vec(),
        notes: None,
        attribution: Some(Box::new(Attribution {
            about: AttributionSummary {
                why: Some(FOREIGN.to_owned()),
                clock: Some(FOREIGN.to_owned()),
                counters: vec![CpuCounters {
                    elapsed_ns: 1_000_000_000,
                    interrupts: vec![count],
                    ..CpuCounters::default()
                }],
                ..AttributionSummary::default()
            },
            sources: [SourceKind::Task, SourceKind::Irq, SourceKind::Nmi]
                .map(source)
                .to_vec(),
            cpus: vec![causes(0, 0), causes(1, 1000)],
        })),
        warnings: Vec::new(),
    };
    let mut bytes = Vec::new();
    format::write(&trace, &mut bytes).unwrap();
    bytes
}

#[test]
fn names_in_a_trace_of_jitter_are_shown_escaped() {
    let dir = Dir::new().with("a.sbj", trace());
    for arguments in [
        "jitter show a.sbj",
        "jitter show --json a.sbj",
        "jitter show --worst 50 --brief a.sbj",
        "show a.sbj",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        harmless(&dir, &arguments);
    }
    // A class of events per cause, by the name of the cause.
    harmless(
        &dir,
        &[
            "scale",
            "predict",
            "a.sbj",
            "--ranks",
            "1,1000",
            "--quantum",
            "100us",
        ],
    );
    // It comes from a task that is called so, by way of ftrace.
    let red = FOREIGN.split('\r').next().unwrap();
    let text = format!(
        "# tracer: osnoise\n\
         migration/0-54 [000] d... 10.000041: thread_noise: {red}:54 start 10.000003000 duration \
         3068 ns\n\
         osnoise/0-961 [000] .... 10.000042: sample_threshold: start 10.000000555 duration 8812 \
         ns interferences 1\n\
         osnoise/0-961 [000] .... 11.000000: sample_threshold: start 10.999000000 duration 5000 \
         ns interferences 0\n"
    );
    let dir = Dir::new().with("a.txt", text);
    harmless(&dir, &["jitter", "show", "a.txt"]);
}

fn record() -> Value {
    json!({
        "format": 1, "sandbag": "0.1.0", "started_at": "", "arguments": [""],
        "machine": {
            "host": "", "kernel": "", "cpu_model": "", "cpus_online": 1, "layout": "",
            "facts": {"governor": ""},
        },
        "method": {"name": "", "period_ms": 10.0, "parameters": {"x": ""}},
        "profile": "", "length_s": 10.0, "load_began_s": null, "paused_s": 0.0,
        "cpus": [{
            "cpu": 0, "asked_pct": 50.0, "got_pct": 50.0, "steal_pct": 0.0, "holes": 0,
            "weight_changes": 0, "burner_s": 5.0,
        }],
        "error_1s": null, "error_100ms": null, "error_distribution": [], "noisy_share": 0.0,
        "tolerance": {"mean_points": 1.0, "window_points": 3.0},
        "verdict": "kept", "reason": "", "warnings": [""],
        "supervisor": {
            "cpu_s": 0.0, "pct_per_cpu": 0.0, "wakeups": 1, "writes": 1, "resident_kib": 1,
            "burner_private_kib": 1, "worst_switch_delay_ms": 0.0,
        },
        "command": {
            "arguments": [""], "exit_code": 0, "signal": null, "wall_s": 1.0, "user_s": 1.0,
            "system_s": 0.0, "switches": [0, 0],
        },
        "node": null,
    })
}

#[test]
fn the_record_of_a_foreign_run_is_shown_escaped() {
    let run = spoiled::<Run>(record());
    let mut node = record();
    node["node"] = json!({"name": ""});
    for record in [run, spoiled::<Run>(node)] {
        let dir = Dir::new().with("run.json", record.to_string());
        harmless(&dir, &["show", "run.json"]);
        harmless(&dir, &["show", "."]);
    }
    let broken = json!({"sandbag": "0.1.0", "verdict": FOREIGN});
    let dir = Dir::new().with("run.json", broken.to_string());
    let shown = dir.run(&["show", "run.json"]).code(2);
    assert!(!String::from_utf8_lossy(&shown.get_output().stderr).contains('\u{1b}'));
}

#[test]
fn a_foreign_audit_is_shown_escaped() {
    let audit = spoiled::<Audit>(serde_json::to_value(eight()).unwrap());
    let text = audit.to_string();
    let dir = Dir::new().with("a.json", &text).with("b.json", &text);
    harmless(&dir, &["audit", "show", "a.json"]);
    harmless(&dir, &["audit", "show", "-v", "a.json"]);
    harmless(&dir, &["audit", "show", "--json", "a.json"]);
    harmless(&dir, &["audit", "compare", "--anyway", "a.json", "b.json"]);
}

#[test]
fn the_host_of_a_foreign_profile_is_shown_escaped() {
    let text = std::fs::read_to_string(fixture("two_cpus.u.json")).unwrap();
    let mut sar: Value = serde_json::from_str(&text).unwrap();
    sar["sysstat"]["hosts"][0]["nodename"] = FOREIGN.into();
    let red = FOREIGN.split('\r').next().unwrap();
    let native = format!("# sandbag profile 1\n# host: {red}\ntime,cpu0\n0,50\n10,end\n");
    let dir = Dir::new()
        .with("a.json", sar.to_string())
        .with("a.csv", native)
        .with("cut.csv", format!("time,cpu0\n0,{red}\n10,end\n"));
    harmless(&dir, &["show", "a.json"]);
    harmless(&dir, &["show", "a.csv"]);
    harmless(&dir, &["show", "--machine", FOREIGN, "a.csv"]);
}

#[test]
fn the_name_of_a_foreign_file_is_shown_escaped() {
    let name = format!("{FOREIGN}.csv");
    let dir = Dir::new()
        .with(&name, "time,cpu0\n0,50\n10,end\n")
        .with("p.csv", "time,cpu0\n0,50\n10,end\n")
        .with("a.csv", "cpu,start_ns,length_ns\n0,1000,50\n0,9000,50\n");
    harmless(&dir, &["show", &name]);
    harmless(&dir, &["convert", &name, "-v", "-o", "b.csv"]);
    harmless(&dir, &["convert", "-v", "p.csv", "-o", &name]);
    harmless(&dir, &["load", "50", "--", &format!("./none{FOREIGN}")]);
    harmless(&dir, &["replay", "--dry-run", &name]);
    harmless(&dir, &["jitter", "convert", &name, "-o", "-"]);
    harmless(&dir, &["jitter", "compare", "a.csv", &name]);
    harmless(&dir, &["synth", "fit", &name]);
    harmless(&dir, &["scale", "predict", "a.csv", &name]);
    let trace = format!("{FOREIGN}.sbj");
    let dir = dir.with(&trace, self::trace());
    let replay = [
        "jitter",
        "replay",
        &trace,
        "--cpus",
        "0",
        "--trace-cpus",
        "0",
    ];
    harmless(&dir, &[&replay[..], &["--dry-run"]].concat());
    harmless(
        &dir,
        &[&replay[..], &["--dry-run", "--", "true", FOREIGN]].concat(),
    );
    let inside = ["jitter", "replay", &trace, "--inside", "--no-out"];
    harmless(&dir, &[&inside[..], &["--", "true", FOREIGN]].concat());
    for command in [
        "show",
        "replay",
        "synth fit",
        "jitter show",
        "jitter replay",
        "scale predict",
        "audit show",
    ] {
        let missing = format!("none{FOREIGN}");
        let arguments: Vec<&str> = command.split(' ').chain([&missing[..]]).collect();
        harmless(&dir, &arguments);
    }
}

#[test]
fn arguments_that_are_refused_are_quoted_escaped() {
    let dir = Dir::new();
    harmless(&dir, &[FOREIGN]);
    harmless(&dir, &["load", FOREIGN]);
    harmless(&dir, &["slow", "exec", FOREIGN, "--", "true"]);
    harmless(&dir, &["slow", "--cpus", "0", "--speed", FOREIGN]);
    harmless(&dir, &["record", "--cpus", FOREIGN]);
    harmless(&dir, &["stop", FOREIGN]);
    harmless(&dir, &["lab", "run", FOREIGN]);
}

#[test]
fn everything_is_printed_where_it_is_escaped() {
    /// Where the streams themselves are meant: the escaping, a descriptor for a
    /// recording, those of a child, signals.
    const MEANT: [&str; 3] = ["output.rs", "messages.rs", "record.rs"];
    fn look(dir: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meant = MEANT.iter().any(|name| path.ends_with(name));
            if path.is_dir() {
                look(&path, found);
            } else if !meant {
                let text = std::fs::read_to_string(&path).unwrap();
                let raw = ["io::stdout()", "io::stderr()", "print!(", "println!("];
                found.extend(
                    raw.iter()
                        .filter(|raw| text.contains(**raw))
                        .map(|raw| format!("{}: {raw}", path.display())),
                );
            }
        }
    }
    let mut found = Vec::new();
    for dir in [
        "sandbag/src",
        "profile/src/command",
        "load/src/command",
        "jitter/src/command",
        "scale/src/command",
        "audit/src/command_line",
    ] {
        let crates = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        look(&crates.join(dir), &mut found);
    }
    assert!(found.is_empty(), "print with output::print: {found:#?}");
}
