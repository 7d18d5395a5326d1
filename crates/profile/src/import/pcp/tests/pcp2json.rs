// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pcp2json`.

use crate::Format;
use crate::testing::{loads, message, read};

use super::begins;

fn instances(unit: &str, values: [u64; 2]) -> String {
    let one = |cpu: usize| {
        format!(
            "{{\"@unit\": \"{unit}\", \"name\": \"cpu{cpu}\", \"value\": \"{}\"}}",
            values[cpu]
        )
    };
    format!("{{\"@instances\": [{}, {}]}}", one(0), one(1))
}

fn element(stamp: &str, unit: &str, user: [u64; 2], idle: [u64; 2]) -> String {
    format!(
        "{{\"@interval\": \"1\", \"@timestamp\": \"{stamp}\", \"kernel\": {{\"all\": {{}}, \
         \"percpu\": {{\"cpu\": {{\"user\": {}, \"sys\": {},\n\"idle\": {}, \"vuser\": {}}}}}}}}}",
        instances(unit, user),
        instances(unit, [0, 0]),
        instances(unit, idle),
        instances(unit, user),
    )
}

const BEFORE: &str = "{ \"//\": \"Writing 3 archived metrics to stdout...\" }\n\
                      { \"//\": \"(Ctrl-C to stop)\" }\n";

fn document(metrics: &[String]) -> String {
    format!(
        "{BEFORE}{{\"@pcp\": {{\"@hosts\": [{{\"@host\": \"vm\", \"@metrics\": [\n{}\n], \
         \"@source\": \"archive\", \"@timezone\": \"UTC+10\"}}]}}}}\n",
        metrics.join(",\n")
    )
}

pub(super) fn two_elements() -> String {
    document(&[
        element(
            "2016-05-19 09:24:07",
            "millisec",
            [1000, 2000],
            [90_000, 80_000],
        ),
        element(
            "2016-05-19 09:24:08",
            "millisec",
            [1250, 2500],
            [90_750, 80_500],
        ),
    ])
}

#[test]
fn counters_of_pcp2json() {
    let p = read(&two_elements());
    assert_eq!(p.header.format, Format::Pcp2Json);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(begins(&p), "2016-05-18T23:24:07Z");
    assert_eq!(loads(&p), [(1, vec![Some(25.0), Some(50.0)])]);
    // Written to a file it has no lines before it, -E writes numbers.
    let bare = two_elements().replace(BEFORE, "");
    assert_eq!(read(&bare), p);
    let numbers = with_numbers(&bare);
    assert_ne!(numbers, bare);
    assert_eq!(read(&numbers), p);
    let seconds = two_elements().replace("millisec", "sec");
    assert_eq!(loads(&read(&seconds)), loads(&p));
    let nowhere = two_elements().replace("UTC+10", "UTC+03>-3");
    assert_eq!(begins(&read(&nowhere)), "2016-05-19T09:24:07");
}

/// `"value": "12"` as `"value": 12`.
fn with_numbers(text: &str) -> String {
    let mut parts = text.split("\"value\": \"");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        out += "\"value\": ";
        out += &part.replacen('"', "", 1);
    }
    out
}

#[test]
fn rates_of_pcp2json() {
    let p = read(&document(&[
        "{\"@interval\": \"0\", \"@timestamp\": \"2016-05-19 09:24:07\"}".into(),
        element("2016-05-19 09:24:08", "ms/s", [250, 500], [750, 500]),
        element("2016-05-19 09:24:10", "ms/s", [100, 0], [900, 1000]),
    ]));
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(25.0), Some(50.0)]),
            (3, vec![Some(10.0), Some(0.0)])
        ]
    );
}

#[test]
fn rates_since_an_unknown_moment_are_left_out() {
    let p = read(&document(&[
        element("2016-05-19 09:24:08", "ms/s", [250, 500], [750, 500]),
        element("2016-05-19 09:24:10", "ms/s", [100, 0], [900, 1000]),
    ]));
    assert_eq!(loads(&p), [(2, vec![Some(10.0), Some(0.0)])]);
    assert!(p.warnings[1].contains("first stamp"), "{:?}", p.warnings);
}

#[test]
fn refused_pcp2json() {
    let two = two_elements();
    let whole = two.trim_end().len();
    // Cut anywhere it is an error, and never a panic.
    for cut in BEFORE.len() + 2..whole {
        let got = message(&two[..cut], Format::Pcp2Json);
        assert!(got.contains("cut short"), "{cut}: {got}");
    }
    for (from, to, expected) in [
        (
            "\"idle\"",
            "\"busy\"",
            "it lacks kernel.percpu.cpu.idle, without which",
        ),
        (
            "\"percpu\"",
            "\"perdisk\"",
            "it holds no value of kernel.percpu.cpu.*",
        ),
        (
            "\"@metrics\"",
            "\"@other\"",
            "it holds no value of kernel.percpu.cpu.*",
        ),
        (
            "millisec",
            "hour",
            "in:4: expected the @unit millisec, sec or ms/s",
        ),
        (
            "cpu1\"",
            "cpux\"",
            "in:4: expected an instance such as cpu0, found `cpux`",
        ),
        ("cpu1\"", "cpu0\"", "in:4: `an instance cpu0` stands twice"),
        ("90750", "none", "in:6: expected a counter in ms"),
        (
            "09:24:08",
            "9 o'clock",
            "in:6: expected a @timestamp such as",
        ),
        ("09:24:08", "09:24:06", "does not come after"),
        (
            "\"@timestamp\"",
            "\"@time\"",
            "in:5: JSON: missing field `@timestamp`",
        ),
    ] {
        let got = message(&two.replace(from, to), Format::Pcp2Json);
        assert!(got.contains(expected), "{got}");
    }
    let mixed = document(&[
        element(
            "2016-05-19 09:24:07",
            "millisec",
            [1000, 2000],
            [90_000, 80_000],
        ),
        element("2016-05-19 09:24:08", "ms/s", [250, 500], [750, 500]),
    ]);
    let got = message(&mixed, Format::Pcp2Json);
    assert!(
        got.contains("in:6: expected either counters or rates"),
        "{got}"
    );
}
