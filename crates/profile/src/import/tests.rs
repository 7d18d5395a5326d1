// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Importers: what is read, what is decided, what is refused.

use rstest::rstest;

use crate::testing::{assert_damage_is_answered, loads, message, read, read_as};
use crate::{Format, InputSource, Profile, ReadOptions};

const CSV: &str = "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n";

fn csv(rows: &str) -> String {
    format!("{CSV}{rows}")
}

fn sar(rows: &str) -> String {
    format!("Linux 6.1.0 (vm) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n{rows}")
}

const SAR: &str = "  CPU %user %nice %system %iowait %steal %idle\n";

fn json(statistics: &str) -> String {
    format!(
        "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"vm\", \"number-of-cpus\": 2, \
         \"statistics\": [{statistics}], \
         \"restarts\": [{{\"boot\": {{\"date\": \"2026-11-21\"}}}}]}}]}}}}"
    )
}

#[test]
fn cpus_that_come_and_go_and_a_restart_in_sadf_csv() {
    let p = read(&csv("\
vm;10;2026-11-21 01:00:10 UTC;-1;0;0;0;0;0;50.00
vm;10;2026-11-21 01:00:10 UTC;0;0;0;0;0;0;50.00
vm;10;2026-11-21 01:00:10 UTC;1;0;0;0;10.00;20.00;40.00
vm;10;2026-11-21 01:00:20 UTC;0;0;0;0;0;0;40.00
vm;-1;2026-11-21 01:00:50 UTC;LINUX-RESTART\t(2 CPU)
vm;-1;2026-11-21 01:00:51 UTC;COM a comment
# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle
vm;10;2026-11-21 01:01:10 UTC;0;0;0;0;0;0;30.00
vm;10;2026-11-21 01:01:10 UTC;3;0;0;0;0;0;20.00
# hostname;interval;timestamp;proc/s;cswch/s
vm;10;2026-11-21 01:00:10 UTC;3.56;68409.30
# hostname;interval;timestamp;CPU;MHz
vm;10;2026-11-21 01:00:10 UTC;0;3000.00
"));
    assert_eq!(p.header.format, Format::SadfCsv);
    assert_eq!(p.header.cpus, [0, 1, 3]);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T01:00:00Z"
    );
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(50.0), Some(37.5), None]),
            (20, vec![Some(60.0), None, None]),
            (60, vec![None, None, None]),
            (70, vec![Some(70.0), None, Some(80.0)]),
        ]
    );
    assert_eq!(p.steps[0].cells[1].unwrap().steal_pct, 20.0);
    assert_eq!(p.warnings.len(), 3, "{:?}", p.warnings);
}

#[rstest]
#[case("2026-11-21 01:00:10 UTC", "2026-11-21T01:00:00Z")]
#[case("2026-11-21 01:00:10", "2026-11-21T01:00:00")]
#[case("2026-11-21 01:00:10 CET", "2026-11-21T01:00:00")]
#[case("1795222810", "2026-11-21T01:00:00Z")]
fn stamps_of_sadf_csv(#[case] stamp: &str, #[case] begins: &str) {
    let p = read(&csv(&format!("vm;10;{stamp};0;0;0;0;0;0;50.00\n")));
    assert_eq!(p.header.begins_at.unwrap().to_string(), begins);
}

#[test]
fn a_row_of_zeros_is_an_offline_cpu() {
    let p = read(&csv("vm;10;1795222810;0;0.00;0.00;0.00;0.00;0.00;0.00\n"));
    assert_eq!(loads(&p), [(10, vec![None])]);
    let p = read(&csv("vm;10;1795222810;0;90.00;0.00;10.00;0.00;0.00;0.00\n"));
    assert_eq!(loads(&p), [(10, vec![Some(100.0)])]);
}

#[test]
fn a_second_sample_of_the_same_second_is_told() {
    let p = read(&csv("\
vm;1;1795222810;0;0;0;0;0;0;50.00
vm;1;1795222810;0;0;0;0;0;0;60.00
vm;1;1795222811;0;0;0;0;0;0;70.00
"));
    assert_eq!(loads(&p), [(1, vec![Some(50.0)]), (2, vec![Some(30.0)])]);
    assert!(
        p.warnings[0].contains("1 values stand there"),
        "{:?}",
        p.warnings
    );
}

#[test]
fn rounded_stamps_make_no_holes() {
    // A second that was skipped by rounding, an interval of 0.
    let short = "\
vm;0;1795222810;0;0;0;0;0;0;50.00
vm;1;1795222812;0;0;0;0;0;0;60.00
";
    let long = "\
vm;600;1795222810;0;0;0;0;0;0;50.00
vm;600;1795223411;0;0;0;0;0;0;70.00
";
    for rows in [short, long] {
        let p = read(&csv(rows));
        assert_eq!(p.steps.len(), 2);
        assert!(p.warnings.is_empty(), "{:?}", p.warnings);
    }
}

#[rstest]
#[case(
    "vm;10;1795222810;0;0;0;0;0;0;101.00",
    "in:2:30: %idle 101.00 is not between"
)]
#[case(
    "vm;10;1795222810;0;0;0;0;0;0;-1.00",
    "in:2:30: %idle -1.00 is not between"
)]
#[case(
    "vm;10;1795222810;0;0;0;0;0;0;NaN",
    "in:2:30: %idle NaN is not between"
)]
#[case(
    "vm;10;1795222810;0;0;0;0;0;0;50,00",
    "in:2:30: `50,00` is written with a decimal comma"
)]
#[case("vm;10;1795222810;0;0;0;60;0;60", "in:2: expected 10 fields")]
#[case(
    "vm;10;1795222810;0;0;0;0;60;0;60",
    "in:2: %idle + %iowait + %steal 120"
)]
#[case("vm;10;noon;0;0;0;0;0;0;60", "in:2:7: expected a stamp")]
#[case(
    "vm;10;1795222810;zero;0;0;0;0;0;60",
    "in:2:18: expected the number of a CPU"
)]
#[case("vm;ten;1795222810;0;0;0;0;0;0;60", "in:2:4: expected an interval")]
#[case(
    "vm;10;1795222810;-1;0;0;0;0;0;60",
    "no line for a single CPU; export with `-P ALL`"
)]
#[case("", "no sample of CPU load")]
#[case(
    "vm;10;1795222820;0;0;0;0;0;0;60\nvm;10;1795222810;0;0;0;0;0;0;60",
    "in:3: time 2026-11-21 01:00:10 does not come after 2026-11-21 01:00:20"
)]
#[case(
    "vm;10;1795222810;0;0;0;0;0;0;60\nvn;10;1795222820;0;0;0;0;0;0;60",
    "in:3: this line is of host vn"
)]
#[case(
    "# hostname;interval;timestamp;CPU;%idle[...]",
    "run `sadf -d` without -h"
)]
fn refused_sadf_csv(#[case] row: &str, #[case] expected: &str) {
    let got = message(&csv(row), Format::SadfCsv);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn a_wrong_format_named() {
    let native = "time,cpu0\n0,50\n10,end\n";
    for (format, expected) in [
        (Format::SadfCsv, "does not look like sadf-csv"),
        (Format::SadfJson, "in:1: expected `{`"),
        (Format::SarText, "does not look like sar"),
        (Format::ProcStat, "does not look like procstat"),
        (Format::Krash, "in:1:1: expected"),
        (Format::SimGrid, "in:1:1: expected a time in seconds"),
        (Format::RtApp, "can only be written"),
    ] {
        let got = message(native, format);
        assert!(got.contains(expected), "{format}: {got}");
    }
    let got = message(&csv(""), Format::Native);
    assert!(got.contains("empty"), "{got}");
    let unknown = read_as(b"hello\n", None).unwrap_err().to_string();
    assert!(unknown.contains("format is not recognised"), "{unknown}");
}

#[test]
fn both_stamps_and_field_sets_of_sadf_json() {
    let old = json(
        r#"{"timestamp": {"date": "2026-11-21", "time": "01:00:10", "utc": 1, "interval": 10},
            "cpu-load": [{"cpu": "all", "user": 0.00, "iowait": 0.00, "steal": 0.00, "idle": 50.00},
                         {"cpu": "0", "user": 50.00, "iowait": 0.00, "steal": 0.00, "idle": 50.00}],
            "queue": {"runq-sz": 1, "a \"quoted\\ }": "]"}},
           {"timestamp": {"date": "2026-11-21", "time": "01:00:20", "utc": 1, "interval": 10}}"#,
    );
    let new = json(
        r#"{"timestamp": {"date": "2026-11-21", "time": "01:00:10", "tz": "UTC", "interval": 10},
            "cpu-load": [{"cpu": "0", "usr": 40.00, "soft": 10.00, "iowait": 0.00, "steal": 0.00, "idle": 50.00}]}"#,
    );
    let (old, new) = (read(&old), read(&new));
    assert_eq!(old, new);
    assert_eq!(loads(&old), [(10, vec![Some(50.0)])]);
    assert_eq!(old.header.host.as_deref(), Some("vm"));
    assert_eq!(
        old.header.begins_at.unwrap().to_string(),
        "2026-11-21T01:00:00Z"
    );
    assert_eq!(old.warnings, ["the machine was restarted 1 times"]);
}

#[rstest]
#[case(r#""utc": 0"#, "2026-11-21T01:00:00")]
#[case(r#""tz": "CET""#, "2026-11-21T01:00:00")]
#[case(r#""tz": "UTC""#, "2026-11-21T01:00:00Z")]
fn zones_of_sadf_json(#[case] zone: &str, #[case] begins: &str) {
    let p = read(&json(&format!(
        r#"{{"timestamp": {{"date": "2026-11-21", "time": "01:00:10", {zone}, "interval": 10}},
            "cpu-load": [{{"cpu": "0", "idle": 50.00}}]}}"#
    )));
    assert_eq!(p.header.begins_at.unwrap().to_string(), begins);
}

#[test]
fn refused_sadf_json() {
    let one = json(
        "\n{\"timestamp\": {\"date\": \"2026-11-21\", \"time\": \"01:00:10\", \"utc\": 1, \"interval\": 10},\n\
         \"cpu-load\": [{\"cpu\": \"0\", \"idle\": 50.00}]}\n",
    );
    assert!(read_as(one.as_bytes(), None).is_ok());
    // Cut anywhere it is an error, and never a panic.
    for cut in 2..one.len() - 1 {
        let got = message(&one[..cut], Format::SadfJson);
        assert!(got.contains("cut short"), "{cut}: {got}");
    }
    for (from, to, expected) in [
        ("50.00", "500.0", "in:2: %idle 500 is not between"),
        ("50.00", "50,00", "in:3: JSON: "),
        ("50.00", "NaN", "in:3: JSON: "),
        ("\"0\"", "\"all\"", "no line for a single CPU"),
        ("\"0\"", "\"x\"", "expected the number of a CPU"),
        ("\"idle\"", "\"busy\"", "in:3: JSON: missing field `idle`"),
        ("cpu-load", "cpu-mhz", "there is no `cpu-load`"),
        ("01:00:10", "1 o'clock", "expected a date and a time"),
        ("\"hosts\"", "\"guests\"", "there is no `cpu-load`"),
    ] {
        let got = message(&one.replace(from, to), Format::SadfJson);
        assert!(got.contains(expected), "{got}");
    }
}

#[test]
fn sar_over_midnight_with_headers_and_averages() {
    let p = read(&sar(&format!(
        "23:59:50{SAR}23:59:55 all 0 0 0 0 0 50.00\n23:59:55 0 0 0 0 0 0 50.00\n\
         \n23:59:55{SAR}00:00:00 all 0 0 0 0 0 50.00\n00:00:00 0 0 0 0 0 0 40.00\n00:00:00 1 0 0 0 0 0 30.00\n\
         Average: all 0 0 0 0 0 45.00\nAverage: 0 0 0 0 0 0 45.00\n\
         \n00:00:00 proc/s cswch/s\n00:00:05 1.00 2.00\n\
         \n00:00:30     LINUX RESTART\t(2 CPU)\n\
         \n00:00:40{SAR}00:00:45 0 0 0 0 0 0 20.00\n00:00:45 COM hello\n"
    )));
    assert_eq!(p.header.cpus, [0, 1]);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T23:59:50"
    );
    assert_eq!(
        loads(&p),
        [
            (5, vec![Some(50.0), None]),
            (10, vec![Some(60.0), Some(70.0)]),
            (50, vec![None, None]),
            (55, vec![Some(80.0), None]),
        ]
    );
}

#[test]
fn sar_by_the_twelve_hour_clock() {
    let p = read(&sar(&format!(
        "11:59:58 AM{SAR}12:00:00 PM 0 0 0 0 0 0 50.00\n01:00:00 PM 0 0 0 0 0 0 40.00\n\
         11:59:00 PM 0 0 0 0 0 0 40.00\n12:01:00 AM 0 0 0 0 0 0 30.00\n"
    )));
    let ends: Vec<_> = loads(&p).into_iter().map(|l| l.0).collect();
    assert_eq!(ends, [2, 3602, 43_142, 43_262]);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T11:59:58"
    );
}

#[rstest]
#[case(
    "01:00:00 0 0 0 0 0 0 50,00",
    "in:4:22: `50,00` is written with a decimal comma; write it with a point; a tool's output: run the tool with LC_ALL=C"
)]
#[case("01:00:00 0 0 0 0 0 0 150.00", "in:4:22: %idle 150.00 is not between")]
#[case("01:00:00 0 0 0 0", "in:4: expected 7 fields")]
#[case(
    "00:00:30 0 0 0 0 0 0 50.00",
    "in:4: time 00:00:30 does not come after 00:00:50"
)]
#[case(
    "01:00:00 all 0 0 0 0 0 50.00",
    "no line for a single CPU; run `LC_ALL=C sar -P ALL"
)]
#[case("1:00:00 0 0 0 0 0 0 50.00", "in:4:1: expected a time of day")]
fn refused_sar(#[case] row: &str, #[case] expected: &str) {
    let got = message(&sar(&format!("00:00:50{SAR}{row}\n")), Format::SarText);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn snapshots_of_proc_stat() {
    let p = read(
        "# epoch 1795223452\n\
         cpu  1 2 3 4\ncpu0 100 0 100 1000 100 0 0 0 0 0\ncpu1 0 0 0 0\nbtime 1795221508\n\
         # epoch 1795223453.5\n\
         cpu  1 2 3 4\ncpu0 120 0 120 1030 110 0 0 20 5 0\ncpu1 0 0 0 0\ncpu7 1 2 3 4\n\
         # epoch 1795223454\n\
         cpu0 120 0 120 1080 105 0 0 20 5 0\ncpu7 31 2 3 74\n\
         # epoch 1795223455\n\
         cpu0 0 0 0 100 0 0 0 0 0 0\ncpu7 31 2 3 174\n",
    );
    assert_eq!(p.header.cpus, [0, 1, 7]);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T01:10:52Z"
    );
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(50.0), Some(0.0), None]),
            (2, vec![Some(0.0), None, Some(30.0)]),
            (3, vec![None, None, Some(0.0)]),
        ]
    );
    assert_eq!(p.steps[0].end_ns, 1_500_000_000);
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    assert_eq!(p.warnings.len(), 4, "{:?}", p.warnings);
}

/// Samples that end at these seconds: the first begins 10 s before, the others
/// where the one before ended.
fn sampled_at(ends_s: &[u64], format: Format) -> String {
    let mut text = match format {
        Format::SarText => sar(&format!("00:00:50{SAR}")),
        Format::SadfCsv => CSV.to_owned(),
        _ => String::new(),
    };
    if format == Format::ProcStat {
        let before = ends_s[0] - 10;
        text += &format!("# epoch {before}\ncpu0 {before} 0 0 {before}\n");
    }
    let mut last_s = ends_s[0] - 10;
    for end_s in ends_s {
        let (h, m, s) = (end_s / 3600 % 24, end_s / 60 % 60, end_s % 60);
        text += &match format {
            Format::SarText => format!("{h:02}:{m:02}:{s:02} 0 50.00 0 0 0 0 50.00\n"),
            Format::SadfCsv => format!("vm;{};{end_s};0;50;0;0;0;0;50\n", end_s - last_s),
            _ => format!("# epoch {end_s}\ncpu0 {end_s} 0 0 {end_s}\n"),
        };
        last_s = *end_s;
    }
    text
}

#[rstest]
fn the_mean_over_a_pause_is_no_load(
    #[values(Format::SarText, Format::SadfCsv, Format::ProcStat)] format: Format,
) {
    // 00:00:50.
    const BEGIN: u64 = 1_795_219_250;
    let at = |seconds: &[u64]| -> Vec<u64> { seconds.iter().map(|s| BEGIN + s).collect() };
    // 110 s is more than ten times the median, 100 s is not.
    let p = read(&sampled_at(&at(&[10, 20, 120, 130, 240, 250]), format));
    let unknown: Vec<(u64, u64)> = p
        .steps
        .iter()
        .filter(|step| step.cells == [None])
        .map(|step| {
            (
                step.start_ns / 1_000_000_000,
                step.length_ns() / 1_000_000_000,
            )
        })
        .collect();
    let begin = p.steps[0].end_ns / 1_000_000_000;
    assert_eq!(unknown, [(120 + begin, 110)], "{:?}", p.steps);
    let told = format!(
        "usual (10 s), 110 s in all, the longest at {} s for 110 s",
        120 + begin
    );
    assert!(
        p.warnings.iter().any(|text| text.contains(&told)),
        "{:?}",
        p.warnings
    );
    // Of two nobody knows which one is usual.
    let p = read(&sampled_at(&at(&[10, 1000]), format));
    assert!(
        p.steps.iter().all(|step| step.cells != [None]),
        "{:?}",
        p.steps
    );
}

#[rstest]
#[case("cpu0 1 2 3 4\n", "no line before the snapshot says when it was taken")]
#[case("1\ncpu0 1 2 3 4\n", "one snapshot holds no load")]
#[case("1\n2\n3\n", "it has no lines `cpu<N> ...`")]
#[case("1\ncpu0 1 2 3\n", "in:2: expected at least four counters")]
#[case("1\ncpu0 1 2 x 4\n", "in:2:10: expected a counter, found `x`")]
#[case("1\ncpu0 1 2 3 4\ncpu0 1 2 3 4\n", "in:3:1: `cpu0` stands twice")]
#[case("2\ncpu0 1 2 3 4\n1\ncpu0 1 2 3 4\n", "does not come after")]
fn refused_snapshots(#[case] text: &str, #[case] expected: &str) {
    let got = message(text, Format::ProcStat);
    assert!(got.contains(expected), "{got}");
}

const HEAD: &str = "cgroup_root = /\nall_name = all\ncpu { profile { 0 { 0 70 60 30% } # here\n 3 { 10 100 } } }\nkill 150\n";
const OLDER: &str = "cpu {\n cgroup_root = /dev/cgroup\n all_name = alltasks\n burner_basename = burner.\n profile { 0 { 0 70 60 30 } 3 { 10 100 } } }\nkill 150";

#[rstest]
#[case(HEAD)]
#[case(OLDER)]
fn both_dialects_of_krash(#[case] text: &str) {
    let p = read(text);
    assert_eq!(p.header.format, Format::Krash);
    assert_eq!(p.header.cpus, [0, 3]);
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(70.0), Some(0.0)]),
            (60, vec![Some(70.0), Some(100.0)]),
            (150, vec![Some(30.0), Some(100.0)]),
        ]
    );
    assert_eq!(p.warnings.len(), 2, "{:?}", p.warnings);
    assert!(p.warnings[0].contains("cpu3 have no entry at second 0"));
    assert!(p.warnings[1].contains("KRASH itself makes 99"));
}

#[rstest]
#[case(
    "cpu { profile { 0 { 0 70 } } }",
    "in: the profile has no end; add a line `kill <seconds>`"
)]
#[case(
    "cpu { profile { 0 { 0 101 } } } kill 5",
    "in:1:23: load of cpu0 101 is not between"
)]
#[case(
    "cpu { profile { 0 { 0 0.5 } } } kill 5",
    "in:1:23: expected a whole percentage after the second, found `0.5`"
)]
#[case(
    "cpu { profile { 0 { 0 -5 } } } kill 5",
    "in:1:23: expected a whole percentage"
)]
#[case(
    "cpu { profile { 0 { 0 0,5 } } } kill 5",
    "in:1:1: expected whole numbers divided by blanks"
)]
#[case(
    "cpu { profile { 0 { 5 1 5 2 } } } kill 9",
    "in:1: time 5 does not come after 5"
)]
#[case(
    "cpu { profile { 0 { 0 1 } 0 { 0 2 } } } kill 9",
    "in:1: `CPU 0` stands twice"
)]
#[case(
    "cpu { profile { 99999 { 0 1 } } } kill 9",
    "in:1:17: expected the number of a CPU"
)]
#[case(
    "cpu { profile { 0 { 0 1 } }",
    "in:1: expected `profile` or `}`, found the end of the file"
)]
#[case("kill 9", "it holds no `cpu {")]
#[case("kill 9 kill 10", "in:1: `kill` stands twice")]
#[case(
    "cpu { profile { 0 { 0 1 } } } kill 0",
    "nothing of the profile is left"
)]
#[case(
    "cpu { profil { 0 { 0 1 } } } kill 5",
    "in:1:7: expected `profile` or `}`, found `profil`"
)]
fn refused_krash(#[case] text: &str, #[case] expected: &str) {
    let got = message(text, Format::Krash);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn an_end_for_krash_from_outside() {
    let text = b"cpu { profile { 0 { 0 70 } } }";
    let source = InputSource::spool(&mut &text[..], "in".into()).unwrap();
    let options = ReadOptions {
        end_ns: Some(5),
        ..ReadOptions::default()
    };
    let p = Profile::collect(source.open(None, &options).unwrap()).unwrap();
    assert_eq!(p.end_ns(), 5);
}

#[test]
fn damage_is_answered() {
    for (good, format) in [
        (HEAD, Format::Krash),
        (OLDER, Format::Krash),
        (
            include_str!("../../tests/fixtures/two_cpus.u.json"),
            Format::SadfJson,
        ),
        (
            include_str!("../../tests/fixtures/two_cpus.uall.csv"),
            Format::SadfCsv,
        ),
        (
            include_str!("../../tests/fixtures/two_cpus.sar.txt"),
            Format::SarText,
        ),
        (
            include_str!("../../tests/fixtures/two_cpus.procstat.txt"),
            Format::ProcStat,
        ),
    ] {
        assert_damage_is_answered(good, format);
    }
}

#[test]
fn a_second_document_is_not_left_out_without_a_word() {
    let one = json(
        r#"{"timestamp": {"date": "2026-11-21", "time": "01:00:10", "utc": 1, "interval": 10},
            "cpu-load": [{"cpu": "0", "user": 50.00, "iowait": 0.00, "steal": 0.00, "idle": 50.00}]}"#,
    );
    read(&format!("{one}\n\n"));
    for more in [&one[..], "]", "x"] {
        let got = message(&format!("{one}\n{more}"), Format::SadfJson);
        assert!(got.contains("something follows the document"), "{got}");
    }
}
