// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of KRASH and recordings of sysstat.

use sandbag_profile::{Format, ProfileCell};

use super::{read, refusal};

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_krash() {
    let (simple, _) = read("krash_profiles/simple.profile");
    assert_eq!(simple.header.format, Format::Krash);
    assert_eq!(simple.header.cpus, [0, 1]);
    assert_eq!(simple.end_ns(), 150_000_000_000);
    assert_eq!(simple.steps.len(), 4);
    let (two, summary) = read("krash_profiles/biprocessor.profile");
    assert_eq!(two.steps.len(), 15);
    assert_eq!(summary.end_ns, 20_000_000_000);
    assert!(two.warnings.is_empty());
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_one_recording_agree_in_every_format() {
    let (json, summary) = read("local_2cpu_180s/sadf_j.uALL_PALL.json");
    assert_eq!(json.header.format, Format::SadfJson);
    assert_eq!(json.end_ns(), 180_000_000_000);
    assert!(json.warnings.is_empty(), "{:?}", json.warnings);
    for cpu in &summary.cpus {
        assert!((cpu.mean_load_pct.unwrap() - 0.4).abs() < 0.2, "{cpu:?}");
        assert_eq!(cpu.unknown_ns, 0);
    }
    for (name, format) in [
        ("sadf_j.u_PALL.json", Format::SadfJson),
        ("sadf_d.uALL_PALL.csv", Format::SadfCsv),
        ("sadf_dU.uALL_PALL.csv", Format::SadfCsv),
        ("sar_PALL.txt", Format::SarText),
        ("sar_uALL_PALL.txt", Format::SarText),
    ] {
        let (p, _) = read(&format!("local_2cpu_180s/{name}"));
        assert_eq!(p.header.format, format, "{name}");
        assert_eq!(p.end_ns(), json.end_ns(), "{name}");
        assert_eq!(p.steps, json.steps, "{name}");
    }
    // Sampled by another process, so equal only up to the phase: the means.
    let (_, stat) = read("local_2cpu_180s/procstat_snapshots.txt");
    for (a, b) in stat.cpus.iter().zip(&summary.cpus) {
        let difference = a.mean_load_pct.unwrap() - b.mean_load_pct.unwrap();
        assert!(difference.abs() < 0.1, "{a:?} {b:?}");
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_sysstat_with_cpus_that_come_and_go() {
    let (json, summary) = read("sysstat/expected.sadf-j");
    let (csv, _) = read("sysstat/expected.sadf-d");
    assert_eq!(json.header.cpus, csv.header.cpus);
    assert_eq!(json.steps, csv.steps);
    assert_eq!(json.header.cpus, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // CPU 6 is away for two samples, and all are between the restarts.
    let hole = summary.cpus[0].unknown_ns;
    assert!(hole > 1000 * 1_000_000_000);
    assert!(summary.cpus[6].unknown_ns > hole);
    let cpu3 = json.steps[0].cells[3].unwrap();
    assert!((cpu3.load_pct - 100.0).abs() < 1e-9);
    let cpu8 = json.steps[3].cells[8].unwrap();
    assert!((cpu8.load_pct - (100.0 - 44.8 - 4.5) / 95.5 * 100.0).abs() < 1e-9);
    assert!((cpu8.steal_pct - 4.5).abs() < 1e-9);
    let (sar, _) = read("sysstat/expected.sar-u");
    for (a, b) in sar.steps.iter().zip(&csv.steps).take(4) {
        for (a, b) in a.cells.iter().zip(&b.cells) {
            assert_eq!(a.is_some(), b.is_some());
            let load = |c: &Option<ProfileCell>| c.map_or(0.0, |c| c.load_pct);
            assert!((load(a) - load(b)).abs() < 0.02, "{a:?} {b:?}");
        }
    }
    let (all, _) = read("sysstat/expected.sar-all");
    assert_eq!(all.steps[1].cells[..], csv.steps[1].cells[..9]);
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_older_sar_text() {
    for (name, cpus, begins) in [
        ("expected.data-10.3.1", 8, "2017-01-21T08:15:09"),
        ("expected.data-11.6.5", 8, "2018-08-29T09:33:48"),
        ("expected.data-12.0.0", 8, "2019-06-30T05:39:33"),
        // Past midnight.
        ("expected.data-ppc-11.7.2", 8, "2017-04-27T15:23:05"),
        ("expected.sar-cpu6off", 9, "2020-06-01T12:53:20"),
        ("expected.sar-cpu8onoff", 9, "2020-06-01T12:53:20"),
    ] {
        let (p, _) = read(&format!("sysstat/{name}"));
        assert_eq!(p.header.format, Format::SarText, "{name}");
        assert_eq!(p.header.cpus.len(), cpus, "{name}");
        assert_eq!(p.header.begins_at.unwrap().to_string(), begins, "{name}");
        assert!(p.end_ns() > 0);
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_without_a_single_cpu_name_the_remedy() {
    for (name, remedy) in [
        ("expected.sadf-d-tz", "-P ALL"),
        ("expected.sadf-U-se-epoch", "-P ALL"),
        ("expected.sar-ISO", "-P ALL"),
        ("expected.sadf-dh", "without -h"),
    ] {
        let e = refusal(&format!("sysstat/{name}"));
        assert!(e.contains(remedy), "{name}: {e}");
    }
}
