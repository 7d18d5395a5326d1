// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exports of Performance Co-Pilot.

use sandbag_profile::{Format, Profile};

use super::{read, refusal, sample};

/// Loads of 0 to 1 by step and CPU, from the counters of the same archive.
fn reference(name: &str) -> Vec<Vec<Option<f64>>> {
    let text = std::fs::read_to_string(sample(name)).unwrap();
    let row = |row: &str| row.split(',').skip(2).map(|v| v.parse().ok()).collect();
    text.lines().skip(1).map(row).collect()
}

/// The largest difference, in points, from the reference; the reference
/// counts irq, which the exports lack: a tick of it in a second is 1 point.
fn worst(p: &Profile, reference: &[Vec<Option<f64>>]) -> f64 {
    let mut worst: f64 = 0.0;
    assert_eq!(p.steps.len(), reference.len());
    for (step, row) in p.steps.iter().zip(reference) {
        assert_eq!(step.cells.len(), row.len());
        for (cell, load) in step.cells.iter().zip(row) {
            assert_eq!(cell.is_some(), load.is_some());
            if let (Some(cell), Some(load)) = (cell, load) {
                worst = worst.max((cell.load_pct - load * 100.0).abs());
            }
        }
    }
    worst
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_one_archive_agree() {
    let reference = reference("pcp_percore/cputime_6cpu_9s_1s.util.csv");
    let begins = "2016-05-19T09:24:07";
    let (rates, _) = read("pcp_tools/cputime.pmrep-csv.csv");
    let (counters, _) = read("pcp_tools/cputime.pmrep-raw-csv.csv");
    let (json, _) = read("pcp_tools/cputime.pcp2json.json");
    for (p, format, begins) in [
        (&rates, Format::PmrepCsv, begins),
        (&counters, Format::PmrepCsv, begins),
        (&json, Format::Pcp2Json, "2016-05-18T23:24:07Z"),
    ] {
        assert_eq!(p.header.format, format);
        assert_eq!(p.header.cpus, [0, 1, 2, 3, 4, 5]);
        assert_eq!(p.header.begins_at.unwrap().to_string(), begins);
        assert_eq!(p.end_ns(), 8_000_000_000);
        assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
        assert!(p.warnings[0].contains("irq.soft"), "{:?}", p.warnings);
        let worst = worst(p, &reference);
        assert!(worst < 1.0, "{format}: {worst}");
    }
    for (a, b) in counters.steps.iter().zip(&rates.steps) {
        for (a, b) in a.cells.iter().zip(&b.cells) {
            assert!((a.unwrap().load_pct - b.unwrap().load_pct).abs() < 4e-4);
        }
    }
    assert_eq!(rates.steps, json.steps);
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn a_sample_without_all_states_is_refused() {
    let e = refusal("pcp_tools/cputime.pcp2json-raw.json");
    assert!(e.contains("it lacks kernel.percpu.cpu."), "{e}");
}
