// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of collectl and atop.

use sandbag_profile::Format;

use super::read;

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_collectl() {
    let (two, summary) = read("collectl/debian_sid_defaults.raw.gz");
    assert_eq!(two.header.format, Format::CollectlRaw);
    assert_eq!(two.header.cpus, [0, 1]);
    assert_eq!(two.header.host.as_deref(), Some("verge"));
    // 08:49 in a zone of ten hours.
    assert_eq!(
        two.header.begins_at.unwrap().to_string(),
        "2013-06-05T22:49:25.001Z"
    );
    assert!(two.steps.len() >= 29, "{}", two.steps.len());
    for cpu in &summary.cpus {
        assert!(cpu.mean_load_pct.unwrap() < 5.0, "{cpu:?}");
        assert_eq!(cpu.unknown_ns, 0);
    }
    // Two samples, of which one differs from the other by a tick of user.
    let (four, _) = read("collectl/some_host.raw");
    assert_eq!(four.header.cpus, [0, 1, 2, 3]);
    assert_eq!(four.end_ns(), 10_000_000_000);
    for cell in &four.steps[0].cells {
        assert_eq!(cell.unwrap().load_pct, 100.0);
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_atop() {
    let (text, summary) = read("local_2cpu_180s/atop_P_CPU_cpu.txt");
    assert_eq!(text.header.format, Format::Atop);
    assert_eq!(text.header.host.as_deref(), Some("vm"));
    assert_eq!(
        text.header.begins_at.unwrap().to_string(),
        "2026-11-21T01:15:59Z"
    );
    assert_eq!(text.end_ns(), 5_000_000_000);
    assert!(text.warnings.is_empty(), "{:?}", text.warnings);
    for cpu in &summary.cpus {
        assert!(cpu.mean_load_pct.unwrap() < 50.0, "{cpu:?}");
    }
    let (json, _) = read("local_2cpu_180s/atop_J_CPU_cpu.json");
    assert_eq!(json.header.format, Format::AtopJson);
    assert!(json.steps[0].cells[1].unwrap().load_pct > 99.0);
    assert_eq!(json.warnings.len(), 1, "{:?}", json.warnings);
}
