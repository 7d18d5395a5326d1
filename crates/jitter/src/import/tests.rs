// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of every format and what is read from them, and properties of all readers.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::CpuCounts;

/// In a variant: what stands before is the whole file.
const CUT: &str = "(the end)";

/// A sample file, the name under which it is read, and variants: in each of them the first
/// text is replaced by the second.
struct Sample(
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

macro_rules! sample {
    ($file:literal, $($variant:expr),* $(,)?) => {
        Sample($file, include_str!(concat!("samples/", $file)), &[$($variant),*])
    };
}

const SAMPLES: [Sample; 21] = [
    sample!(
        "csv.csv",
        ("0,100,50", "0,1"),
        ("0,100,50", "0,1,2,3"),
        ("0,100,50", "x,1,2"),
        ("0,100,50", "0,-1,2"),
        ("0,100,50", "0,1.5,2"),
        ("0,100,50", "70000,1,2"),
        ("0,100,50", "0,18446744073709551615,2"),
    ),
    sample!(
        "rtla_osnoise_hist.txt",
        ("10            7         0", "10  7"),
        ("30  ", "5  "),
        ("CPU-002", "XPU-002"),
        ("0 00:01:00", "soon"),
        ("Index   CPU-000   CPU-002", "Index"),
        ("over", CUT),
        ("30            1         0\n", ""),
        (
            "Index   CPU-000   CPU-002\n0           100        50\n",
            CUT
        ),
        // Messages of rtla before and after the table.
        ("# RTLA", "  Saving trace to osnoise_trace.txt\n# RTLA"),
        (
            "max:         60         0\n",
            "max:         60         0\n12 (1.20%) events missed, results might not be accurate\n\
             osnoise hit stop tracing\n  Saving trace to osnoise_trace.txt\n"
        ),
        ("30            1", "x             1"),
    ),
    // Latencies of an interrupt, a thread and a program are quantities of their own.
    sample!(
        "rtla_timerlat_hist.txt",
        ("Time unit is nanoseconds", ""),
        (
            "ALL: IRQ Thr Usr\ncount: 5 5 4\n",
            "rtla timerlat hit stop tracing\n## CPU 0 hit stop tracing, analyzing it ##\n\
             unknown number of events missed, results might not be accurate\n"
        ),
    ),
    // The last row of a CPU counts.
    sample!(
        "rtla_top.txt",
        ("#1  ", "1   "),
        ("106            2            1", "106"),
        (
            "rtla osnoise hit",
            "12 (1.20%) events missed, results might not be accurate\nrtla osnoise hit"
        ),
    ),
    // A length is the time lost: netgauge's `CPU overhead due to noise` is the sum of rows.
    // The threshold is 900 % of 20 ns from reading to reading, 160 ns lost.
    sample!(
        "selfish.txt",
        ("1000.00\t", "100.00\t"),
        ("1000.00\t", "-5\t")
    ),
    sample!("netgauge_fwq.txt", ("1005\n", "1005 7\n")),
    sample!(
        "netgauge_ftq.txt",
        ("# Compute", "# Other"),
        ("1000\n", "x\n")
    ),
    // A stamp is the end of an event.
    sample!(
        "sysjitter.txt",
        ("          900000", CUT),
        ("  5200       2000", "  5200       200000"),
        (
            "          100000          0       5200       2000\n          900000        800 ",
            "          900000 26000 10000\n          100000 ",
        ),
    ),
    // The column of all threads is left out.
    sample!(
        "cyclictest.txt",
        ("000002 ", "000001 "),
        ("000020\t000030", "000020"),
        ("000020\t", "x\t"),
        ("Min Latencies: 00001 00001", "Min Latencies: 1"),
        ("# Total", CUT),
    ),
    // Passes of the loop are not events; the last bucket holds all that is longer.
    sample!(
        "oslat.json",
        ("\"2\"", "\"two\""),
        ("\"1\": {\"cpu\"", "\"b\": {\"cpu\""),
        ("50, \"5\"", "-50, \"5\""),
    ),
    // Two versions round up; from 2.5 on there are buckets of 0.1 us.
    sample!(
        "oslat_us.json",
        ("2.50", "2.80"),
        ("2600, \"min\": 1", "2600, \"min\": 0")
    ),
    sample!("oslat_narrow.json",),
    sample!("cyclictest.json", ("in_ns\": 0", "in_ns\": 1")),
    sample!(
        "injector.json",
        ("[500, 20]", "[500]"),
        ("[100, 5, 0]", "[100, -2]"),
        ("[500, 20]", "[1, 2, 3, 4]"),
        ("\"3\"", "\"x\""),
        ("[500, 20]", CUT),
        (
            "[[1000, 200, -1], [500, 20]],\n \"3\": [[100, 5, 0]]}",
            "[]}"
        ),
        // A CPU that is named is quiet without events.
        ("[[100, 5, 0]]", "[]"),
    ),
    // Each process has a clock of its own.
    sample!(
        "fwq.txt",
        (
            "Speed: process 0, cycles 2000000000, seconds 1.000000, GHz 2.000000\n",
            ""
        ),
        ("1100", "many"),
        // What the programs print beside the results with -s.
        ("Process 0 running", "Process 0\nProcess 0 running"),
        ("Process 1 running on CPUs 8-9", "Process 1"),
        (
            "Speed: process 0",
            "Number of threads: 2\nWork per thread: 1048576\nThread 1 running on CPUs 8\n\
             Speed: process 0"
        ),
    ),
    sample!("ftq.txt", ("10000.000000", "0")),
    sample!("osjitter.txt",),
    sample!("sysjitter_summary.txt",),
    // Samples are events and the other entries their causes; a full buffer begins elsewhere
    // on each CPU; without samples the causes are events.
    sample!(
        "osnoise.txt",
        ("9/9", "9/20"),
        ("duration 8812 ns", "duration many ns"),
        (
            "       osnoise/8-961     [008] ....  10.000042: sample_threshold: start 10.000000555 \
             duration 8812 ns interferences 2\n       osnoise/9-962",
            CUT
        ),
    ),
    sample!(
        "osnoise_periods.txt",
        ("1000000        656", "0        656")
    ),
    sample!("loggopsim.txt", ("1000000 200000", "1000000 x")),
];

fn options() -> ImportOptions {
    let unit = Some(Unit::Ns);
    ImportOptions {
        unit,
        ..ImportOptions::default()
    }
}

/// All that was read, or the error.
fn outcome(text: &str, name: &str, options: &ImportOptions) -> String {
    let recording = match read(text.as_bytes(), name, options) {
        Ok(recording) => recording,
        Err(error) => return format!("error: {error}\n"),
    };
    assert_sound(&recording);
    let mut shown = String::new();
    let mut line = |text: String| writeln!(shown, "{text}").unwrap();
    match &recording {
        JitterRecording::Trace(trace) => {
            line(format!("trace of {}", trace.header.recorder));
            line(format!("detectable {:?}", trace.detectable_ns()));
            for cpu in &trace.cpus {
                let known = cpu.known.iter().map(|span| span.from_ns..span.until_ns);
                let known: Vec<_> = known.collect();
                let events = cpu
                    .events
                    .iter()
                    .map(|event| (event.start_ns, event.length_ns));
                let events: Vec<_> = events.collect();
                line(format!(
                    "CPU {}: known {known:?}, events {events:?}",
                    cpu.cpu
                ));
            }
            if let Some(all) = &trace.attribution {
                line(format!(
                    "{} entries, {} outside",
                    all.about.entries, all.about.outside
                ));
                for cpu in &all.cpus {
                    for cause in &cpu.causes {
                        let source = &all.sources[cause.source as usize];
                        let (kind, name) = (source.kind.name(), &source.name);
                        line(format!(
                            "  CPU {}: {kind} {name} {:?} from {} for {}",
                            cpu.cpu, source.number, cause.start_ns, cause.length_ns
                        ));
                    }
                }
            }
        }
        JitterRecording::Distribution(all) => {
            line(format!("distribution of {}", all.recorder));
            for one in &all.series {
                line(format!(
                    "CPU {}: {}, {} in all",
                    one.cpu,
                    one.quantity,
                    one.count()
                ));
                let bins = one
                    .bins
                    .iter()
                    .map(|bin| (bin.from_ns..bin.until_ns, bin.count));
                line(format!("  bins {:?}", bins.collect::<Vec<_>>()));
                let beyond = one.beyond.map(|beyond| (beyond.from_ns, beyond.count));
                line(format!(
                    "  beyond {beyond:?}, known {:?}, noise {:?}, longest {:?}",
                    one.known_ns, one.noise_ns, one.longest_ns
                ));
                if let Some(causes) = one.causes {
                    line(format!("  {causes:?}"));
                }
            }
        }
    }
    recording
        .warnings()
        .iter()
        .for_each(|text| line(format!("warning: {text}")));
    shown
}

#[test]
fn samples_of_all_formats() {
    for Sample(file, text, variants) in SAMPLES {
        let format = detect(text.as_bytes()).unwrap();
        let mut shown = format!("{format}\n{}", outcome(text, "in", &options()));
        for (from, to) in variants {
            let at = text.find(from).unwrap_or_else(|| panic!("{file}: {from}"));
            let (variant, change) = if *to == CUT {
                (text[..at].to_owned(), format!("cut off before {from:?}"))
            } else {
                (
                    text.replacen(from, to, 1),
                    format!("{from:?} replaced by {to:?}"),
                )
            };
            let read = outcome(&variant, "in", &options());
            write!(shown, "\n--- {change}\n{read}").unwrap();
        }
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(file, shown);
        });
    }
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    for Sample(_, text, _) in SAMPLES {
        let windows = text.replace('\n', "\r\n");
        assert_eq!(detect(windows.as_bytes()), detect(text.as_bytes()));
        let plain = outcome(text, "in", &options());
        assert_eq!(outcome(&windows, "in", &options()), plain);
        assert_eq!(outcome(&format!("\u{feff}{text}"), "in", &options()), plain);
    }
}

/// It may be cut inside a number.
#[test]
fn a_last_line_without_its_end_is_left_out() {
    let texts = SAMPLES.iter().filter(|sample| {
        // Summaries are refused.
        !sample.0.ends_with(".json") && read(sample.1.as_bytes(), "in", &options()).is_ok()
    });
    for Sample(file, text, _) in texts {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (last, before) = lines.split_last().unwrap();
        assert!(last.ends_with('\n') && last.len() > 3, "{file}");
        let warning = format!(
            "warning: line {}, the last one, has no line end: it may be cut short and is left out\n",
            lines.len()
        );
        let expected = outcome(&before.concat(), "in", &options()) + &warning;
        let cut = &text[..text.len() - 3];
        assert_eq!(outcome(cut, "in", &options()), expected, "{file}");
    }
}

#[test]
fn what_a_file_lacks_is_asked_for_or_taken_from_its_name() {
    let loggopsim = "1000000 200000\n5000000 300000\n";
    let got = outcome(loggopsim, "in", &ImportOptions::default());
    assert!(got.contains("in: ") && got.contains("--unit"), "{got}");
    let (unit, cpu) = (Some(Unit::Ps), Some(4));
    let got = outcome(
        loggopsim,
        "in",
        &ImportOptions {
            unit,
            cpu,
            ..options()
        },
    );
    assert!(
        got.contains("CPU 4: known [0..4300], events [(0, 200), (4000, 300)]"),
        "{got}"
    );
    for (name, cpu) in [
        ("out/ng.7", 7),
        ("raw.3", 3),
        ("x_5.dat", 5),
        ("in", 0),
        ("7/out.txt", 0),
        ("3/raw.gz", 0),
    ] {
        let got = outcome(loggopsim, name, &options());
        assert!(got.contains(&format!("\nCPU {cpu}: ")), "{name}: {got}");
    }
}

#[test]
fn other_files_are_refused() {
    let long = format!("cpu,start_ns,length_ns\n{}", "1".repeat(5 << 20));
    for (bytes, expected) in [
        (&b"hello\n"[..], "in: this is no jitter trace"),
        (b"", "in: the file is empty"),
        (b" \n", "in: the file is empty"),
        (
            b"\x1f\x8b\x08 etc",
            "in: the file is packed (gzip) and has no end",
        ),
        (b"\xff\xfea\0", "in: this is no jitter trace"),
        (long.as_bytes(), "in:2: a line of more than 4194304 bytes"),
    ] {
        let got = read(bytes, "in", &options()).unwrap_err().to_string();
        assert!(got.starts_with(expected), "{got}");
    }
}

#[test]
fn compressed_files_are_read() {
    let text = "cpu,start_ns,length_ns\n0,100,50\n0,900,70\n";
    let plain = read(text.as_bytes(), "in", &options()).unwrap();
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert_eq!(read(&packed[..], "in", &options()).unwrap(), plain);
    let mut trace = Vec::new();
    format::write(&plain.into_trace().unwrap(), &mut trace).unwrap();
    let packed = zstd::encode_all(&trace[..], 1).unwrap();
    assert!(read(&packed[..], "in", &options()).is_ok());
}

#[test]
fn a_distribution_is_no_trace() {
    let read = read(SAMPLES[1].1.as_bytes(), "in", &options()).unwrap();
    let got = read.into_trace().unwrap_err().to_string();
    let expected = "this holds a distribution, not events (rtla osnoise hist)";
    assert!(got.starts_with(expected), "{got}");
}

#[test]
fn progress_of_cyclictest_may_be_longer_than_the_head() {
    let (before, histogram) = include_str!("samples/cyclictest.txt")
        .split_once("policy: ")
        .map(|(before, rest)| (before, rest.split_once('\n').unwrap().1))
        .unwrap();
    let step = "policy: fifo: loadavg: 0.00 0.01 0.01 1/152 2441          \n\n\
                T: 0 ( 2441) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    1 Max:     400\n";
    let steps = vec![step; HEAD as usize / step.len() + 1].join("\x1b[3A");
    let got = outcome(&format!("{before}{steps}{histogram}"), "in", &options());
    assert_eq!(
        got,
        outcome(&format!("{before}{histogram}"), "in", &options())
    );
    assert!(got.starts_with("distribution of cyclictest"), "{got}");
}

#[test]
fn json_of_other_real_time_tests_is_refused() {
    let thread = r#"{"cycles": 9, "min": 3, "max": 40, "avg": 5.00, "cpu": 1}"#;
    let text = format!(r#"{{"num_threads": 1, "thread": {{"0": {thread}}}}}"#);
    let got = outcome(&text, "in", &options());
    assert!(
        got.starts_with("error: in: expected threads of oslat"),
        "{got}"
    );
}

#[test]
fn counts_that_cannot_be_are_told() {
    let hist = |bucket: &str, count: &str| {
        let text = format!(
            "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:01\n\
             Index   CPU-000\n{bucket}\nover:         0\ncount:        {count}\n"
        );
        let read = read(text.as_bytes(), "in", &options()).unwrap();
        read.warnings().join("; ")
    };
    assert_eq!(hist("5 10", "10"), "");
    let told = hist("5 10", "7");
    assert!(told.contains("3 less than the buckets hold"), "{told}");
    let told = hist("5 400000", "400000");
    assert!(told.contains("cpu0 take 200 % of the time"), "{told}");
}

pub(super) fn assert_sound_counts(series: &CpuCounts) {
    let mut last_ns = 0;
    for bin in &series.bins {
        let ascends = bin.from_ns >= last_ns && bin.until_ns > bin.from_ns;
        assert!(ascends && bin.count > 0, "{series:?}");
        last_ns = bin.until_ns;
    }
    let beyond = series.beyond.map_or(last_ns, |beyond| beyond.from_ns);
    assert!(beyond >= last_ns, "{series:?}");
    let _ = (series.quantile(99.0), series.noise_pct());
}

/// A trace is checked by the writer and can be read again.
fn assert_sound(recording: &JitterRecording) {
    match recording {
        JitterRecording::Distribution(all) => all.series.iter().for_each(assert_sound_counts),
        JitterRecording::Trace(trace) => {
            let mut bytes = Vec::new();
            format::write(trace, &mut bytes).unwrap();
            let again = format::read(&bytes[..]).unwrap();
            assert_eq!(again.cpus, trace.cpus);
            assert!(again.warnings.is_empty());
        }
    }
}

fn check(bytes: &[u8]) {
    for unit in [None, Some(Unit::Ns), Some(Unit::Ps)] {
        match read(bytes, "in", &ImportOptions { unit, ..options() }) {
            Ok(recording) => assert_sound(&recording),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        check(&bytes);
    }

    #[test]
    fn damaged_samples_are_read_or_refused(
        which in 0..SAMPLES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = SAMPLES[which].1.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(&bytes);
    }

    #[test]
    fn samples_with_other_numbers_are_read_or_refused(
        which in 0..SAMPLES.len(),
        numbers in prop::collection::vec(prop::option::of(
            prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), 0u64..100]), 1..40),
    ) {
        let mut numbers = numbers.iter().cycle();
        let mut text = String::new();
        // Numbers, and what stands between them.
        for part in SAMPLES[which].1.split_inclusive(|c: char| !c.is_ascii_digit()) {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            match numbers.next() {
                Some(Some(number)) if digits > 0 => text += &format!("{number}{}", &part[digits..]),
                _ => text += part,
            }
        }
        check(text.as_bytes());
    }
}

/// The row at an end of a segment has no length, and the one beside it reaches 1 ns beyond
/// it, which is the rounding.
#[test]
fn a_segment_reaches_over_its_events() {
    check(b"# Selfish Benchmark\n# Time [ns]\n1.00\t0.00\n0.00\t100.00\n");
    check(b"# Selfish Benchmark\n# Time [ns]\n0.00\t100.00\n99.00\t0.00\n");
}

/// Of entries that were lost nothing is known, also where there are no samples.
#[test]
fn lost_entries_of_causes_leave_a_gap() {
    let entry = |at: &str| {
        format!(
            "       osnoise/8-961     [008] d.h.  {at}: irq_noise: local_timer:236 start {at} \
             duration 2000 ns\n"
        )
    };
    let text = format!(
        "# tracer: osnoise\n{}CPU:8 [LOST 9 EVENTS]\n{}",
        entry("10.000000000"),
        entry("11.000000000")
    );
    let read = read_as(
        "events of osnoise (ftrace)",
        text.as_bytes(),
        "x",
        &options(),
    )
    .unwrap();
    let trace = read.into_trace().unwrap();
    assert_eq!(trace.cpus[0].known_ns(), 4000, "{:?}", trace.cpus[0].known);
    assert_eq!(trace.cpus[0].events.len(), 2);
}

/// The tracer looked at CPU 1 as well; nothing there took as long as a sample has to be.
#[test]
fn a_cpu_without_samples_is_quiet() {
    let entry = |cpu: u32, at: &str, what: &str| {
        format!("       osnoise/{cpu}-961 [00{cpu}] d.h.  {at}: {what} start {at} duration 9000 ns")
    };
    let sample = |at: &str| entry(0, at, "sample_threshold:") + " interference 0\n";
    let cause = entry(1, "10.5", "irq_noise: local_timer:236");
    let text = sample("10.0") + &cause + "\n" + &sample("11.0");
    let read = read(text.as_bytes(), "x", &options()).unwrap();
    let trace = read.into_trace().unwrap();
    let known: Vec<(u32, u64, usize)> = trace
        .cpus
        .iter()
        .map(|cpu| (cpu.cpu, cpu.known_ns(), cpu.events.len()))
        .collect();
    assert_eq!(known, [(0, 1_000_009_000, 2), (1, 1_000_009_000, 0)]);
}

/// A reader that is given a file of another format reports what is wrong.
#[test]
fn every_reader_survives_other_formats() {
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
        include_str!("mod.rs"),
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    texts.extend(SAMPLES.map(|sample| sample.1.as_bytes().to_vec()));
    texts.push((0..4096u32).map(|i| ((i * 7919) >> 3) as u8).collect());
    assert!(formats().len() > 10);
    for format in formats() {
        for text in &texts {
            let _ = read_as(format, &text[..], "x", &options());
        }
    }
    assert!(read_as("nothing", &b""[..], "x", &options()).is_err());
}
