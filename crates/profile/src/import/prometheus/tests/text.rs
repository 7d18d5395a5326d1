// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenMetrics text: its forms, and what is refused.

use super::*;

#[test]
fn openmetrics_text_in_all_its_forms() {
    let forms = [
        "# HELP node_cpu_seconds_total Seconds.\n\
         # TYPE node_cpu_seconds counter\n\
         up 1 100\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 1.5e+01 1698674400.000\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 20 1698674410.000 # {trace=\"}\"} 1 2\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"system\"} 0 1698674400\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"system\"} 0 1698674410\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"idle\",} 0 1698674400\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"idle\",} 5 1698674410\n\
         # EOF\n",
        "{__name__=\"node_cpu_seconds_total\", cpu=\"0\", mode=\"user\"} 15 1698674400000\n\
         {__name__=\"node_cpu_seconds_total\", cpu=\"0\", mode=\"user\"} 20 1698674410000\n\
         {__name__=\"node_cpu_seconds_total\", cpu=\"0\", mode=\"system\"} 0 1698674400000\n\
         {__name__=\"node_cpu_seconds_total\", cpu=\"0\", mode=\"system\"} 0 1698674410000\n\
         {__name__=\"node_cpu_seconds_total\", cpu=\"0\", mode=\"idle\"} 0 1698674400000\n\
         {__name__=\"node_cpu_seconds_total\", cpu=\"0\", mode=\"idle\"} 5 1698674410000\n\
         {__name__=\"up\", note=\"\\\"}\\n\"} 5 1698674410000\n",
        // Moment by moment; milliseconds as the older text format has them.
        "node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 15 1698674400000\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"system\"} 0 1698674400000\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 0 1698674400000\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 20 1698674410000\n\
         {\"node_cpu_seconds_total\",cpu=\"0\",\"mode\"=\"system\"} 0 1698674410000\n\
         node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 5 1698674410000",
    ];
    for text in forms {
        let p = read(text);
        assert_eq!(p.header.format, Format::OpenMetrics);
        assert_eq!(loads(&p), [(10, vec![Some(50.0)])], "{text}");
        assert_eq!(
            p.header.begins_at.unwrap().to_string(),
            "2023-10-30T14:00:00Z"
        );
        assert!(p.warnings.is_empty(), "{:?}", p.warnings);
        assert_eq!(read(&text.replace('\n', "\r\n")), p);
    }
    let p = read(&forms[0].replace("# EOF\n", ""));
    assert!(p.warnings[0].contains("# EOF"), "{:?}", p.warnings);
}

#[test]
fn text_that_holds_no_recording_is_refused() {
    let refused = |text: &str, said: &str| {
        let got = message(text, Format::OpenMetrics);
        assert!(got.contains(said), "{got}");
    };
    let scrape =
        "# HELP node_cpu_seconds_total x\nnode_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 5\n";
    assert_eq!(Format::detect(scrape.as_bytes()), Some(Format::OpenMetrics));
    refused(scrape, "have no time stamps: a scrape of /metrics");
    let other = "my_counter{baz=\"abc\"} 1 0.000\nmy_gauge{} 3 0.000\n# EOF\n";
    assert_eq!(Format::detect(other.as_bytes()), Some(Format::OpenMetrics));
    refused(other, "but my_counter, my_gauge");
    let line = "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 1 5\n";
    refused(line, "one snapshot");
    refused(
        &format!("{line}{}", &line[..30]),
        "in:2: expected a whole line",
    );
    refused(
        &format!("{line}{}", line.replace("\"} 1", "} 1")),
        "mode=\"...\"",
    );
    refused(
        &line.replace("} 1", "} x"),
        "expected a value after the series, found `x`",
    );
    refused(
        &line.replace(" 5\n", " x\n"),
        "expected a time stamp, found `x`",
    );
    refused(
        &line.replace(" 5\n", " 5 7\n"),
        "expected nothing behind the time stamp",
    );
    refused(&line.replace(" 5\n", " 1e300\n"), "expected a time stamp");
    refused(
        &format!("{line}{}", line.replace(" 5\n", " 4\n")),
        "time 4.000 does not come after",
    );
}

#[test]
fn a_cpu_without_all_modes_is_unknown() {
    let line = |cpu, mode, value, time| {
        format!("node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {value} {time}\n")
    };
    let mut text = String::new();
    for (cpu, modes) in [
        (0, &["user", "system", "idle"][..]),
        (1, &["user", "system"]),
    ] {
        for mode in modes {
            text += &line(cpu, mode, 1, 100);
            text += &line(cpu, mode, 2, 110);
        }
    }
    let p = read(&(text + "# EOF\n"));
    assert_eq!(p.steps[0].cells[1], None);
    assert!(p.steps[0].cells[0].is_some());
    assert!(
        p.warnings[0].contains("cpu1 has not all"),
        "{:?}",
        p.warnings
    );
}
