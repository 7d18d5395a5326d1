// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording by collectl, atop and `/proc/stat` at the same time (see
//! fixtures/README.md): the two notations of each tool agree to their
//! rounding, and all of them in the mean.

use std::path::PathBuf;

use sandbag_profile::{
    Begin, CpuSummary, InputSource, NS_PER_S, Profile, ProfileCell, ReadOptions, algebra, summarise,
};

fn fixture(name: &str) -> PathBuf {
    super::fixture("tools").join(name)
}

fn read(name: &str) -> Profile {
    super::read(&fixture(name))
}

/// The greatest difference of a load or a share of steal; stamps may lie
/// `apart_ns` from each other.
fn greatest_difference(a: &Profile, b: &Profile, apart_ns: u64) -> f64 {
    assert_eq!(a.header.cpus, b.header.cpus);
    assert_eq!(a.header.host, b.header.host);
    assert_eq!(a.steps.len(), b.steps.len());
    let mut greatest: f64 = 0.0;
    for (a, b) in a.steps.iter().zip(&b.steps) {
        assert!(a.end_ns.abs_diff(b.end_ns) <= apart_ns, "{a:?} {b:?}");
        for (a, b) in a.cells.iter().zip(&b.cells) {
            let (a, b): (ProfileCell, ProfileCell) = (a.unwrap(), b.unwrap());
            greatest = greatest
                .max((a.load_pct - b.load_pct).abs())
                .max((a.steal_pct - b.steal_pct).abs());
        }
    }
    greatest
}

/// The means of the 38 s in which all tools were at work.
fn means(p: Profile) -> Vec<f64> {
    let Some(Begin::Utc(begin)) = p.header.begins_at else {
        panic!("{:?}", p.header);
    };
    let common: jiff::Timestamp = "2026-11-21T17:58:54.01Z".parse().unwrap();
    let from_ns = u64::try_from(common.duration_since(begin).as_nanos()).unwrap();
    let mut steps = algebra::cut(p.into_steps(), from_ns, from_ns + 38 * NS_PER_S).unwrap();
    let summary = summarise(&mut steps).unwrap();
    assert_eq!(summary.end_ns, 38 * NS_PER_S);
    let mean = |cpu: &CpuSummary| cpu.mean_load_pct.unwrap();
    summary.cpus.iter().map(mean).collect()
}

#[test]
fn the_raw_file_and_its_plot_agree_to_the_rounding() {
    let raw = read("collectl.raw.gz");
    let hundredths = read("collectl.om2.cpu");
    // Idle, wait and steal, each half a hundredth away.
    let difference = greatest_difference(&raw, &hundredths, 0);
    assert_eq!(hundredths.header.begins_at, raw.header.begins_at);
    assert!(difference <= 0.015 + 1e-9, "{difference}");
    let percents = read("collectl.cpu");
    assert_eq!(percents.header.begins_at, raw.header.begins_at);
    // By another process, up to a tick before or after.
    let difference = greatest_difference(&raw, &percents, 10_000_000);
    assert!((0.1..=0.5 + 2.0).contains(&difference), "{difference}");
}

#[test]
fn text_and_json_of_atop_agree_exactly() {
    let (text, json) = (read("atop.txt"), read("atop.json"));
    assert_eq!(greatest_difference(&text, &json, 0), 0.0);
}

#[test]
fn all_tools_agree_in_the_mean() {
    let expected = means(read("procstat.txt"));
    assert_eq!(expected.len(), 2);
    for name in [
        "collectl.raw.gz",
        "collectl.om2.cpu",
        "collectl.cpu",
        "atop.txt",
        "atop.json",
    ] {
        for (got, expected) in means(read(name)).iter().zip(&expected) {
            assert!((got - expected).abs() < 2.0, "{name}: {got} {expected}");
        }
    }
}

#[test]
fn line_ends_and_marks_of_other_systems_change_nothing() {
    for name in ["collectl.cpu", "atop.txt", "atop.json"] {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let source = InputSource::spool(&mut text.as_bytes(), name.into()).unwrap();
        let steps = source.open(None, &ReadOptions::default()).unwrap();
        assert_eq!(Profile::collect(steps).unwrap(), read(name), "{name}");
    }
}
