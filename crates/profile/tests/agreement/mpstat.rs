// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A load of 40 s as sadc and two mpstats saw it (scripts/record-fixtures):
//! both forms of mpstat and the text of sar agree.

use sandbag_profile::{Profile, summarise};

fn read(name: &str) -> Profile {
    super::read(&super::fixture(name))
}

#[test]
fn text_and_json_agree() {
    let (text, json) = (read("tools/mpstat.txt"), read("tools/mpstat.json"));
    assert_eq!(text.header.host, json.header.host);
    assert_eq!(text.header.begins_at, json.header.begins_at);
    // Two processes, some milliseconds apart: a tick is 1 %.
    assert_eq!(text.steps.len(), json.steps.len());
    for (a, b) in text.steps.iter().zip(&json.steps) {
        assert_eq!((a.start_ns, a.end_ns), (b.start_ns, b.end_ns));
        for (a, b) in a.cells.iter().zip(&b.cells) {
            let difference = a.unwrap().load_pct - b.unwrap().load_pct;
            assert!(difference.abs() < 2.1, "{a:?} {b:?}");
        }
    }
}

#[test]
fn mpstat_and_sar_saw_the_same_load() {
    let sar = read("tools/sar.txt");
    let sar = summarise(&mut sar.into_steps()).unwrap();
    let mpstat = summarise(&mut read("tools/mpstat.txt").into_steps()).unwrap();
    for (a, b) in sar.cpus.iter().zip(&mpstat.cpus) {
        let difference = a.mean_load_pct.unwrap() - b.mean_load_pct.unwrap();
        assert!(difference.abs() < 1.0, "{a:?} {b:?}");
        assert!(b.max_load_pct.unwrap() - b.min_load_pct.unwrap() > 30.0);
    }
}
