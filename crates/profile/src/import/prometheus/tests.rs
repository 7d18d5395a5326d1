// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read, what is decided, what is refused.

mod properties;
mod text;

use std::fmt::Write as _;

use rstest::rstest;

use crate::testing::{loads, message, read, read_as};
use crate::{Format, InputSource, Profile, ProfileCell, ReadOptions};

/// A series of a document.
fn series(labels: &str, points: &[(&str, &str)]) -> String {
    let labels: Vec<String> = labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(key, value)| format!("\"{key}\":\"{value}\""))
        .collect();
    let points: Vec<String> = points
        .iter()
        .map(|(time, value)| format!("[{time},\"{value}\"]"))
        .collect();
    format!(
        "{{\"metric\":{{{}}},\"values\":[{}]}}",
        labels.join(","),
        points.join(",")
    )
}

fn matrix(series: &[String]) -> String {
    format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}",
        series.join(",")
    )
}

/// Counters of CPU 0 on one machine, `(time, user, idle)`.
fn counters(machine: &str, points: &[(&str, &str, &str)]) -> Vec<String> {
    ["user", "idle", "system"]
        .iter()
        .enumerate()
        .map(|(i, mode)| {
            let points: Vec<(&str, &str)> = points
                .iter()
                .map(|(time, user, idle)| (*time, [*user, *idle, "5"][i]))
                .collect();
            series(
                &format!("__name__=node_cpu_seconds_total,cpu=0,mode={mode}{machine}"),
                &points,
            )
        })
        .collect()
}

const T: [&str; 4] = ["1698674400", "1698674410", "1698674420", "1698674430"];

fn of(text: &str, machine: &str) -> crate::Result<Profile> {
    let source = InputSource::spool(&mut text.as_bytes(), "in".into())?;
    let options = ReadOptions {
        machine: Some(machine.into()),
        ..ReadOptions::default()
    };
    Profile::collect(source.open(None, &options)?)
}

#[test]
fn counters_become_loads_and_steal_stays_apart() {
    let mut all = counters(
        ",instance=vm:9100,job=node",
        &[(T[0], "10", "20"), (T[1], "14", "24"), (T[2], "14", "34")],
    );
    all.push(series(
        "__name__=node_cpu_seconds_total,cpu=0,mode=steal,instance=vm:9100,job=node",
        &[(T[0], "1"), (T[1], "3"), (T[2], "3")],
    ));
    all.push(series(
        "__name__=node_cpu_guest_seconds_total,cpu=0,mode=user,instance=vm:9100,job=node",
        &[(T[0], "1"), (T[1], "9"), (T[2], "9")],
    ));
    let p = read(&matrix(&all));
    assert_eq!(p.header.format, Format::Prometheus);
    assert_eq!(p.header.host.as_deref(), Some("vm:9100"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2023-10-30T14:00:00Z"
    );
    assert!(p.header.has_steal);
    assert_eq!(
        loads(&p),
        [(10, vec![Some(50.0)]), (20, vec![Some(0.0)])],
        "{p:?}"
    );
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    assert_eq!(p.warnings.len(), 1);
    assert!(p.warnings[0].contains("guest"), "{:?}", p.warnings);
}

#[test]
fn parts_of_an_answer_follow_each_other() {
    let one = |points: &[_]| matrix(&counters("", points));
    let first = one(&[(T[0], "0", "0"), (T[1], "5", "5")]);
    let second = one(&[(T[1], "5", "5"), (T[2], "5", "15")]);
    for between in ["", "\n"] {
        let p = read(&format!("{first}{between}{second}\n"));
        assert_eq!(
            loads(&p),
            [(10, vec![Some(50.0)]), (20, vec![Some(0.0)])],
            "{p:?}"
        );
        assert!(p.warnings.is_empty(), "{:?}", p.warnings);
    }
    let got = message(&format!("{second}{first}"), Format::Prometheus);
    assert!(got.contains("in the order of its times"), "{got}");
    let got = message(&format!("{first}nonsense"), Format::Prometheus);
    assert!(got.contains("in:1: JSON: "), "{got}");
}

#[test]
fn data_alone_and_series_alone_are_read() {
    let all = counters("", &[(T[0], "0", "0"), (T[1], "5", "5")]);
    let whole = read(&matrix(&all));
    let data = format!(
        "{{\"resultType\":\"matrix\",\"result\":[{}],\"stats\":{{}}}}",
        all.join(",")
    );
    let alone = format!("\u{feff}[{}]", all.join(",\n"));
    for text in [data, alone] {
        assert_eq!(read(&text), whole);
    }
}

#[test]
fn one_machine_of_several_is_named() {
    let one = |machine, busy| {
        counters(
            machine,
            &[(T[0], "0", "0"), (T[1], busy, "5"), (T[2], busy, "15")],
        )
    };
    let all = [
        one(",instance=a:9100,job=web", "5"),
        one(",instance=b:9100,job=web", "15"),
        one(",instance=c,job=db", "0"),
    ];
    let json = matrix(&all.concat());
    let text = all.concat().iter().fold(String::new(), |mut text, one| {
        let one: serde_json::Value = serde_json::from_str(one).unwrap();
        let labels: Vec<String> = one["metric"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        for point in one["values"].as_array().unwrap() {
            let _ = writeln!(
                text,
                "{{{}}} {} {}000",
                labels.join(", "),
                point[1].as_str().unwrap(),
                point[0]
            );
        }
        text
    });
    assert!(text.starts_with("{__name__="), "{text}");
    for text in [json, text] {
        let e = read_as(text.as_bytes(), None).unwrap_err().to_string();
        assert!(
            e.contains("there are 3 machines, a:9100 (job web), b:9100 (job web), c (job db)"),
            "{e}"
        );
        for (name, load) in [
            ("a:9100", 50.0),
            ("a", 50.0),
            ("b", 75.0),
            ("c", 0.0),
            ("db", 0.0),
        ] {
            let p = of(&text, name).unwrap();
            assert_eq!(loads(&p)[0], (10, vec![Some(load)]), "{name}");
        }
        let e = of(&text, "web").err().unwrap().to_string();
        assert!(e.contains("there are 2 machines, a:9100"), "{e}");
        let e = of(&text, "d").err().unwrap().to_string();
        assert!(
            e.contains("3 machines") && e.contains("there is no `d`"),
            "{e}"
        );
    }
}

#[test]
fn rates_are_told_from_counters() {
    let rate = |name: &str, user: &[&str], idle: &[&str]| {
        let points = |values: &[&'static str]| -> Vec<_> {
            T.iter().copied().zip(values.iter().copied()).collect()
        };
        let user: Vec<&'static str> = user.iter().map(|s| &*s.to_string().leak()).collect();
        let idle: Vec<&'static str> = idle.iter().map(|s| &*s.to_string().leak()).collect();
        matrix(&[
            series(&format!("{name}cpu=0,mode=user"), &points(&user)),
            series(&format!("{name}cpu=0,mode=system"), &points(&["0"; 4])),
            series(&format!("{name}cpu=0,mode=idle"), &points(&idle)),
        ])
    };
    let told = "taken for rates";
    // Extrapolated by one percent; the whole is the sum.
    for (name, user, idle) in [
        (
            "",
            ["0.505", "0.2", "0.3", "0.1"],
            ["0.505", "0.8", "0.7", "0.9"],
        ),
        ("", ["50.5", "20", "30", "10"], ["50.5", "80", "70", "90"]),
        (
            "__name__=node_cpu_seconds_total,",
            ["0.5", "0.2", "0.3", "0.1"],
            ["0.5", "0.8", "0.7", "0.9"],
        ),
    ] {
        let p = read(&rate(name, &user, &idle));
        assert_eq!(
            loads(&p),
            [
                (10, vec![Some(50.0)]),
                (20, vec![Some(20.0)]),
                (30, vec![Some(30.0)]),
                (40, vec![Some(10.0)])
            ],
            "{p:?}"
        );
        assert!(
            p.warnings.len() == 1 && p.warnings[0].contains(told),
            "{:?}",
            p.warnings
        );
        // Before the first stamp lies what its value is the mean of.
        assert_eq!(
            p.header.begins_at.unwrap().to_string(),
            "2023-10-30T13:59:50Z"
        );
    }
    let p = read(&rate(
        "",
        &["100", "105", "110", "111"],
        &["1", "6", "11", "20"],
    ));
    assert_eq!(loads(&p)[0], (10, vec![Some(50.0)]));
    assert!(p.warnings[0].contains("taken for counters"), "{p:?}");
    // Nothing is known where a value is none, or nothing moved.
    let p = read(&rate(
        "",
        &["0.5", "NaN", "0", "+Inf"],
        &["0.5", "0.5", "0", "1"],
    ));
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(50.0)]),
            (20, vec![None]),
            (30, vec![None]),
            (40, vec![None])
        ]
    );
    assert!(p.warnings.iter().any(|w| w.contains("NaN")), "{p:?}");
    assert!(
        p.warnings
            .iter()
            .any(|w| w.contains("all modes of a CPU are 0"))
    );
}

#[test]
fn a_missing_rate_is_a_hole() {
    let all: Vec<String> = ["user", "idle", "system"]
        .iter()
        .map(|mode| {
            let times = ["100", "110", "120", "150"];
            let points: Vec<_> = times.iter().map(|t| (*t, "0.3")).collect();
            series(&format!("cpu=3,mode={mode}"), &points)
        })
        .collect();
    let p = read(&matrix(&all));
    assert_eq!(p.header.cpus, [3]);
    assert_eq!(p.header.begins_at, None);
    let ends: Vec<u64> = loads(&p).iter().map(|step| step.0).collect();
    assert_eq!(ends, [10, 20, 30, 50, 60]);
    assert_eq!(loads(&p)[3].1, [None]);
    assert!(
        p.warnings.iter().any(|w| w.contains("1 holes, 20 s")),
        "{p:?}"
    );
}

#[test]
fn repeated_scrapes_are_joined_with_the_next() {
    // Scraped every 30 s, asked for every 10 s.
    let times: Vec<String> = (0..10)
        .map(|i| (1_698_674_400 + i * 10).to_string())
        .collect();
    let values: Vec<(String, String)> = (0..10)
        .map(|i| i / 3)
        .map(|i| (format!("{}", i * 6), format!("{}", i * 24)))
        .collect();
    let points: Vec<(&str, &str, &str)> = times
        .iter()
        .zip(&values)
        .map(|(t, (user, idle))| (&**t, &**user, &**idle))
        .collect();
    let p = read(&matrix(&counters("", &points)));
    let twenty = |end| (end, vec![Some(20.0)]);
    assert_eq!(loads(&p), [30, 60, 90].map(twenty), "{p:?}");
    assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
    assert!(
        p.warnings[0].contains("6 of 10 samples repeat") && p.warnings[0].contains("10 s"),
        "{:?}",
        p.warnings
    );
}

#[test]
fn restarts_and_pauses() {
    let points = [
        ("1000000000", "100", "100"),
        ("1000000010", "105", "105"),
        ("1000000020", "1", "2"),
        ("1000000030", "6", "7"),
        ("1000000130", "16", "97"),
        ("1000000140", "16", "106.9"),
    ];
    let p = read(&matrix(&counters("", &points)));
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(50.0)]),
            (20, vec![None]),
            (30, vec![Some(50.0)]),
            (130, vec![Some(10.0)]),
            (140, vec![Some(0.0)]),
        ]
    );
    assert!(p.warnings[0].contains("began anew"), "{:?}", p.warnings);
    assert!(
        p.warnings[1].contains("1 times nothing was scraped")
            && p.warnings[1].contains("the longest at 2001-09-09 01:47:10 for 100 s"),
        "{:?}",
        p.warnings
    );
}

#[rstest]
#[case(&[("idle", ["100", "107", "117.5"])], 30.0, "only idle is there")]
#[case(&[("idle", ["100", "107", "117"]), ("iowait", ["3", "4", "4"])], 20.0, "only idle, iowait")]
#[case(&[("user", ["100", "102", "102"]), ("system", ["0", "1", "1"])], 30.0, "mode idle is not there")]
#[case(&[("idle", ["100", "107", "117"]), ("user", ["3", "4", "4"])], 30.0, "do not add up")]
#[case(&[("idle", ["0.7", "1", "1"])], 30.0, "only idle is there")]
#[case(&[("idle", ["70", "100", "9"])], 30.0, "only idle is there")]
#[case(&[("user", ["0.3", "0", "0"])], 30.0, "mode idle is not there")]
fn where_modes_are_missing_the_wall_time_is_the_whole(
    #[case] modes: &[(&str, [&'static str; 3])],
    #[case] first: f64,
    #[case] told: &str,
) {
    let rising = modes[0].1[0].parse::<f64>().unwrap() >= 100.0;
    let name = if rising {
        "__name__=node_cpu_seconds_total,"
    } else {
        ""
    };
    let all: Vec<String> = modes
        .iter()
        .map(|(mode, values)| {
            let points: Vec<_> = T.iter().copied().zip(values.iter().copied()).collect();
            series(&format!("{name}cpu=0,mode={mode}"), &points)
        })
        .collect();
    let p = read(&matrix(&all));
    assert_eq!(loads(&p)[0], (10, vec![Some(first)]), "{p:?}");
    assert!(
        p.warnings.iter().any(|w| w.contains(told)),
        "{:?}",
        p.warnings
    );
}

#[test]
fn more_time_than_there_was_is_counted() {
    let points: Vec<_> = T
        .iter()
        .copied()
        .zip(["100", "100", "130", "130"])
        .collect();
    let p = read(&matrix(&[series(
        "__name__=node_cpu,cpu=cpu0,mode=idle",
        &points,
    )]));
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(100.0)]),
            (20, vec![Some(0.0)]),
            (30, vec![Some(100.0)])
        ]
    );
    assert!(
        p.warnings
            .iter()
            .any(|w| w.contains("in 1 samples a CPU spent more time")),
        "{:?}",
        p.warnings
    );
}

#[test]
fn what_is_no_matrix_of_cpu_time_is_refused() {
    let refused = |text: &str, said: &str| {
        let got = message(text, Format::Prometheus);
        assert!(got.contains(said), "{got}");
    };
    refused(
        r#"{"status":"error","errorType":"bad_data","error":"parse error: \"x\""}"#,
        "Prometheus answers with an error: bad_data: parse error: \"x\"",
    );
    refused(
        r#"{"status":"error","data":null,"errorType":"execution","error":"x"}"#,
        "execution: x",
    );
    refused(
        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
        "resultType is vector, not matrix: ask /api/v1/query_range",
    );
    refused(
        r#"[{"metric":{"cpu":"0","mode":"idle"},"value":[1698674400,"1"]}]"#,
        "it is of one moment",
    );
    refused(&matrix(&[]), "it holds no series");
    refused("{}", "no data.result");
    refused("[]", "it holds no series");
    refused("[3]", "expected a series");
    refused(&matrix(&[series("__name__=up", &[])]), "but up");
    refused(
        &matrix(&[series("mode=idle", &[(T[0], "1")])]),
        "keep the labels cpu and mode",
    );
    refused(
        &matrix(&[series("cpu=x,mode=idle", &[])]),
        "expected the number of a CPU as label `cpu`, found `x`",
    );
    refused(
        &matrix(&[series("cpu=0,mode=dpc", &[])]),
        "mode dpc and others",
    );
    refused(&matrix(&[series("cpu=0,mode=idle", &[])]), "one snapshot");
    refused(
        &matrix(&[series("cpu=0,mode=idle", &[(T[0], "1")])]),
        "one snapshot",
    );
    refused(
        &matrix(&[
            series("cpu=0,mode=idle,replica=a", &[(T[0], "1")]),
            series("cpu=0,mode=idle,replica=b", &[(T[0], "1")]),
        ]),
        "cpu0 idle stands twice, as a series without a name{replica=\"a\"} and as",
    );
    refused(
        &matrix(&[series("cpu=0,mode=idle", &[(T[0], "1,5")])]),
        "expected a value in quotes",
    );
    refused(
        &matrix(&[series("cpu=0,mode=idle", &[("-1", "1")])]),
        "is no time",
    );
    refused(
        &matrix(&[series("cpu=0,mode=iowait", &[(T[0], "1"), (T[1], "2")])]),
        "export mode idle at least",
    );
    let whole = matrix(&counters("", &[(T[0], "0", "0"), (T[1], "5", "5")]));
    refused(&whole[..whole.len() - 30], "the file was cut short");
    let long = format!("{{\"x\": \"{}", "x".repeat(40 << 20));
    refused(&long, "no value in");
}
