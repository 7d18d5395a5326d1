// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real files that are not in the repository: a folder with `cyclictest` and
//! `text`, named by `SANDBAG_JITTER_SAMPLES`. They are ignored unless asked
//! for.

use std::path::PathBuf;

use sandbag_jitter::import::{self, ImportOptions, JitterRecording};
use sandbag_jitter::{Causes, Distribution, Error, JitterTrace, Quantile, Quantity, format};

fn open(name: &str) -> Result<JitterRecording, Error> {
    let folder: PathBuf = std::env::var_os("SANDBAG_JITTER_SAMPLES")
        .expect("SANDBAG_JITTER_SAMPLES names the folder with the sample files")
        .into();
    import::open(&folder.join(name), &ImportOptions::default())
}

fn distribution(name: &str) -> Distribution {
    match open(name) {
        Ok(JitterRecording::Distribution(distribution)) => distribution,
        other => panic!("{name}: {other:?}"),
    }
}

fn trace(name: &str) -> JitterTrace {
    match open(name) {
        Ok(JitterRecording::Trace(trace)) => trace,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
#[ignore = "needs SANDBAG_JITTER_SAMPLES, a folder with sample files"]
fn samples_of_osnoise() {
    // Excerpts of three traces, one after the other: the last begins earlier
    // than the second.
    let t = trace("text/osnoise_trace_samples.txt");
    assert_eq!(t.header.cpus, [7, 8]);
    let lengths: Vec<_> = t.cpus[0]
        .events
        .iter()
        .map(|event| event.length_ns)
        .collect();
    assert_eq!(lengths, [12_864, 34_531]);
    assert_eq!(t.cpus[1].events[0].length_ns, 8_812);
    let about = &t.attribution.as_ref().unwrap().about;
    assert_eq!((about.entries, about.outside), (10, 1));
    let mut bytes = Vec::new();
    format::write(&t, &mut bytes).unwrap();
    let back = format::read(&bytes[..]).unwrap();
    assert_eq!((back.cpus, back.attribution), (t.cpus, t.attribution));

    let d = distribution("text/osnoise_tracer_periodic.txt");
    assert_eq!(d.series.len(), 8);
    let s = &d.series[7];
    assert_eq!((s.noise_ns, s.longest_ns), (Some(7_816_000), Some(107_000)));
    let causes = Causes {
        hardware: 8,
        nmi: 0,
        irq: 1016,
        softirq: 39,
        thread: 19,
    };
    assert_eq!(s.causes, Some(causes));
}

#[test]
#[ignore = "needs SANDBAG_JITTER_SAMPLES, a folder with sample files"]
fn samples_of_rtla() {
    let d = distribution("text/rtla_osnoise_hist.txt");
    assert_eq!(d.warnings, Vec::<String>::new());
    assert_eq!(d.series.len(), 12);
    assert_eq!(d.series[0].count(), 55_215);
    assert_eq!(d.series[0].resolution_ns(), Some((10_000, 10_000)));
    assert_eq!(d.series[0].known_ns, Some(60_000_000_000));

    let d = distribution("text/rtla_osnoise_top.txt");
    let (least, most) = d.series[0].noise_pct().unwrap();
    assert_eq!(least, most);
    assert!((100.0 - least - 99.42580).abs() < 1e-5, "{least}");

    // Cut off after its third bucket by whoever collected it.
    let d = distribution("text/rtla_timerlat_hist_head.txt");
    assert_eq!(d.series.len(), 10);
    assert_eq!(d.series[1].quantity, Quantity::ThreadLatency);
    assert_eq!(d.series[1].longest_ns, Some(36_000));
    assert!(
        d.warnings[0].contains("rows are missing"),
        "{:?}",
        d.warnings
    );
}

#[test]
#[ignore = "needs SANDBAG_JITTER_SAMPLES, a folder with sample files"]
fn samples_of_cyclictest() {
    let d = distribution("cyclictest/log_xenomai_10h_bbb");
    assert_eq!(d.series.len(), 1);
    assert_eq!(d.series[0].count(), 144_000_000);
    assert_eq!(d.series[0].longest_ns, Some(37_000));
    let last = d.series[0].quantile(100.0);
    assert_eq!(last, Some(Quantile::Below(38_000)));

    // With -H: five columns, four threads.
    let d = distribution("cyclictest/log_rt_preempt_0");
    assert_eq!(d.series.len(), 4);
    for (series, us) in d.series.iter().zip([126, 104, 93, 85]) {
        assert_eq!(series.longest_ns, Some(us * 1000));
        assert_eq!(series.bins.last().unwrap().from_ns, us * 1000);
    }
}

#[test]
#[ignore = "needs SANDBAG_JITTER_SAMPLES, a folder with sample files"]
fn samples_of_which_nothing_can_be_made() {
    for (name, said) in [
        (
            "text/osjitter-atom-C3758-hz.txt",
            ":2: a table of osjitter holds quantiles only",
        ),
        (
            "text/osjitter-atom-C3758-half-hz.txt",
            ":2: a table of osjitter holds quantiles only",
        ),
        ("text/fdio_sut_calib_clx.rst", "this is no jitter trace"),
        ("text/fwq_stats_example.txt", "this is no jitter trace"),
    ] {
        let got = open(name).unwrap_err().to_string();
        assert!(got.contains(said), "{got}");
    }
}
