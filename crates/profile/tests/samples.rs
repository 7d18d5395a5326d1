// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real files that are not in the repository, in the folder that
//! `SANDBAG_SAMPLES` names: `krash_profiles`, `sysstat` (its own test data),
//! `local_2cpu_180s`, `collectl`, `pcp_tools` and `pcp_percore` (those of
//! Performance Co-Pilot's tests), `prometheus`, `swf` and `lublin_reference`.
//! The tests are ignored unless asked for (`make unit` asks where the variable
//! is set).

use std::fmt::Write as _;
use std::path::PathBuf;

use sandbag_profile::{
    BoxSteps, InputSource, NS_PER_S, Profile, ProfileCell, ProfileSummary, ReadOptions, Result,
    Spread, summarise,
};

/// Every sample, in the order of its tool.
const SAMPLES: &[&str] = &[
    "krash_profiles/simple.profile",
    "krash_profiles/biprocessor.profile",
    "local_2cpu_180s/sadf_j.u_PALL.json",
    "local_2cpu_180s/sadf_j.uALL_PALL.json",
    "local_2cpu_180s/sadf_d.uALL_PALL.csv",
    "local_2cpu_180s/sadf_dU.uALL_PALL.csv",
    "local_2cpu_180s/sar_PALL.txt",
    "local_2cpu_180s/sar_uALL_PALL.txt",
    "local_2cpu_180s/procstat_snapshots.txt",
    "local_2cpu_180s/mpstat_P_ALL.txt",
    "local_2cpu_180s/atop_P_CPU_cpu.txt",
    "local_2cpu_180s/atop_J_CPU_cpu.json",
    "sysstat/expected.sadf-j",
    "sysstat/expected.sadf-d",
    "sysstat/expected.sar-u",
    "sysstat/expected.sar-all",
    // Older versions; the fourth goes past midnight.
    "sysstat/expected.data-10.3.1",
    "sysstat/expected.data-11.6.5",
    "sysstat/expected.data-12.0.0",
    "sysstat/expected.data-ppc-11.7.2",
    "sysstat/expected.sar-cpu6off",
    "sysstat/expected.sar-cpu8onoff",
    // Without a single CPU.
    "sysstat/expected.sadf-d-tz",
    "sysstat/expected.sadf-U-se-epoch",
    "sysstat/expected.sar-ISO",
    "sysstat/expected.sadf-dh",
    "sysstat/expected.mpstat-A-JSON",
    "sysstat/expected.mpstat-T-JSON",
    "collectl/debian_sid_defaults.raw.gz",
    "collectl/some_host.raw",
    "pcp_tools/cputime.mpstat",
    "pcp_tools/cputime.pmrep-csv.csv",
    "pcp_tools/cputime.pmrep-raw-csv.csv",
    "pcp_tools/cputime.pcp2json.json",
    "pcp_tools/cputime.pcp2json-raw.json",
    "prometheus/DERIVED_matrix_from_pcp_brolley_4cpu_30min.json.gz",
    "prometheus/DERIVED_openmetrics_from_pcp_fedora_8cpu_5min.om",
    "prometheus/dump-openmetrics-test.prom",
    "prometheus/node_exporter_fixture_cpu.prom",
    "swf/NASA-iPSC-1993-3.1-cln.swf.gz",
    "swf/opendc_trace.swf",
];

fn sample(name: &str) -> PathBuf {
    let folder = std::env::var_os("SANDBAG_SAMPLES")
        .expect("SANDBAG_SAMPLES names the folder with the sample files");
    PathBuf::from(folder).join(name)
}

fn open(name: &str, cpus: Option<u32>) -> Result<BoxSteps> {
    let spread = cpus.map(|cpus| Spread {
        cpus,
        ..Spread::default()
    });
    let options = ReadOptions {
        spread,
        ..ReadOptions::default()
    };
    InputSource::new(&sample(name))?.open(None, &options)
}

fn read(name: &str) -> Profile {
    let steps = open(name, None).unwrap_or_else(|e| panic!("{name}: {e}"));
    Profile::collect(steps).unwrap()
}

fn describe(name: &str) -> Result<String> {
    let mut steps = open(name, None)?;
    let header = steps.header().clone();
    let summary = summarise(&mut steps)?;
    let mut text = format!("{}", header.format);
    if let Some(host) = header.host {
        let _ = write!(text, ", host {host}");
    }
    if let Some(begins) = header.begins_at {
        let _ = write!(text, ", begins {begins}");
    }
    let seconds = |ns: u64| ns as f64 / NS_PER_S as f64;
    let _ = writeln!(
        text,
        ", {} steps, {} s",
        summary.steps,
        seconds(summary.end_ns)
    );
    let first = summary.cpus.iter().take(10);
    for cpu in first {
        let pct = |load: Option<f64>| load.map_or("-".to_owned(), |load| format!("{load:.2}"));
        let _ = writeln!(
            text,
            "cpu{}: mean {}, {} to {}, steal {}, unknown {} s",
            cpu.cpu,
            pct(cpu.mean_load_pct),
            pct(cpu.min_load_pct),
            pct(cpu.max_load_pct),
            pct(cpu.mean_steal_pct),
            seconds(cpu.unknown_ns)
        );
    }
    let _ = writeln!(text, "{} CPUs", summary.cpus.len());
    for warning in summary.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    Ok(text)
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_are_read_as_before() {
    let mut text = String::new();
    let folder = sample("").to_string_lossy().into_owned();
    for name in SAMPLES {
        let outcome = describe(name).unwrap_or_else(|e| format!("error: {e}\n"));
        let _ = writeln!(text, "=== {name}\n{}", outcome.replace(&folder, ""));
    }
    insta::assert_snapshot!("samples", text);
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_one_recording_agree_in_every_format() {
    let json = read("local_2cpu_180s/sadf_j.uALL_PALL.json");
    for name in [
        "sadf_j.u_PALL.json",
        "sadf_d.uALL_PALL.csv",
        "sadf_dU.uALL_PALL.csv",
        "sar_PALL.txt",
        "sar_uALL_PALL.txt",
    ] {
        let p = read(&format!("local_2cpu_180s/{name}"));
        assert_eq!(p.steps, json.steps, "{name}");
    }
    // Sampled by other processes, so equal only up to the phase: the means.
    let means = |p: Profile| -> Vec<f64> {
        let summary = summarise(&mut p.into_steps()).unwrap();
        let means = summary.cpus.iter().map(|cpu| cpu.mean_load_pct.unwrap());
        means.collect()
    };
    let expected = means(json);
    for name in ["procstat_snapshots.txt", "mpstat_P_ALL.txt"] {
        let got = means(read(&format!("local_2cpu_180s/{name}")));
        for (a, b) in got.iter().zip(&expected) {
            assert!((a - b).abs() < 0.1, "{name}: {a} {b}");
        }
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_sysstat_with_cpus_that_come_and_go() {
    let (json, csv) = (
        read("sysstat/expected.sadf-j"),
        read("sysstat/expected.sadf-d"),
    );
    assert_eq!(json.header.cpus, csv.header.cpus);
    assert_eq!(json.steps, csv.steps);
    let cpu3 = json.steps[0].cells[3].unwrap();
    assert!((cpu3.load_pct - 100.0).abs() < 1e-9);
    let cpu8 = json.steps[3].cells[8].unwrap();
    assert!((cpu8.load_pct - (100.0 - 44.8 - 4.5) / 95.5 * 100.0).abs() < 1e-9);
    assert!((cpu8.steal_pct - 4.5).abs() < 1e-9);
    let sar = read("sysstat/expected.sar-u");
    for (a, b) in sar.steps.iter().zip(&csv.steps).take(4) {
        for (a, b) in a.cells.iter().zip(&b.cells) {
            assert_eq!(a.is_some(), b.is_some());
            let load = |c: &Option<ProfileCell>| c.map_or(0.0, |c| c.load_pct);
            assert!((load(a) - load(b)).abs() < 0.02, "{a:?} {b:?}");
        }
    }
    let all = read("sysstat/expected.sar-all");
    assert_eq!(all.steps[1].cells[..], csv.steps[1].cells[..9]);
}

/// The reference has loads of 0 to 1 by step and CPU, from the counters of the
/// same archive. It counts irq, which the exports lack: a tick of it in a
/// second is 1 point.
#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_one_archive_agree() {
    let reference = sample("pcp_percore/cputime_6cpu_9s_1s.util.csv");
    let reference = std::fs::read_to_string(reference).unwrap();
    let [rates, counters, json] = ["pmrep-csv.csv", "pmrep-raw-csv.csv", "pcp2json.json"]
        .map(|name| read(&format!("pcp_tools/cputime.{name}")));
    for p in [&rates, &counters, &json] {
        assert_eq!(p.steps.len(), reference.lines().count() - 1);
        for (step, row) in p.steps.iter().zip(reference.lines().skip(1)) {
            let loads = row.split(',').skip(2).map(|v| v.parse::<f64>().ok());
            assert_eq!(step.cells.len(), loads.clone().count());
            for (cell, load) in step.cells.iter().zip(loads) {
                assert_eq!(cell.is_some(), load.is_some());
                let difference = cell.zip(load).map(|(c, load)| c.load_pct - load * 100.0);
                assert!(difference.is_none_or(|d| d.abs() < 1.0), "{step:?} {row}");
            }
        }
    }
    for (a, b) in counters.steps.iter().zip(&rates.steps) {
        for (a, b) in a.cells.iter().zip(&b.cells) {
            assert!((a.unwrap().load_pct - b.unwrap().load_pct).abs() < 4e-4);
        }
    }
    assert_eq!(rates.steps, json.steps);
}

/// The summary on this many CPUs, and the CPU seconds of its load.
fn work_s(name: &str, cpus: Option<u32>) -> (ProfileSummary, f64) {
    let summary = summarise(&mut open(name, cpus).unwrap()).unwrap();
    let loads = summary.cpus.iter().map(|cpu| cpu.mean_load_pct.unwrap());
    let work_s = loads.sum::<f64>() / 100.0 * summary.end_ns as f64 / NS_PER_S as f64;
    (summary, work_s)
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_swf_have_the_work_of_their_jobs() {
    // Processors times run time, summed over the lines of the log by other means.
    let (_, work) = work_s("swf/NASA-iPSC-1993-3.1-cln.swf.gz", None);
    assert!((work - 474_238_015.0).abs() < 1.0, "{work}");
    // Processors times CPU time.
    let expected = 142 * 306 + 2 * 17 + 32_792 * 306 + 28_745 * 64 + 28_191 * 64;
    let (_, work) = work_s("swf/opendc_trace.swf", None);
    assert!((work - f64::from(expected)).abs() < 1.0, "{work}");
    // On fewer CPUs the jobs that fit have the same work and take longer.
    for name in [
        "types0_seed1",
        "types0_seed42",
        "types1_seed1",
        "types1_seed42",
    ] {
        let name = format!("lublin_reference/lublin99_{name}.swf");
        let (whole, whole_work) = work_s(&name, None);
        let (half, half_work) = work_s(&name, Some(64));
        assert_eq!(whole.cpus.len(), 128, "{name}");
        assert!(half.end_ns >= whole.end_ns, "{name}");
        assert!(half_work <= whole_work, "{name}");
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn a_sample_that_is_cut_short_loses_its_last_line() {
    let text = std::fs::read(sample("swf/opendc_trace.swf")).unwrap();
    let source = InputSource::spool(&mut &text[..text.len() - 20], "in".into()).unwrap();
    let steps = source.open(None, &ReadOptions::default()).unwrap();
    let warnings = Profile::collect(steps).unwrap().warnings;
    assert!(
        warnings[0].starts_with("line 6, the last one"),
        "{warnings:?}"
    );
}
