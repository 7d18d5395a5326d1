// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Job logs.

use sandbag_profile::{
    Format, InputSource, NS_PER_S, ProfileSummary, ReadOptions, Spread, Steps, open, summarise,
};

use super::sample;

fn on(name: &str, cpus: Option<u32>) -> (sandbag_profile::BoxSteps, ProfileSummary) {
    let source = InputSource::new(&sample(name)).unwrap();
    let options = ReadOptions {
        spread: cpus.map(|cpus| Spread {
            cpus,
            ..Spread::default()
        }),
        ..ReadOptions::default()
    };
    let steps = || {
        source
            .open(None, &options)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    (steps(), summarise(&mut steps()).unwrap())
}

/// CPU seconds of a profile.
fn work_s(summary: &ProfileSummary) -> f64 {
    let loads = summary.cpus.iter().map(|cpu| cpu.mean_load_pct.unwrap());
    loads.sum::<f64>() / 100.0 * summary.end_ns as f64 / NS_PER_S as f64
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_swf_without_wait_times() {
    let (steps, summary) = on("swf/NASA-iPSC-1993-3.1-cln.swf.gz", None);
    let header = steps.header();
    assert_eq!(header.format, Format::Swf);
    assert_eq!(header.cpus.len(), 128);
    assert_eq!(header.host.as_deref(), Some("Intel iPSC/860"));
    assert_eq!(
        header.begins_at.unwrap().to_string(),
        "1993-10-01T07:00:03Z"
    );
    assert!(
        (work_s(&summary) - NASA_WORK_S).abs() < 1.0,
        "{}",
        work_s(&summary)
    );
    assert!(summary.warnings[0].starts_with("173 of 18239 jobs have no processors"));
    // The submit times are times of the begin, so the last end is the log's,
    // unless a job was made to wait.
    assert!(summary.end_ns >= 7_949_022 * NS_PER_S);
    let waited = "11 of 18066 jobs had to wait for CPUs, up to 23753 s";
    assert_eq!(summary.warnings[2], waited);
}

/// Processors times run time, summed over the lines of the log by other means.
const NASA_WORK_S: f64 = 474_238_015.0;

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_swf_with_wait_times() {
    let (steps, summary) = on("swf/opendc_trace.swf", None);
    // No header; the largest job has 306.
    assert_eq!(steps.header().cpus.len(), 306);
    // Processors times CPU time.
    let work = 142 * 306 + 2 * 17 + 32_792 * 306 + 28_745 * 64 + 28_191 * 64;
    assert!((work_s(&summary) - f64::from(work)).abs() < 1.0);
    // Logged begins are kept: nobody waits.
    assert_eq!(
        summary.warnings,
        ["no job runs before 360879 s; what is before may be cut off"]
    );
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn samples_of_the_reference_model_are_scheduled() {
    for name in [
        "types0_seed1",
        "types0_seed42",
        "types1_seed1",
        "types1_seed42",
    ] {
        let name = format!("lublin_reference/lublin99_{name}.swf");
        let (steps, whole) = on(&name, None);
        assert_eq!(steps.header().cpus.len(), 128, "{name}");
        // On fewer CPUs the jobs that fit have the same work and take longer.
        let (_, half) = on(&name, Some(64));
        assert!(half.end_ns >= whole.end_ns, "{name}");
        assert!(work_s(&half) <= work_s(&whole), "{name}");
    }
}

#[test]
#[ignore = "needs SANDBAG_SAMPLES, a folder with sample files"]
fn a_sample_that_is_cut_short_is_refused() {
    let text = std::fs::read(sample("swf/opendc_trace.swf")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text[..text.len() - 20]).unwrap();
    let e = open(file.path(), None, &ReadOptions::default())
        .err()
        .unwrap();
    assert!(e.to_string().contains("the file may be cut short"), "{e}");
}
