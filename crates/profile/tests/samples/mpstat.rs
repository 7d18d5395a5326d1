// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of mpstat.

use sandbag_profile::{Format, Profile};

use super::{read, refusal};

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_mpstat_text() {
    let (p, _) = read("local_2cpu_180s/mpstat_P_ALL.txt");
    assert_eq!(p.header.format, Format::MpstatText);
    assert_eq!(p.header.cpus, [0, 1]);
    let begins = p.header.begins_at.unwrap().to_string();
    assert_eq!(begins, "2026-11-21T01:10:52");
    assert_eq!(p.end_ns(), 180_000_000_000);
    assert!(p.warnings.is_empty(), "{:?}", p.warnings);
    // Recorded beside it; sampled a fraction of a second apart.
    let (sar, _) = read("local_2cpu_180s/sar_PALL.txt");
    assert_eq!(sar.header.format, Format::SarText);
    assert_eq!(p.steps.len(), sar.steps.len());
    let mean = |p: &Profile, cpu: usize| {
        let sum: f64 = p.steps.iter().map(|s| s.cells[cpu].unwrap().load_pct).sum();
        sum / p.steps.len() as f64
    };
    for cpu in [0, 1] {
        assert!((mean(&p, cpu) - mean(&sar, cpu)).abs() < 0.1);
    }
    // A British date, which could be none in the American order.
    let (p, _) = read("pcp_tools/cputime.mpstat");
    assert_eq!(p.header.format, Format::MpstatText);
    assert_eq!(p.header.cpus, [0, 1, 2, 3, 4, 5]);
    assert_eq!(p.header.begins_at, None);
    assert_eq!(p.end_ns(), 10_000_000_000);
    let cell = p.steps[0].cells[0].unwrap();
    assert!((cell.load_pct - 20.0).abs() < 1e-9, "{cell:?}");
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_mpstat_json_hold_one_sample_each() {
    for name in ["expected.mpstat-A-JSON", "expected.mpstat-T-JSON"] {
        let e = refusal(&format!("sysstat/{name}"));
        assert!(
            e.contains("mpstat-json: it holds one sample"),
            "{name}: {e}"
        );
    }
}
