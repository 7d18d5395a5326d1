// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording by Prometheus and node_exporter, asked for in several ways
//! (see fixtures/README.md): they agree.

use sandbag_profile::{Format, Profile, ProfileSummary, export, summarise};

use super::{fixture, read};

fn summary(p: Profile) -> ProfileSummary {
    summarise(&mut p.into_steps()).unwrap()
}

#[test]
fn scrapes_and_what_was_held_at_the_step_are_the_same() {
    let scrapes = read(&fixture("prometheus.range.json"));
    // Asked for once a second, as often as was scraped: the same values, each
    // a part of a second later.
    let held = read(&fixture("prometheus.query_range.json"));
    assert_eq!(held.steps, scrapes.steps);
    assert_ne!(held.header.begins_at, scrapes.header.begins_at);
}

#[test]
fn rates_have_the_means_of_the_counters() {
    let counters = summary(read(&fixture("prometheus.range.json")));
    let rates = read(&fixture("prometheus.rate.json"));
    let rates = summary(rates);
    for (a, b) in rates.cpus.iter().zip(&counters.cpus) {
        // A rate of a window that ends between two scrapes sees the ones
        // inside it.
        let difference = a.mean_load_pct.unwrap() - b.mean_load_pct.unwrap();
        assert!(difference.abs() < 5.0, "{a:?} {b:?}");
    }
}

#[test]
fn a_dump_of_the_database_is_the_scrapes() {
    let scrapes = read(&fixture("prometheus.range.json"));
    let dump = read(&fixture("prometheus.tsdb-dump.txt"));
    assert_eq!(dump.header.begins_at, scrapes.header.begins_at);
    assert_eq!(dump.header.host, scrapes.header.host);
    assert_eq!(dump.steps, scrapes.steps[..11]);
}

#[test]
fn what_is_exported_as_openmetrics_is_read_back() {
    let scrapes = read(&fixture("prometheus.range.json"));
    let mut text = Vec::new();
    let report = export(
        &mut scrapes.clone().into_steps(),
        Format::OpenMetrics,
        &mut text,
    )
    .unwrap();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.om");
    std::fs::write(&path, &text).unwrap();
    let back = read(&path);
    assert_eq!(back.header.begins_at, scrapes.header.begins_at);
    assert_eq!(back.header.host, scrapes.header.host);
    assert!(back.warnings.is_empty(), "{:?}", back.warnings);
    assert_eq!(back.steps.len(), scrapes.steps.len());
    for (a, b) in back.steps.iter().zip(&scrapes.steps) {
        assert_eq!((a.start_ns, a.end_ns), (b.start_ns, b.end_ns));
        for (a, b) in a.cells.iter().zip(&b.cells) {
            let (a, b) = (a.unwrap(), b.unwrap());
            assert!((a.load_pct - b.load_pct).abs() < 1e-3, "{a:?} {b:?}");
            assert!((a.steal_pct - b.steal_pct).abs() < 1e-3, "{a:?} {b:?}");
        }
    }
}
