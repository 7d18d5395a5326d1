// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording in every format (see fixtures/README.md), through the public
//! interface: the importers agree, and what is exported is read back.

use std::path::Path;

use super::open;
use sandbag_input::Existing;
use sandbag_profile::{
    Format, Gaps, Profile, ReadOptions, algebra, export, export_simgrid, summarise,
};

fn read(name: &str) -> Profile {
    super::read(&super::fixture(name))
}

#[test]
fn every_format_of_one_recording_agrees() {
    let json = read("two_cpus.u.json");
    for name in [
        "uall.json",
        "uall.csv",
        "epoch.csv",
        "local.csv",
        "sar.txt",
        "iso.sar.txt",
    ] {
        let p = read(&format!("two_cpus.{name}"));
        assert_eq!(p.steps, json.steps, "{name}");
    }
    // Sampled by another process, half a second or so away.
    let stat = summarise(&mut read("two_cpus.procstat.txt").into_steps()).unwrap();
    let json = summarise(&mut json.into_steps()).unwrap();
    for (a, b) in stat.cpus.iter().zip(&json.cpus) {
        let difference = a.mean_load_pct.unwrap() - b.mean_load_pct.unwrap();
        assert!(difference.abs() < 8.0, "{a:?} {b:?}");
        assert!(
            b.max_load_pct.unwrap() - b.min_load_pct.unwrap() > 30.0,
            "{b:?}"
        );
    }
}

#[test]
fn what_is_exported_as_native_is_read_back() {
    let json = read("two_cpus.u.json");
    let mut text = Vec::new();
    let report = export(&mut json.clone().into_steps(), Format::Native, &mut text).unwrap();
    assert_eq!(report.steps, json.steps.len() as u64);
    assert_eq!(report.lost, [""; 0]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.csv");
    std::fs::write(&path, &text).unwrap();
    let back = super::read(&path);
    assert_eq!(back.header.host, json.header.host);
    assert_eq!(back.header.begins_at, json.header.begins_at);
    assert_eq!(back.end_ns(), json.end_ns());
    for (a, b) in back.steps.iter().zip(&json.steps) {
        for (a, b) in a.cells.iter().zip(&b.cells) {
            let (a, b) = (a.unwrap(), b.unwrap());
            assert!((a.load_pct - b.load_pct).abs() <= 5e-5);
            assert!((a.steal_pct - b.steal_pct).abs() <= 5e-5);
        }
    }
}

#[test]
fn krash_there_and_back_loses_what_the_report_says() {
    let json = read("two_cpus.u.json");
    let mut text = Vec::new();
    let report = export(&mut json.clone().into_steps(), Format::Krash, &mut text).unwrap();
    assert!(report.rounding_points <= 0.5);
    assert!(
        report.lost.iter().any(|l| l.contains("whole percents")),
        "{report:?}"
    );
    assert!(
        report.lost.iter().any(|l| l.contains("steal")),
        "{report:?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.profile");
    std::fs::write(&path, &text).unwrap();
    let back = super::read(&path);
    assert_eq!(back.header.format, Format::Krash);
    assert_eq!(back.end_ns(), json.end_ns());
    let seconds = |p: Profile| {
        Profile::collect(algebra::resample(p.into_steps(), 1_000_000_000).unwrap()).unwrap()
    };
    let (back, json) = (seconds(back), seconds(json));
    for (a, b) in back.steps.iter().zip(&json.steps) {
        for (a, b) in a.cells.iter().zip(&b.cells) {
            assert!((a.unwrap().load_pct - b.unwrap().load_pct).abs() <= 0.5 + 1e-9);
        }
    }
}

#[test]
fn odd_steps_for_krash_are_averaged_and_told() {
    let steps = || {
        let half = sandbag_profile::constant(&[0], 50.0, 1_500_000_000);
        algebra::map_cpus(half, None, &[0, 1]).unwrap()
    };
    let mut text = Vec::new();
    let report = export(&mut steps(), Format::Krash, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.ends_with("kill 2\n"), "{text}");
    assert!(
        report.lost[0].contains("moved from 1.5 s to 2 s"),
        "{report:?}"
    );
    assert!(export(&mut steps(), Format::SarText, &mut Vec::new()).is_err());
    assert!(export(&mut steps(), Format::SimGrid, &mut Vec::new()).is_err());
}

#[test]
fn a_trace_per_cpu_for_simgrid() {
    let folder = tempfile::tempdir().unwrap();
    let native = folder.path().join("p.csv");
    std::fs::write(
        &native,
        "time,cpu0,cpu3,steal3\n0,25,50,50\n2,25,,\n3.5,end\n",
    )
    .unwrap();
    let mut steps = open(&native, &ReadOptions::default()).unwrap();
    let report =
        export_simgrid(&mut steps, &folder.path().join("out.txt"), Existing::Refuse).unwrap();
    let names: Vec<_> = report
        .files
        .iter()
        .map(|f| f.file_name().unwrap())
        .collect();
    assert_eq!(names, ["out.cpu0.txt", "out.cpu3.txt"]);
    let body = |i: usize| {
        let text = std::fs::read_to_string(&report.files[i]).unwrap();
        text.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(body(0), "0 0.75\n3.5 1\n# end 3.5\n");
    assert_eq!(body(1), "0 0.25\n2 1\n# end 3.5\n");
    assert_eq!(report.lost.len(), 2);
}

#[test]
fn options_of_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.csv");
    std::fs::write(&path, "time,cpu0,steal0\n0,50,20\n1,,\n2,end\n").unwrap();
    let mut options = ReadOptions {
        steal_as_load: true,
        ..ReadOptions::default()
    };
    let read = |options: &ReadOptions| Profile::collect(open(&path, options).unwrap());
    let p = read(&options).unwrap();
    assert_eq!(p.steps[0].cells[0].unwrap().load_pct, 60.0);
    assert!(!p.header.has_steal);
    options.gaps = Gaps::Hold;
    assert_eq!(
        read(&options).unwrap().steps[1].cells[0].unwrap().load_pct,
        60.0
    );
    options.gaps = Gaps::Error;
    let e = read(&options).unwrap_err();
    assert!(
        e.to_string().contains("cpu0 is unknown from 1 s to 2 s"),
        "{e}"
    );
    let missing = open(Path::new("/nonexistent.csv"), &options).err().unwrap();
    assert!(
        missing.to_string().starts_with("/nonexistent.csv: "),
        "{missing}"
    );
}
