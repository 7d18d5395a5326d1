// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written, and what the report says is lost.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::testing::{any_profile, profile};
use crate::{Profile, ProfileCell};

fn two() -> Profile {
    let mut p = profile(
        &[0, 2],
        &[
            (1_000_000_000, &[Some(50.0), Some(0.0)]),
            (1_500_000_000, &[Some(12.5), None]),
        ],
    );
    p.header.has_steal = true;
    p.steps[0].cells[0] = Some(ProfileCell {
        load_pct: 50.0,
        steal_pct: 20.0,
    });
    p
}

#[test]
fn krash_of_a_series_that_begins_in_1970_ends() {
    // Its second stamp is of 2026.
    let end_ns = 1_790_000_000_000_000_000;
    let s = 1_000_000_000;
    let steps: &[(u64, &[Option<f64>])] = &[
        (5 * s / 2, &[Some(50.0)]),
        (end_ns, &[Some(20.0)]),
        (end_ns + s / 2, &[Some(40.0)]),
    ];
    let (text, _) = write(profile(&[0], steps), Format::Krash);
    let entries = "\t\t\t0\t50\n\t\t\t2\t35\n\t\t\t3\t20\n\t\t\t1790000000\t40\n";
    assert!(text.contains(entries), "{text}");
    assert!(text.ends_with("kill 1790000001\n"), "{text}");
}

fn write(p: Profile, format: Format) -> (String, ExportReport) {
    let mut text = Vec::new();
    let report = export(&mut p.into_steps(), format, &mut text).unwrap();
    (String::from_utf8(text).unwrap(), report)
}

#[test]
fn a_row_per_cpu_or_a_column_per_cpu() {
    let (long, report) = write(two(), Format::CsvLong);
    assert_eq!(
        long,
        "start_s,end_s,cpu,load_pct,steal_pct\n\
         0,1,0,50,20\n0,1,2,0,0\n1,1.5,0,12.5,0\n1,1.5,2,,\n"
    );
    assert_eq!(report.steps, 4);
    let (wide, report) = write(two(), Format::CsvWide);
    assert_eq!(
        wide,
        "start_s,end_s,cpu0,cpu2,steal0,steal2\n0,1,50,0,20,0\n1,1.5,12.5,,0,\n"
    );
    assert_eq!(report.steps, 2);
}

#[test]
fn openmetrics_are_node_exporters_counters() {
    let (text, report) = write(two(), Format::OpenMetrics);
    for line in [
        "# TYPE node_cpu_seconds counter",
        r#"node_cpu_seconds_total{cpu="0",mode="user"} 0.000000 0"#,
        r#"node_cpu_seconds_total{cpu="0",mode="user"} 0.400000 1"#,
        r#"node_cpu_seconds_total{cpu="0",mode="user"} 0.462500 1.5"#,
        r#"node_cpu_seconds_total{cpu="0",mode="idle"} 0.400000 1"#,
        r#"node_cpu_seconds_total{cpu="0",mode="steal"} 0.200000 1"#,
        r#"node_cpu_seconds_total{cpu="2",mode="idle"} 1.000000 1"#,
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
    }
    assert!(text.ends_with("# EOF\n"));
    // Unknown, undated, modes.
    assert_eq!(report.lost.len(), 3, "{:?}", report.lost);
}

#[test]
fn a_millisecond_of_openmetrics_has_one_value() {
    let at_us = |us: u64| us * 1000;
    let p = profile(
        &[0],
        &[
            (at_us(1_000_200), &[Some(50.0)]),
            (at_us(1_000_300), &[None]),
            (at_us(1_000_500), &[Some(100.0)]),
            (at_us(3_000_300), &[Some(100.0)]),
        ],
    );
    let (text, report) = write(p, Format::OpenMetrics);
    let values: Vec<&str> = text.lines().filter(|l| l.contains("\"user\"")).collect();
    let user = r#"node_cpu_seconds_total{cpu="0",mode="user"}"#;
    assert_eq!(
        values,
        ["0.000000 0", "0.500300 1", "2.500100 3"].map(|value| format!("{user} {value}"))
    );
    assert!(text.contains("mode=\"idle\"} 0.500200 3"), "{text}");
    let told = |text: &String| text.contains("1 points were left out");
    assert!(report.lost.iter().any(told), "{:?}", report.lost);
}

#[test]
fn a_task_of_rt_app_runs_for_a_part_of_each_period() {
    let (text, _) = write(two(), Format::RtApp);
    let all: Value = serde_json::from_str(&text).unwrap();
    let task = &all["tasks"]["cpu0"];
    assert_eq!(task["cpus"][0], 0);
    let phase = &task["phases"]["p0"];
    assert_eq!(
        (&phase["loop"], &phase["run"], &phase["timer"]["period"]),
        (&50.into(), &10_000.into(), &20_000.into())
    );
    let idle = &all["tasks"]["cpu2"]["phases"]["p0"];
    assert_eq!((&idle["loop"], &idle["run"]), (&1.into(), &Value::Null));
    assert_eq!(idle["timer"]["period"], 1_500_000);
    assert_eq!(all["global"]["duration"], 2);
    // Phases run in the order in which they stand.
    let keys = |value: &Value| {
        let map = value.as_object().unwrap();
        map.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(&all), ["tasks", "global"]);
    assert_eq!(keys(task), ["instance", "cpus", "loop", "phases"]);
    assert_eq!(keys(&task["phases"]), ["p0", "p1"]);
}

proptest! {
    #[test]
    fn everything_can_be_written(p in any_profile()) {
        for format in Format::ALL.iter().copied().filter(|f| f.is_written()) {
            if format == Format::SimGrid && p.header.cpus.len() > 1 {
                continue;
            }
            let (text, report) = write(p.clone(), format);
            prop_assert!(!text.is_empty());
            prop_assert!(report.rounding_points.is_finite());
        }
    }
}
