// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers and dumps of Prometheus.

use sandbag_profile::Format;

use super::{read, refusal};

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_a_matrix_and_of_openmetrics() {
    for (name, format, cpus, steps, host, begins) in [
        (
            "DERIVED_matrix_from_pcp_brolley_4cpu_30min.json.gz",
            Format::Prometheus,
            4,
            150,
            "laptop:9100",
            "2018-04-16T",
        ),
        (
            "DERIVED_openmetrics_from_pcp_fedora_8cpu_5min.om",
            Format::OpenMetrics,
            8,
            29,
            "fedora:9100",
            "2025-10-12T",
        ),
    ] {
        let (p, _) = read(&format!("prometheus/{name}"));
        eprintln!("{name}: {} steps, {:?}", p.steps.len(), p.warnings);
        assert_eq!(p.header.format, format, "{name}");
        assert_eq!(p.header.cpus.len(), cpus, "{name}");
        assert_eq!(p.header.host.as_deref(), Some(host), "{name}");
        assert!(
            p.header.begins_at.unwrap().to_string().starts_with(begins),
            "{:?}",
            p.header
        );
        assert!(p.steps.len() >= steps, "{name}: {}", p.steps.len());
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_that_are_no_recording_say_why() {
    for (name, said) in [
        ("dump-openmetrics-test.prom", "but my_counter, my_gauge"),
        ("node_exporter_fixture_cpu.prom", "have no time stamps"),
    ] {
        let e = refusal(&format!("prometheus/{name}"));
        assert!(e.contains(said), "{name}: {e}");
    }
}
