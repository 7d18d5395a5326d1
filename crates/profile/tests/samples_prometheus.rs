// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real files that are not in the repository: a folder with `prometheus`,
//! named by `SANDBAG_SAMPLES`. They are ignored unless asked for.

use std::path::PathBuf;

use sandbag_profile::{Format, Profile, ReadOptions, open};

fn sample(name: &str) -> PathBuf {
    PathBuf::from(
        std::env::var_os("SANDBAG_SAMPLES")
            .expect("SANDBAG_SAMPLES names the folder with the sample files"),
    )
    .join("prometheus")
    .join(name)
}

fn read(name: &str) -> sandbag_profile::Result<Profile> {
    Profile::collect(open(&sample(name), None, &ReadOptions::default())?)
}

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
        let p = read(name).unwrap_or_else(|e| panic!("{e}"));
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
        let e = read(name).err().unwrap().to_string();
        assert!(e.contains(said), "{name}: {e}");
    }
}
