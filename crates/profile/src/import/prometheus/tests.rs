// SPDX-License-Identifier: Apache-2.0 OR MIT
//! There and back by the exporter, random values, and a document without end.

use proptest::prelude::*;

use crate::testing::{any_profile, assert_sound, message, read_as};
use crate::{Fault, Format, Profile, ProfileCell, export};

/// A series of a document.
fn series(labels: &str, points: &[(&str, &str)]) -> String {
    let labels: Vec<String> = labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(key, value)| format!("\"{key}\":\"{value}\""))
        .collect();
    let points: Vec<String> = points
        .iter()
        .map(|(time, value)| format!("[{time},\"{value}\"]"))
        .collect();
    format!(
        "{{\"metric\":{{{}}},\"values\":[{}]}}",
        labels.join(","),
        points.join(",")
    )
}

fn matrix(series: &[String]) -> String {
    format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}",
        series.join(",")
    )
}

#[test]
fn each_machine_of_a_large_fleet_can_be_chosen() {
    let of = |n: usize| {
        let points = [("1698674400", "0"), ("1698674410", "5")];
        series(&format!("cpu=0,mode=idle,instance=n{n:04}"), &points)
    };
    let all: Vec<String> = (0..1500).map(of).collect();
    let error = read_as(matrix(&all).as_bytes(), None).unwrap_err();
    let Fault::WhichMachine { known, names, .. } = *error.fault else {
        panic!("{error}");
    };
    assert!(
        known.starts_with("there are 1500 machines, n0000, "),
        "{known}"
    );
    assert_eq!((names.len(), names[1499].as_str()), (1500, "n1499"));
}

#[test]
fn a_document_without_values_is_given_up() {
    let long = format!("{{\"x\": \"{}", "x".repeat(40 << 20));
    let got = message(&long, Format::Prometheus);
    assert!(got.contains("no value in"), "{got}");
}

#[test]
fn repeated_scrapes_of_idle_alone_are_no_load() {
    // Every 15 s, by scrapes of 60 s.
    let loads = |idle_s: [u32; 9]| -> Vec<f64> {
        let text: Vec<(String, String)> = idle_s
            .iter()
            .zip((1_698_674_400u32..).step_by(15))
            .map(|(idle_s, time)| (time.to_string(), idle_s.to_string()))
            .collect();
        let points: Vec<(&str, &str)> = text.iter().map(|(t, v)| (&**t, &**v)).collect();
        let idle = series("__name__=node_cpu_seconds_total,cpu=0,mode=idle", &points);
        let p = read_as(matrix(&[idle]).as_bytes(), None).unwrap();
        let cells = p.steps.iter().flat_map(|step| &step.cells).flatten();
        cells.map(|cell| cell.load_pct).collect()
    };
    assert_eq!(loads([0, 0, 0, 0, 60, 60, 60, 60, 120]), [0.0, 0.0]);
    // What never makes up for it was busy.
    assert_eq!(loads([50; 9]), [100.0; 8]);
    // A busy minute by scrapes of 15 s, of which the one after it is late by 3 s.
    let late = loads([0, 15, 30, 30, 30, 30, 48, 60, 75]);
    assert_eq!(late, [0.0, 0.0, 100.0, 100.0, 40.0, 20.0, 0.0]);
    // Scrapes that failed for more than a minute: the mean over it.
    let failed = loads([0, 12, 24, 24, 24, 24, 72, 84, 96]);
    assert_eq!(failed, [20.0; 5]);
}

#[test]
fn an_idle_period_that_moves_from_iowait_to_idle_is_no_restart() {
    let counter = |mode: &str, values: [&str; 3]| {
        let times = ["1698674400", "1698674410", "1698674420"];
        let points: Vec<(&str, &str)> = times.into_iter().zip(values).collect();
        let labels = format!("__name__=node_cpu_seconds_total,cpu=0,mode={mode}");
        series(&labels, &points)
    };
    let text = matrix(&[
        counter("user", ["0", "5", "10"]),
        counter("idle", ["100", "100", "110"]),
        counter("iowait", ["0", "5", "0"]),
    ]);
    let p = read_as(text.as_bytes(), None).unwrap();
    let cells = p.steps.iter().map(|step| step.cells[0]);
    let loads: Vec<_> = cells.map(|cell| cell.unwrap().load_pct).collect();
    assert_eq!(loads, [50.0, 50.0]);
}

/// As the exporter and back.
fn there_and_back(p: &Profile) -> Profile {
    let mut text = Vec::new();
    export(&mut p.clone().into_steps(), Format::OpenMetrics, &mut text).unwrap();
    read_as(&text, Some(Format::OpenMetrics)).unwrap()
}

proptest! {
    #[test]
    fn what_is_exported_is_read_back(mut p in any_profile(), steal: bool) {
        // Milliseconds are what the format keeps of a time.
        for step in &mut p.steps {
            step.start_ns *= 1_000_000_000;
            step.end_ns *= 1_000_000_000;
            if !steal {
                for cell in step.cells.iter_mut().flatten() {
                    cell.steal_pct = 0.0;
                }
            }
        }
        p.header.has_steal = steal;
        let knows = |step: &crate::Step| step.cells.iter().any(Option::is_some);
        let Some(first) = p.steps.iter().position(knows) else {
            return Ok(());
        };
        // What is unknown at either end leaves no trace.
        let last = p.steps.iter().rposition(knows).unwrap();
        let begin_ns = p.steps[first].start_ns;
        let back = there_and_back(&p);
        prop_assert_eq!(back.header.has_steal, steal);
        prop_assert_eq!(back.end_ns(), p.steps[last].end_ns - begin_ns);
        let kept: Vec<usize> = (0..p.header.cpus.len())
            .filter(|cpu| p.steps.iter().any(|step| step.cells[*cpu].is_some()))
            .collect();
        let cpus: Vec<u32> = kept.iter().map(|i| p.header.cpus[*i]).collect();
        prop_assert_eq!(&back.header.cpus, &cpus);
        for step in &p.steps[first..=last] {
            let middle_ns = (step.start_ns + step.end_ns) / 2 - begin_ns;
            let cells = crate::testing::at(&back, middle_ns).unwrap();
            for (cell, i) in cells.iter().zip(&kept) {
                let near = match (cell, step.cells[*i]) {
                    (Some(a), Some(b)) => {
                        // A microsecond is what is kept of a counter, and of
                        // little delivered time it is much.
                        let delivered_s =
                            step.length_ns() as f64 / 1e9 * (1.0 - b.steal_pct / 100.0);
                        let points = 0.01 + 100.0 * 3e-6 / delivered_s.max(1e-9);
                        let load = (a.load_pct - b.load_pct).abs() < points;
                        load && (a.steal_pct - b.steal_pct).abs() < 0.001
                    }
                    (None, None) => true,
                    _ => false,
                };
                prop_assert!(near, "{:?} {:?} of {:?}", cell, step.cells[*i], step);
            }
        }
    }

    #[test]
    fn any_values_make_a_sound_profile(
        values in prop::collection::vec(prop::collection::vec(any::<f64>(), 3), 1..8),
        scale in prop::sample::select(vec![0.0, 1.0, 1e-300]),
    ) {
        let modes = ["user", "idle", "steal"];
        let all: Vec<String> = modes.iter().enumerate().map(|(i, mode)| {
            let text: Vec<(String, String)> = values.iter().enumerate().map(|(t, values)| {
                ((100 + t * 7 % 5 + t * 5).to_string(), (values[i] * scale).to_string())
            }).collect();
            let points: Vec<(&str, &str)> = text.iter().map(|(t, v)| (&**t, &**v)).collect();
            series(&format!("cpu=0,mode={mode}"), &points)
        }).collect();
        if let Ok(p) = read_as(matrix(&all).as_bytes(), None) {
            assert_sound(&p);
        }
    }
}

#[test]
fn unknown_loads_survive_the_exporter() {
    let cell = |pct| Some(ProfileCell::load(pct));
    let mut p = crate::testing::profile(
        &[0, 4],
        &[
            (1_000_000_000, &[Some(50.0), None]),
            (2_000_000_000, &[None, Some(30.0)]),
            (3_000_000_000, &[None, None]),
            (4_000_000_000, &[Some(20.0), Some(10.0)]),
        ],
    );
    p.header.begins_at = Some("2026-11-21T01:10:52Z".parse().unwrap());
    p.header.host = Some("a \"node\"".into());
    let back = there_and_back(&p);
    assert_eq!(back.header.host, p.header.host);
    assert_eq!(back.header.begins_at, p.header.begins_at);
    let got: Vec<_> = back.steps.iter().map(|step| step.cells.clone()).collect();
    assert_eq!(
        got,
        [
            vec![cell(50.0), None],
            vec![None, cell(30.0)],
            vec![None, None],
            vec![cell(20.0), cell(10.0)],
        ]
    );
}
