// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds for every format: it is told from the others, and whatever stands
//! in a file, reading ends with something sound or an error.

use proptest::prelude::*;

use super::*;
use crate::{CpuCounts, Distribution, JitterTrace};

pub(super) fn read_named(text: &str, name: &str) -> Result<JitterRecording> {
    read(text.as_bytes(), name, &ImportOptions::default())
}

pub(super) fn trace(text: &str) -> JitterTrace {
    match read_named(text, "in") {
        Ok(JitterRecording::Trace(trace)) => {
            assert_sound_trace(&trace);
            trace
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn distribution(text: &str) -> Distribution {
    match read_named(text, "in") {
        Ok(JitterRecording::Distribution(distribution)) => {
            distribution.series.iter().for_each(assert_sound);
            distribution
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn message(text: &str) -> String {
    read_named(text, "in").unwrap_err().to_string()
}

pub(super) fn assert_sound(series: &CpuCounts) {
    let mut last_ns = 0;
    for bin in &series.bins {
        assert!(
            bin.from_ns >= last_ns && bin.until_ns > bin.from_ns,
            "{series:?}"
        );
        assert!(bin.count > 0);
        last_ns = bin.until_ns;
    }
    assert!(
        series.beyond.is_none_or(|beyond| beyond.from_ns >= last_ns),
        "{series:?}"
    );
}

/// What is written is checked by the writer, and comes back.
fn assert_sound_trace(trace: &JitterTrace) {
    let mut bytes = Vec::new();
    format::write(trace, &mut bytes).unwrap();
    let again = format::read(&bytes[..]).unwrap();
    assert_eq!(again.cpus, trace.cpus);
    assert!(again.warnings.is_empty());
}

/// One small file of each format, and the name of its reader.
const FILES: [(&str, &str); 20] = [
    (
        "cpu,start_ns,length_ns\n0,100,50\n1,90,7\n",
        "CSV of sandbag",
    ),
    (
        "# RTLA osnoise histogram\n# Duration:   0 00:01:00\nIndex   CPU-000\n0 5\n10 1\nover: 1\ncount: 7\n",
        "rtla osnoise hist and rtla timerlat hist",
    ),
    (
        "# RTLA timerlat histogram\nIndex   IRQ-000   Thr-000\n0 5 2\n10 1 4\nover: 0 0\ncount: 6 6\nmax: 11 12\n",
        "rtla osnoise hist and rtla timerlat hist",
    ),
    (
        "CPU Period Runtime Noise % CPU Aval Max Noise Max Single HW NMI\n0 #9 900 3 99.4 2 1 5 0\n",
        "rtla osnoise top",
    ),
    (
        "# Selfish Benchmark\n# Minimal cycle length [ns]: 20.0\n# Time [ns]\tselfish\n0.00\t50.2\n100\t2\n",
        "netgauge selfish",
    ),
    (
        "# Fixed Work Quantum Benchmark\n# cycle number    duration [us]\n0 100\n1 105\n",
        "netgauge fwq and ftq",
    ),
    (
        "# Compute-Cycle Duration: 10 usec\n# Fixed Time Quantum Benchmark\n0 100\n1 95\n",
        "netgauge fwq and ftq",
    ),
    (
        "# cpu_mhz: 2600\n# threshold: 200ns\n# n_interruptions: 1\n# total_runtime: 1.000000000 seconds\n 1000 0 2600 100\n",
        "sysjitter --raw",
    ),
    (
        "# Histogram\n000000 000001\n000003 000007\n# Min Latencies: 00000\n# Max Latencies: 00003\n# Histogram Overflows: 00001\n",
        "histogram of cyclictest",
    ),
    (
        "{\"num_threads\": 1, \"thread\": {\"0\": {\"cpu\": 0, \"max\": 9, \"duration\": 1.0, \"histogram\": {\"001\": 9, \"002\": 4, \"003\": 1}}}}",
        "JSON of oslat and cyclictest",
    ),
    (
        "{\"num_threads\": 1, \"thread\": {\"0\": {\"cpu\": 0, \"max\": 9, \"histogram\": {\"2\": 9, \"3\": 4, \"7\": 1}}}}",
        "JSON of oslat and cyclictest",
    ),
    (
        "{\"num_threads\": 1, \"thread\": {\"0\": {\"cpu\": 0, \"max\": 9, \"histogram\": {\"0.001\": 9, \"0.002\": 4, \"0.003\": 1}}}}",
        "JSON of oslat and cyclictest",
    ),
    (
        "{\"num_threads\": 1, \"resolution_in_ns\": 0, \"thread\": {\"0\": {\"cpu\": 0, \"cycles\": 9, \"histogram\": {\"1\": 4, \"2\": 1}}}}",
        "JSON of oslat and cyclictest",
    ),
    (
        "{\"0\": [[1000, 200, -1], [500, 20]]}",
        "JSON of a noise injector",
    ),
    (
        "Speed: process 0, cycles 20, seconds 1.0, GHz 2.0\nProcess 0 running on CPUs 3\n9\n10\n11\n",
        "LLNL FWQ",
    ),
    (
        "# Frequency 10000.0\n# thread 0, core 0\n0 100\n100000 90\n",
        "FTQ",
    ),
    (
        " CPU  TSC_khz  #intr\n 0 2200000 5\n",
        "tables of osjitter and sysjitter (refused)",
    ),
    (
        "osnoise/8-961 [008] .... 1.5: sample_threshold: start 1.400000000 duration 8812 ns interferences 2\nCPU:8 [LOST 2 EVENTS]\nosnoise/8-961 [008] .... 1.6: sample_threshold: start 1.500000000 duration 12 ns interferences 0\n",
        "events of osnoise (ftrace)",
    ),
    (
        "<...>-859 [000] .... 81.6: 1000000 190 99.98 9 18 0 1007 18 1\n",
        "periods of osnoise (ftrace)",
    ),
    ("100 20\n200 30\n", "noise trace of LogGOPSim"),
];

#[test]
fn each_format_is_told_from_the_others() {
    for (text, name) in FILES {
        assert_eq!(detect(text.as_bytes()), Some(name));
        let windows = text.replace('\n', "\r\n");
        assert_eq!(detect(windows.as_bytes()), Some(name));
        let options = ImportOptions {
            unit: Some(Unit::Ns),
            ..ImportOptions::default()
        };
        let got = |text: &str| read(text.as_bytes(), "in", &options).map_err(|e| e.to_string());
        assert_eq!(got(text), got(&windows));
        assert_eq!(got(text), got(&format!("\u{feff}{text}")));
        assert_eq!(
            got(text).is_err(),
            name.contains("refused"),
            "{:?}",
            got(text)
        );
    }
}

#[test]
fn what_is_nothing_known_is_refused() {
    for (bytes, said) in [
        (&b"hello\n"[..], "in: this is no jitter trace"),
        (b"", "in: the file is empty"),
        (b" \n", "in: the file is empty"),
        (
            b"\x1f\x8b\x08 etc",
            "in: the file is packed (gzip) and damaged",
        ),
        (b"\xff\xfea\0", "in: this is no jitter trace"),
    ] {
        let got = read(bytes, "in", &ImportOptions::default())
            .unwrap_err()
            .to_string();
        assert!(got.starts_with(said), "{got}");
    }
}

#[test]
fn packed_files_are_read() {
    let text = "cpu,start_ns,length_ns\n0,100,50\n0,900,70\n";
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let plain = read(text.as_bytes(), "in", &ImportOptions::default()).unwrap();
    assert_eq!(
        read(&packed[..], "in", &ImportOptions::default()).unwrap(),
        plain
    );
    // A trace of our own, too.
    let mut trace = Vec::new();
    format::write(&plain.into_trace().unwrap(), &mut trace).unwrap();
    let packed = zstd::encode_all(&trace[..], 1).unwrap();
    assert!(read(&packed[..], "in", &ImportOptions::default()).is_ok());
}

#[test]
fn a_line_without_end_is_refused() {
    let text = format!("cpu,start_ns,length_ns\n{}", "1".repeat(5 << 20));
    assert_eq!(message(&text), "in:2: a line of more than 4194304 bytes");
}

#[test]
fn a_distribution_is_no_trace() {
    let got = read_named(FILES[1].0, "in")
        .unwrap()
        .into_trace()
        .unwrap_err();
    let said = "this holds a distribution, not events (rtla osnoise hist)";
    assert!(got.to_string().starts_with(said), "{got}");
}

fn check(bytes: &[u8]) {
    for unit in [None, Some(Unit::Ns), Some(Unit::Ps)] {
        match read(
            bytes,
            "in",
            &ImportOptions {
                unit,
                ..ImportOptions::default()
            },
        ) {
            Ok(JitterRecording::Trace(trace)) => assert_sound_trace(&trace),
            Ok(JitterRecording::Distribution(distribution)) => {
                distribution.series.iter().for_each(assert_sound);
                for series in &distribution.series {
                    let _ = (series.quantile(99.0), series.noise_pct());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn anything_may_stand_in_a_file(bytes: Vec<u8>) {
        check(&bytes);
    }

    #[test]
    fn a_file_may_be_mangled(
        which in 0..FILES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = FILES[which].0.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(&bytes);
    }

    #[test]
    fn numbers_may_be_any(
        which in 0..FILES.len(),
        numbers in prop::collection::vec(
            prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), 0u64..100], 1..40),
    ) {
        let mut numbers = numbers.iter().cycle();
        let mut text = String::new();
        let mut in_number = false;
        for c in FILES[which].0.chars() {
            match c.is_ascii_digit() {
                true if !in_number && numbers.next().is_some_and(|n| n % 3 != 0) => {
                    text += &numbers.next().map(u64::to_string).unwrap_or_default();
                }
                true if !in_number => text.push(c),
                true => {}
                false => text.push(c),
            }
            in_number = c.is_ascii_digit();
        }
        check(text.as_bytes());
    }
}

/// Whatever a file holds, a reader that takes it for its own says what is wrong
/// and does not panic.
#[test]
fn every_reader_survives_what_is_not_its_own() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/src/import");
    let mut texts: Vec<Vec<u8>> = [
        "",
        "\n",
        "0",
        "# \n1 2 3\n",
        "{}",
        "{\"0\": [[1, 2]]}",
        "a,b\n1,2\n",
        "\u{0}\u{0}",
        "1 1 1\n1 1\n",
        "18446744073709551615 18446744073709551615\n",
        "-1 -1 -1\n",
        "nan inf\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    // Rust's own text is a file like any other.
    texts.push(std::fs::read(format!("{fixtures}/mod.rs")).unwrap());
    texts.push((0..4096u32).map(|i| ((i * 7919) >> 3) as u8).collect());
    assert!(formats().len() > 10);
    for format in formats() {
        for text in &texts {
            let _ = read_as(format, &text[..], "x", &ImportOptions::default());
        }
    }
    assert!(read_as("nothing", &b""[..], "x", &ImportOptions::default()).is_err());
}
